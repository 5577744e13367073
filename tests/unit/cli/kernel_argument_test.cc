#include "client/cli/options/kernel_argument.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "client/cli/app.h"
#include "client/cli/kernel_template.h"
#include "server/base/check.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "server/definition/kernel_plan.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm::cli {
namespace {

using testing::HasSubstr;

class KernelArgumentTest : public testing::Test {
 protected:
  KernelArgumentTest() {
    Write("box/alpha", "alpha");
    Write("box/examples/beta", "beta");
    Write("mine", "gamma");
  }
  void Write(const std::string& folder, const std::string& name) {
    TUNEFARM_CHECK_OK(MakeDirectories(directory_.File(folder), 0700));
    TUNEFARM_CHECK_OK(WriteFileAtomically(directory_.File(folder + "/kernel.pbtxt"),
                                          KernelTemplate(name, name + ".cc", /*is_cuda=*/false)));
    TUNEFARM_CHECK_OK(
        WriteFileAtomically(directory_.File(folder + "/" + name + ".cc"), SourceTemplate(name, /*is_cuda=*/false)));
  }
  EnvironmentGetter Environment() {
    return [this](const char* name) -> std::optional<std::string> {
      if (std::string(name) == "TUNEFARM_KERNELS") return directory_.File("box");
      return std::nullopt;
    };
  }
  absl::StatusOr<KernelArgument> Resolve(const std::string& text) { return ResolveKernelArgument(text, Environment()); }
  std::string Complete(std::vector<std::string> words) {
    char* text = nullptr;
    size_t size = 0;
    std::string printed;
    {
      Session session;
      session.out = open_memstream(&text, &size);
      session.environment = Environment();
      // Nothing answers there, so that jobs have no candidates.
      session.connect.server = "unix:" + directory_.File("nobody");
      words.insert(words.begin(), "__complete");
      EXPECT_EQ(RunCommandLine(words, &session), kExitOk);
      std::fclose(session.out);
      printed.assign(text, size);
    }
    std::free(text);
    return printed;
  }

  TemporaryDirectory directory_;
};

TEST_F(KernelArgumentTest, FilesFoldersAndTheBox) {
  for (const std::string& text :
       {directory_.File("mine"), directory_.File("mine/"), directory_.File("mine/kernel.pbtxt")}) {
    const auto argument = Resolve(text);
    ASSERT_TRUE(argument.ok()) << argument.status().ToString();
    EXPECT_EQ(argument->name, "gamma");
    EXPECT_THAT(argument->definition->sources(0).content(), HasSubstr("extern"));
  }
  EXPECT_THAT(std::string(MessageOf(Resolve(directory_.File("mine/gamma.cc")).status())),
              HasSubstr("gamma.cc is a source; name its definition, which tunefarm kernels new"));
  EXPECT_EQ(Resolve("alpha")->file, directory_.File("box/alpha/kernel.pbtxt"));
  EXPECT_EQ(Resolve("beta")->file, directory_.File("box/examples/beta/kernel.pbtxt"));
}

// What a source is goes to the daemon, where others read it.
TEST_F(KernelArgumentTest, ASourceThatLeadsOutOfTheFolderIsRefusedByName) {
  namespace fs = std::filesystem;
  TUNEFARM_CHECK_OK(WriteFileAtomically(directory_.File("private_key"), "secret"));
  const std::string source = directory_.File("mine/gamma.cc");
  fs::remove(source);
  fs::create_symlink("../private_key", source);
  const absl::Status refused = Resolve(directory_.File("mine")).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(MessageOf(refused)), HasSubstr("gamma.cc"));
  EXPECT_THAT(std::string(MessageOf(refused)), HasSubstr("outside of its folder"));
  EXPECT_THAT(std::string(MessageOf(refused)), testing::Not(HasSubstr("secret")));
  fs::remove(source);
  ASSERT_EQ(mkfifo(source.c_str(), 0600), 0);
  EXPECT_THAT(std::string(MessageOf(Resolve(directory_.File("mine")).status())), HasSubstr("is not a regular file"));
  fs::remove(directory_.File("mine/kernel.pbtxt"));
  ASSERT_EQ(mkfifo(directory_.File("mine/kernel.pbtxt").c_str(), 0600), 0);
  EXPECT_THAT(std::string(MessageOf(Resolve(directory_.File("mine")).status())), HasSubstr("is not a regular file"));
}

