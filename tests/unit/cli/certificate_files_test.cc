// Certificates that the command line makes, and what the daemon thinks of them.
#include "client/cli/certificate_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "client/cli/options/life_option.h"
#include "server/access/certificate_check.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/unique_fd.h"
#include "server/dial/dial.h"
#include "server/dial/dial_options.h"
#include "server/dial/probe.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kDayMs = 24 * 3600 * 1000;

class CertificateFilesTest : public testing::Test {
 protected:
  CertificateFilesTest() { EXPECT_TRUE(MakeAuthority(Ca(), 3650 * kDayMs, clock_.WallMs()).ok()); }
  std::string Ca() const { return directory_.File("ca"); }
  absl::StatusOr<CertificateFiles> Issue(const std::string& name, const std::string& roles,
                                         const std::vector<std::string>& hosts = {}, int64_t life_ms = 90 * kDayMs,
                                         const std::string& folder = "") {
    return IssueCertificate({folder.empty() ? Ca() : folder, name, roles, hosts, life_ms, clock_.WallMs()});
  }
  static std::string Text(const std::string& path) { return ReadFile(path, 1 << 20).value(); }
  std::unique_ptr<CertificateCheck> Check() { return CertificateCheck::Open(Ca() + "/ca.pem", &clock_).value(); }
  absl::StatusOr<Principal> Judged(CertificateCheck* check, const absl::StatusOr<CertificateFiles>& files) {
    EXPECT_TRUE(files.ok()) << files.status().ToString();
    return check->Check(Text(files->certificate), "");
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
};

TEST_F(CertificateFilesTest, TheIdentityIsInTheUri) {
  const auto check = Check();
  const Principal alice = Judged(check.get(), Issue("alice", "submit,kernels")).value();
  EXPECT_EQ(alice.name, "submit+kernels/alice");
  EXPECT_TRUE(alice.Has(Right::kKernels));
  EXPECT_FALSE(alice.Has(Right::kAdmin));
  EXPECT_GT(alice.expires_at_ms, clock_.WallMs());
  const CertificateView view = ViewCertificates(Ca() + "/alice.pem", clock_.WallMs()).value()[0];
  EXPECT_THAT(view.identities, ElementsAre("tunefarm://submit+kernels/alice"));
  EXPECT_FALSE(view.is_ca);
  EXPECT_FALSE(view.is_over);
  EXPECT_TRUE(ViewCertificates(Ca() + "/ca.pem", clock_.WallMs()).value()[0].is_ca);
  EXPECT_TRUE(CheckKeyPair(Ca() + "/alice.pem", Ca() + "/alice.key").ok());
  EXPECT_FALSE(CheckKeyPair(Ca() + "/alice.pem", Ca() + "/ca.key").ok());
}

TEST_F(CertificateFilesTest, WhatIsOverOrNotYetValidIsRefusedAlsoWhenItWasKnown) {
  const auto check = Check();
  const auto files = Issue("bob", "submit", {}, kDayMs);
  EXPECT_TRUE(Judged(check.get(), files).ok());
  clock_.Advance(std::chrono::hours(25));
  const auto late = Judged(check.get(), files);
  EXPECT_EQ(late.status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(ReasonOf(late.status()), "CERTIFICATE_EXPIRED");
  EXPECT_THAT(std::string(MessageOf(late.status())), HasSubstr("Jan  2"));
  const auto future = IssueCertificate({Ca(), "tomorrow", "submit", {}, kDayMs, clock_.WallMs() + 2 * kDayMs});
  EXPECT_EQ(ReasonOf(Judged(check.get(), future).status()), "CERTIFICATE_NOT_YET_VALID");
}

TEST_F(CertificateFilesTest, AnotherFarmsCertificatesAreRefused) {
  const std::string other = directory_.File("other");
  ASSERT_TRUE(MakeAuthority(other, 3650 * kDayMs, clock_.WallMs()).ok());
  const auto check = Check();
  const auto foreign = Issue("root", "admin", {}, kDayMs, other);
  EXPECT_EQ(ReasonOf(Judged(check.get(), foreign).status()), "CERTIFICATE_UNTRUSTED");
  // Also when it sends its CA along.
  const auto with_ca = check->Check(Text(foreign->certificate), Text(foreign->certificate) + Text(other + "/ca.pem"));
  EXPECT_EQ(ReasonOf(with_ca.status()), "CERTIFICATE_UNTRUSTED");
  // A leaf signs nothing, whatever it says.
  const auto leaf = Issue("admin", "admin");
  ASSERT_TRUE(leaf.ok());
  ASSERT_TRUE(MakeDirectories(directory_.File("leaf")).ok());
  TUNEFARM_CHECK_OK(WriteFileAtomically(directory_.File("leaf/ca.pem"), Text(leaf->certificate)));
  TUNEFARM_CHECK_OK(WriteFileAtomically(directory_.File("leaf/ca.key"), Text(leaf->key)));
  const auto by_leaf = Issue("x", "admin", {}, kDayMs, directory_.File("leaf"));
  if (by_leaf.ok()) {
    EXPECT_EQ(ReasonOf(check->Check(Text(by_leaf->certificate), Text(leaf->certificate)).status()),
              "CERTIFICATE_UNTRUSTED");
  }
  // The CA itself is no client, and a daemon's certificate is none either.
  EXPECT_FALSE(check->Check(Text(Ca() + "/ca.pem"), "").ok());
  EXPECT_EQ(ReasonOf(Judged(check.get(), Issue("control", "", {"farm1"})).status()), "CERTIFICATE_UNTRUSTED");
  EXPECT_EQ(ReasonOf(check->Check("no certificate", "").status()), "CERTIFICATE_UNTRUSTED");
}

TEST_F(CertificateFilesTest, ACaThatIsReplacedIsReadAgainAndABrokenOneIsNot) {
  const std::string other = directory_.File("other");
  ASSERT_TRUE(MakeAuthority(other, 3650 * kDayMs, clock_.WallMs()).ok());
  const auto check = Check();
  const auto own = Issue("a", "lookup");
  const auto foreign = Issue("b", "lookup", {}, kDayMs, other);
  EXPECT_TRUE(Judged(check.get(), own).ok());
  TUNEFARM_CHECK_OK(WriteFileAtomically(Ca() + "/ca.pem", "half"));
  clock_.Advance(std::chrono::seconds(2));
  EXPECT_TRUE(Judged(check.get(), own).ok());
  TUNEFARM_CHECK_OK(WriteFileAtomically(Ca() + "/ca.pem", Text(other + "/ca.pem")));
  clock_.Advance(std::chrono::seconds(2));
  EXPECT_TRUE(Judged(check.get(), foreign).ok());
  EXPECT_FALSE(Judged(check.get(), own).ok());
}

TEST_F(CertificateFilesTest, NothingIsOverwrittenAndNonsenseIsRefused) {
  EXPECT_EQ(MakeAuthority(Ca(), kDayMs, clock_.WallMs()).status().code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(Issue("a", "lookup").ok());
  const std::string before = Text(Ca() + "/a.pem");
  EXPECT_EQ(Issue("a", "admin").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Text(Ca() + "/a.pem"), before);
  EXPECT_EQ(Issue("b", "lookup", {}, kDayMs, directory_.File("none")).status().code(), absl::StatusCode::kNotFound);
  for (const std::string& host : {std::string("a,b"), std::string("a b"), std::string(""), std::string("a:1"),
                                  std::string("x\nURI:tunefarm://admin/x"), std::string(300, 'a')}) {
    EXPECT_EQ(Issue("c", "lookup", {host}).status().code(), absl::StatusCode::kInvalidArgument) << host;
  }
  for (const std::string& name : {std::string("../x"), std::string("ca"), std::string(), std::string("a/b")}) {
    EXPECT_EQ(Issue(name, "lookup").status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_TRUE(Issue("d", "agent", {"gpu7.example", "10.0.0.7", "::1"}).ok());
  EXPECT_THAT(ViewCertificates(Ca() + "/d.pem", 0).value()[0].hosts,
              ElementsAre("gpu7.example", "10.0.0.7", "0:0:0:0:0:0:0:1"));
}

TEST(LifeOptionTest, DaysHoursMinutesSeconds) {
  EXPECT_EQ(ParseLife("90d").value(), 90 * kDayMs);
  EXPECT_EQ(ParseLife("12h").value(), kDayMs / 2);
  EXPECT_EQ(ParseLife("1m").value(), 60'000);
  EXPECT_EQ(ParseLife("1s").value(), 1000);
  for (const char* const text : {"", "d", "0d", "-1d", "1", "1 d", "1w", "1.5d", "99999999999999999d", "36501d"}) {
    EXPECT_EQ(ParseLife(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(DialOptionsTest, WhatDoesNotGoTogetherIsRefused) {
  DialOptions options;
  options.address = "farm1:7070";
  options.certificate = "a.pem";
  EXPECT_THAT(std::string(MessageOf(Checked(options).status())), HasSubstr("give both"));
  options.key = "a.key";
  EXPECT_THAT(std::string(MessageOf(Checked(options).status())), HasSubstr("--tls-ca"));
  options.ca = "ca.pem";
  EXPECT_TRUE(Checked(options).ok());
  DialOptions token;
  token.address = "farm1:7070";
  token.token = "tft_1";
  EXPECT_EQ(ReasonOf(Checked(token).status()), "TOKEN_IN_PLAINTEXT");
  for (const char* const here : {"unix:/x", "127.0.0.1:7070", "localhost:1", "[::1]:1"}) {
    token.address = here;
    EXPECT_TRUE(Checked(token).ok()) << here;
  }
  token.token = "tft_1\nevil: x";
  EXPECT_FALSE(Checked(token).ok());
  // Files that the environment names for another daemon are of no use on a socket.
  options.address = "unix:/x";
  EXPECT_TRUE(Checked(options).value().ca.empty());
}

TEST(DialOptionsTest, SecretsThatOthersMayReadAreRefused) {
  TemporaryDirectory directory;
  DialOptions options;
  options.address = "farm1:7070";
  options.ca = "ca.pem";
  options.certificate = "a.pem";
  options.key = directory.File("a.key");
  DialOptions token;
  token.address = "unix:/x";
  token.token_file = directory.File("token");
  for (const DialOptions& one : {options, token}) {
    const std::string& file = one.key.empty() ? one.token_file : one.key;
    ASSERT_TRUE(WriteFileAtomically(file, "tft_1\n", 0644).ok());
    EXPECT_THAT(std::string(MessageOf(Checked(one).status())), HasSubstr("run: chmod 600 " + file));
    ASSERT_TRUE(WriteFileAtomically(file, "tft_1\n", 0600).ok());
    EXPECT_TRUE(Checked(one).ok());
  }
}

TEST(DialOptionsTest, AddressesThatAreNoneAreNamed) {
  for (const char* const good : {"unix:/x", "unix:run/x.sock", "farm1:7070", "127.0.0.1:1", "[::1]:65535"}) {
    EXPECT_TRUE(CheckAddress(good).ok()) << good;
  }
  for (const char* const bad : {"", "farm1", "7070", ":7070", "farm1:", "farm1:0", "farm1:65536", "farm1:http",
                                "farm1:-1", "::1:7070", "[]:7070", "http://farm1:7070", "/run/admin.sock", "unix:"}) {
    DialOptions options;
    options.address = bad;
    EXPECT_EQ(ReasonOf(Checked(options).status()), "ADDRESS_INVALID") << bad;
  }
  EXPECT_FALSE(CheckAddress("unix:/" + std::string(107, 'x')).ok());
  EXPECT_TRUE(CheckAddress("unix:/" + std::string(106, 'x')).ok());
}

TEST(DialOptionsTest, AnEmptyTokenFileIsNamed) {
  const TemporaryDirectory directory;
  DialOptions options;
  options.address = "unix:/x";
  options.token_file = directory.File("token");
  for (const char* const text : {"", "\n", " \t\n"}) {
    ASSERT_TRUE(WriteFileAtomically(options.token_file, text, 0600).ok());
    const absl::StatusOr<DialOptions> checked = Checked(options);
    EXPECT_THAT(std::string(MessageOf(checked.status())), HasSubstr("token file " + options.token_file + " is empty"));
  }
}

TEST_F(CertificateFilesTest, FilesThatDoNotBelongTogetherAreRefusedBeforeTheyAreUsed) {
  const CertificateFiles alice = Issue("alice", "submit").value();
  const CertificateFiles bob = Issue("bob", "submit").value();
  DialOptions options;
  options.address = "farm1:7070";
  options.ca = Ca() + "/ca.pem";
  options.certificate = alice.certificate;
  options.key = alice.key;
  EXPECT_TRUE(CheckTlsFiles(options).ok());
  options.key = bob.key;
  EXPECT_EQ(ReasonOf(CheckTlsFiles(options)), "KEY_MISMATCH");
  EXPECT_EQ(ReasonOf(Dial(options, {}).status()), "KEY_MISMATCH");
  options.key = alice.certificate;
  EXPECT_THAT(std::string(MessageOf(CheckTlsFiles(options))), HasSubstr("no private key in " + alice.certificate));
  options.certificate = alice.key;
  options.key = alice.key;
  EXPECT_THAT(std::string(MessageOf(CheckTlsFiles(options))), HasSubstr("no certificate in " + alice.key));
  options.ca = alice.key;
  EXPECT_THAT(std::string(MessageOf(CheckTlsFiles(options))), HasSubstr("no certificate in " + alice.key));
}

// What an attempt to reach a daemon says, for each way in which none can be reached.
class UnreachableTest : public testing::Test {
 protected:
  std::string Path() const { return directory_.File("x.sock"); }
  // A socket at Path() on which somebody listens, who never accepts.
  UniqueFd Listen(int queue) const {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, Path().data(), Path().size());
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd.get(), queue), 0);
    return fd;
  }
  static absl::Status Explain(const std::string& address) {
    DialOptions options;
    options.address = address;
    return ExplainUnreachable(options);
  }

  TemporaryDirectory directory_;
};

TEST_F(UnreachableTest, NobodyListens) {
  EXPECT_THAT(std::string(MessageOf(Explain("unix:" + Path()))), HasSubstr("the socket does not exist"));
  Listen(1).Reset();
  EXPECT_THAT(std::string(MessageOf(Explain("unix:" + Path()))), HasSubstr("nobody listens on the socket"));
  EXPECT_EQ(UnixSocketError(Path()), ECONNREFUSED);
  ASSERT_TRUE(WriteFileAtomically(directory_.File("file"), "").ok());
  EXPECT_THAT(std::string(MessageOf(Explain("unix:" + directory_.File("file")))), HasSubstr("that is not a socket"));
  EXPECT_EQ(ReasonOf(Explain("127.0.0.1:1")), "NO_DAEMON");
  EXPECT_EQ(ReasonOf(Explain("no-such-host.invalid:7070")), "HOST_UNKNOWN");
}

TEST_F(UnreachableTest, WhoeverListensSaysNothing) {
  const UniqueFd listener = Listen(16);
  EXPECT_EQ(UnixSocketError(Path()), 0);
  EXPECT_EQ(ReasonOf(Explain("unix:" + Path())), "NOT_ANSWERING");
}

TEST_F(UnreachableTest, AFullQueueIsNotWaitedFor) {
  const UniqueFd listener = Listen(0);
  std::vector<UniqueFd> waiting;
  while (waiting.size() < 100) {
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, Path().data(), Path().size());
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) break;
    waiting.push_back(std::move(fd));
  }
  ASSERT_LT(waiting.size(), 100U);
  EXPECT_EQ(UnixSocketError(Path()), 0);
  EXPECT_EQ(ReasonOf(Explain("unix:" + Path())), "NOT_ANSWERING");
}

constexpr uid_t kNobody = 65'533;

TEST_F(UnreachableTest, NoPermission) {
  const UniqueFd listener = Listen(1);
  ASSERT_EQ(chmod(Path().c_str(), 0), 0);
  if (geteuid() != 0) {
    EXPECT_EQ(ReasonOf(Explain("unix:" + Path())), "NO_PERMISSION");
    return;
  }
  // Root may open every socket, so that it asks as another user.
  ASSERT_EQ(chmod(directory_.path().c_str(), 0711), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(kNobody, kNobody, kNobody) != 0) _exit(2);
    _exit(ReasonOf(Explain("unix:" + Path())) == "NO_PERMISSION" ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(DialOptionsTest, TheEnvironmentFillsWhatIsNotGiven) {
  const EnvironmentGetter environment = [](const char* name) -> std::optional<std::string> {
    return std::string(name);
  };
  const DialOptions all = WithEnvironment({}, environment);
  EXPECT_EQ(all.ca, "TUNEFARM_TLS_CA");
  EXPECT_EQ(all.certificate, "TUNEFARM_CLIENT_CERTIFICATE");
  EXPECT_EQ(all.key, "TUNEFARM_CLIENT_KEY");
  EXPECT_EQ(all.token, "TUNEFARM_TOKEN");
  EXPECT_EQ(all.token_file, "");
  DialOptions given;
  given.key = "own.key";
  given.token_file = "own.token";
  const DialOptions kept = WithEnvironment(given, environment);
  EXPECT_EQ(kept.certificate, "");
  EXPECT_EQ(kept.key, "own.key");
  EXPECT_EQ(kept.token, "");
  EXPECT_EQ(kept.token_file, "own.token");
}

}  // namespace
}  // namespace tunefarm::cli
