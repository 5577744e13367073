// consumer SNAPSHOT ADDRESS: a look-up in a snapshot, and one of a daemon that is not there.
#include <tunefarm/client/client.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace client = tunefarm::client;

namespace {

constexpr client::DefaultValue kDims[] = {{"M", 64}};
constexpr client::DefaultValue kConfig[] = {{"TILE", 9}, {"PACK", true}};
constexpr client::DefaultConfig kDefaults[] = {{"matmul", "", kDims, kConfig}};

void Check(bool holds, const char* what) {
  std::printf("%s: %s\n", what, holds ? "yes" : "NO");
  if (!holds) std::exit(1);
}

client::Question Prepare(const client::Client& own) {
  auto question = own.Prepare({"matmul", {"M"}, {}, "", client::Match::kDefault});
  if (!question.ok()) std::printf("%s\n", question.status().ToText().c_str());
  Check(question.ok(), "the question is prepared");
  return *question;
}

}  // namespace

int main(int, char** argv) {
  client::ClientOptions offline;
  offline.snapshot = argv[1];
  const auto file = client::Client::Open(offline);
  Check(file.ok(), "the snapshot is open");
  const client::Question of_file = Prepare(*file);
  client::Reader reader = of_file.NewReader();
  const client::Answer* const exact = reader.Find({64});
  Check(exact != nullptr && exact->match == client::Match::kExact && exact->config.Int("TILE") == 5,
        "the snapshot answers exactly");
  Check(reader.Find({65}) == nullptr, "and nothing where it has nothing");

  client::ClientOptions dead;
  dead.server = argv[2];
  dead.lookup_timeout = std::chrono::seconds(30);
  dead.defaults.push_back(kDefaults);
  const auto nobody = client::Client::Open(dead);
  Check(nobody.ok(), "a dead daemon is no error");
  const client::Question of_nobody = Prepare(*nobody);
  const auto fallback = of_nobody.Lookup({64});
  Check(fallback.ok() && fallback->answer->match == client::Match::kDefault &&
            fallback->answer->config.ToText() == "PACK=true TILE=9",
        "the compiled-in default answers");
  const auto nothing = of_nobody.Lookup({65});
  Check(nothing.status().code == client::Code::kUnavailable, "and without one it is unavailable");
  Check(of_nobody.NewReader().Find({64})->config.Int("TILE") == 9, "also where nothing may be waited for");
  Check(nobody->ListJobs(1, "", std::chrono::milliseconds(50)).status().ok() == false, "jobs are not listed");
  std::printf("tunefarm-client %s\n", client::Client::Version());
  return 0;
}