TEST_F(KernelArgumentTest, AFolderThatIsALinkAndALinkInsideOfItAreRead) {
  namespace fs = std::filesystem;
  fs::rename(directory_.File("mine/gamma.cc"), directory_.File("mine/real.cc"));
  fs::create_symlink("real.cc", directory_.File("mine/gamma.cc"));
  fs::create_directory_symlink("mine", directory_.File("linked"));
  const auto argument = Resolve(directory_.File("linked"));
  ASSERT_TRUE(argument.ok()) << argument.status();
  EXPECT_THAT(argument->definition->sources(0).content(), HasSubstr("extern"));
}

TEST_F(KernelArgumentTest, AFolderThatMayNotBeReadIsNotTakenForAnEmptyOne) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read every folder";
  ASSERT_EQ(chmod(directory_.File("mine").c_str(), 0), 0);
  const absl::Status refused = Resolve(directory_.File("mine")).status();
  ASSERT_EQ(chmod(directory_.File("mine").c_str(), 0700), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(std::string(MessageOf(refused)), HasSubstr("cannot read the folder"));
}

// Definitions that share sources lie in one folder, each under its own name.
TEST_F(KernelArgumentTest, SeveralDefinitionsInAFolder) {
  Write("box/several", "first");
  std::filesystem::rename(directory_.File("box/several/kernel.pbtxt"), directory_.File("box/several/first.pbtxt"));
  EXPECT_EQ(Resolve(directory_.File("box/several"))->name, "first") << "one of any name stands for its folder";
  TUNEFARM_CHECK_OK(WriteFileAtomically(directory_.File("box/several/second.pbtxt"),
                                        KernelTemplate("second", "first.cc", /*is_cuda=*/false)));
  EXPECT_EQ(Resolve("second")->file, directory_.File("box/several/second.pbtxt"));
  EXPECT_EQ(Resolve("kernels/first")->name, "first");
  EXPECT_EQ(Resolve(directory_.File("box/several/second.pbtxt"))->name, "second");
  const auto several = Resolve(directory_.File("box/several"));
  EXPECT_EQ(several.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(MessageOf(several.status())), HasSubstr("first.pbtxt, second.pbtxt"));
  EXPECT_EQ(Complete({"tune", ""}), "alpha\nbeta\nfirst\nsecond\n");
}

// What a definition includes lies beside it, is no definition itself, and goes to the daemon as its own text does.
TEST_F(KernelArgumentTest, IncludedFiles) {
  namespace fs = std::filesystem;
  const std::string definition = directory_.File("box/several/first.pbtxt");
  const std::string shared = directory_.File("box/several/parts/shared.inc");
  Write("box/several", "first");
  fs::rename(directory_.File("box/several/kernel.pbtxt"), definition);
  TUNEFARM_CHECK_OK(WriteFileAtomically(
      definition, KernelTemplate("first", "first.cc", /*is_cuda=*/false) + "include: 'parts/shared.inc'\n"));
  fs::create_directory(directory_.File("box/several/parts"));
  TUNEFARM_CHECK_OK(WriteFileAtomically(directory_.File("box/several/more.inc"), "dims { name: 'MORE' }"));
  TUNEFARM_CHECK_OK(WriteFileAtomically(shared, "derived { name: 'ONE' expression: '1' } include: 'more.inc'"));
  const auto argument = Resolve(directory_.File("box/several"));
  ASSERT_TRUE(argument.ok()) << argument.status();
  EXPECT_EQ(argument->definition->derived(argument->definition->derived_size() - 1).name(), "ONE");
  EXPECT_EQ(argument->definition->dims(argument->definition->dims_size() - 1).name(), "MORE");
  for (const BoxDefinition& found : DefinitionsInTheBox(Environment())) EXPECT_TRUE(found.file.ends_with(".pbtxt"));
  EXPECT_THAT(std::string(MessageOf(Resolve(shared).status())), HasSubstr("is text that definitions include"));

  TUNEFARM_CHECK_OK(WriteFileAtomically(shared, "derived { name: 'ONE' expression: 'nope' }"));
  EXPECT_THAT(
      std::string(MessageOf(Resolve(definition).status())),
      testing::MatchesRegex(shared + ":1:[0-9]+: .*unknown name 'nope' .included at " + definition + ":[0-9]+:1.\n.*"));
  fs::remove(shared);
  TUNEFARM_CHECK_OK(WriteFileAtomically(directory_.File("private_key"), "secret"));
  fs::create_symlink("../../../private_key", shared);
  const absl::Status refused = Resolve(definition).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(MessageOf(refused)), HasSubstr("outside of its folder"));
  EXPECT_THAT(std::string(MessageOf(refused)), testing::Not(HasSubstr("secret")));
  fs::remove(shared);
  ASSERT_EQ(mkfifo(shared.c_str(), 0600), 0);
  EXPECT_THAT(std::string(MessageOf(Resolve(definition).status())), HasSubstr("is not a regular file"));
}

TEST_F(KernelArgumentTest, AnyOtherBareNameIsAStoredKernel) {
  for (const char* text : {"delta", "kernels/0123abcd"}) {
    const auto argument = Resolve(text);
    ASSERT_TRUE(argument.ok());
    EXPECT_EQ(argument->name, text);
    EXPECT_FALSE(argument->definition.has_value());
    EXPECT_EQ(argument->file, "");
  }
}

TEST_F(KernelArgumentTest, PathsThatDoNotExist) {
  EXPECT_EQ(Resolve("./missing").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Resolve("missing.pbtxt").status().code(), absl::StatusCode::kNotFound);
  const auto empty = Resolve(directory_.path());
  EXPECT_EQ(empty.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(MessageOf(empty.status())), HasSubstr("has no kernel.pbtxt"));
}

TEST_F(KernelArgumentTest, ErrorsSayTheFile) {
  TUNEFARM_CHECK_OK(WriteFileAtomically(directory_.File("mine/kernel.pbtxt"), "display_name: \"x\"\nnonsense: 1\n"));
  const auto broken = Resolve(directory_.File("mine"));
  EXPECT_EQ(broken.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(MessageOf(broken.status())), HasSubstr("mine/kernel.pbtxt:2:"));
  TUNEFARM_CHECK_OK(WriteFileAtomically(directory_.File("mine/kernel.pbtxt"),
                                        KernelTemplate("gamma", "absent.cc", /*is_cuda=*/false)));
  EXPECT_THAT(std::string(MessageOf(Resolve(directory_.File("mine")).status())), HasSubstr("absent.cc"));
}

TEST_F(KernelArgumentTest, TemplatesCompileUnderAnyName) {
  for (const char* stem : {"a", "9lives", "Mixed-Case name", "", "été"}) {
    for (const bool is_cuda : {false, true}) {
      const std::string name = KernelNameFrom(stem);
      const auto kernel = LoadKernelText(KernelTemplate(name, "source", is_cuda), "kernel.pbtxt",
                                         [&](const std::string&) { return SourceTemplate(name, is_cuda); });
      ASSERT_TRUE(kernel.ok()) << kernel.status().ToString();
      const auto plan = KernelPlan::Compile(*kernel);
      EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    }
  }
  EXPECT_EQ(KernelNameFrom(std::string(300, 'x')).size(), 50u);
}

TEST_F(KernelArgumentTest, CompletesVerbsOptionsAndKernels) {
  EXPECT_EQ(Complete({"jobs", "re"}), "resume\n");
  EXPECT_THAT(Complete({""}), HasSubstr("tune\n"));
  EXPECT_THAT(Complete({""}), testing::Not(HasSubstr("__complete")));
  EXPECT_EQ(Complete({"tune", ""}), "alpha\nbeta\n");
  EXPECT_EQ(Complete({"tune", "al"}), "alpha\n");
  EXPECT_EQ(Complete({"tune", "alpha", "--max-tr"}), "--max-trials\n");
  EXPECT_EQ(Complete({"jobs", "show", ""}), "");
  EXPECT_EQ(Complete({"tune", "--device", "x", "be"}), "beta\n");
}

}  // namespace
}  // namespace tunefarm::cli
