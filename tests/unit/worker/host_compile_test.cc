#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "server/base/file.h"
#include "server/base/file_set.h"
#include "server/worker/host/host_toolchain.h"
#include "tests/unit/worker/host_kernel.h"

namespace tunefarm {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kDefinition[] = R"(
  display_name: "compiled"
  language: LANGUAGE_HOST_CXX
  sources { path: "sub/kernel.cc" }
  dims { name: "N" default_value { int_value: 16 } }
  parameters { name: "WHAT" values { strings: ["good", "error", "crash"] } }
  parameters { name: "WIDTH" values { ints: [4, 8] } }
  parameters { name: "PACK" values { bools: [true, false] } }
  arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
  launches { kernel { entry: "fill" arguments: ["y"] } }
  reference { steps { kernel { entry: "fill_reference" arguments: ["y"] } } }
)";

constexpr char kSource[] = R"(
static_assert(WIDTH == 4 || WIDTH == 8, "the constants come before the source");
static_assert(PACK == 0 || PACK == 1, "truth values are numbers");
#ifdef WHAT_error
int broken = "not an int";
int more = also_unknown;
#endif
#ifdef WHAT_crash
#pragma GCC error "internal compiler error: Segmentation fault"
#endif
extern "C" void fill(float* y) { for (int i = 0; i < 16; ++i) y[i] = WIDTH; }
extern "C" void fill_reference(float* y) { fill(y); }
)";

TEST(HostCompileTest, MakesALibraryAndLeavesNothingBehind) {
  HostKernel kernel(kDefinition, kSource);
  std::string artifact;
  const worker::v1::Result result = kernel.Compile(kernel.DefaultConfig(), &artifact);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.log();
  EXPECT_TRUE(result.has_artifact());
  EXPECT_THAT(artifact, StartsWith("\x7F"
                                   "ELF"));
  EXPECT_EQ(result.resources().binary_bytes(), static_cast<int64_t>(artifact.size()));
  EXPECT_THAT(result.compile_options(), testing::Contains("-shared"));
  EXPECT_THAT(result.compile_options(), testing::Contains("./sub/kernel.cc"));
  EXPECT_EQ(result.lowered_names().at("fill"), "fill");
  EXPECT_EQ(result.lowered_names().at("fill_reference"), "fill_reference");
  EXPECT_GT(result.compile_ms(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(kernel.scratch()));
}

TEST(HostCompileTest, ThereIsNoPtx) {
  HostKernel kernel(kDefinition, kSource);
  std::string artifact;
  const worker::v1::Result result =
      kernel.compiler().CompilePtx(kernel.prepared(), kernel.DefaultConfig(), &kernel.reporter, &artifact);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_COMPILE_ERROR);
  EXPECT_EQ(result.message(), "only kernels in CUDA have PTX");
}

TEST(HostCompileTest, ConstantsMakeTheBinary) {
  HostKernel kernel(kDefinition, kSource);
  std::string first, again, other;
  EXPECT_EQ(kernel.Compile(kernel.With("WIDTH", 4), &first).outcome(), v1::OUTCOME_OK);
  EXPECT_EQ(kernel.Compile(kernel.With("WIDTH", 4), &again).outcome(), v1::OUTCOME_OK);
  EXPECT_EQ(kernel.Compile(kernel.With("WIDTH", 8), &other).outcome(), v1::OUTCOME_OK);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST(HostCompileTest, AParameterMayHaveANameOfTheLibrary) {
  std::string definition = kDefinition;
  for (const char* name : {"size", "value", "type", "begin", "first", "data"}) {
    definition += std::string("parameters { name: \"") + name + "\" values { ints: [3] } }\n";
  }
  HostKernel kernel(definition, "#include <algorithm>\n#include <map>\n#include <vector>\n" + std::string(kSource) +
                                    "static_assert(size + value + type + begin + first + data == 18);\n");
  std::string artifact;
  const worker::v1::Result result = kernel.Compile(kernel.DefaultConfig(), &artifact);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.log();
}

TEST(HostCompileTest, AParameterThatBreaksALibraryHeaderIsNamed) {
  for (const char* before :
       {"#define _GNU_SOURCE\n", "#if __cplusplus >= 201103L\n#endif\n", "static int first_line;\n"}) {
    const std::string definition = std::string(kDefinition) + "parameters { name: \"size\" values { ints: [3] } }\n";
    HostKernel kernel(definition, std::string(before) + "#include <vector>\n" + kSource);
    std::string artifact;
    const worker::v1::Result result = kernel.Compile(kernel.DefaultConfig(), &artifact);
    EXPECT_EQ(result.outcome(), v1::OUTCOME_COMPILE_ERROR) << before;
    EXPECT_THAT(result.message(), HasSubstr("macros (size), also in library headers")) << before;
    EXPECT_THAT(result.message(), HasSubstr("(<vector> in sub/kernel.cc)")) << before;
  }
}

TEST(HostCompileTest, HeadersOutsideOfTheDefinitionAreWhatABinaryIsMadeOf) {
  TemporaryDirectory outside;
  ASSERT_TRUE(WriteFileAtomically(outside.File("outside.h"), "#define FACTOR 2\n").ok());
  HostKernel kernel(kDefinition, "#include \"" + outside.File("outside.h") + "\"\n#include <vector>\n" + kSource);
  std::string artifact;
  const worker::v1::Result result = kernel.Compile(kernel.DefaultConfig(), &artifact);
  ASSERT_EQ(result.outcome(), v1::OUTCOME_OK) << result.log();
  const absl::StatusOr<std::vector<std::string>> paths = UnpackPaths(result.inputs().packed_paths());
  ASSERT_TRUE(paths.ok());
  EXPECT_THAT(*paths, testing::Contains(outside.File("outside.h")));
  EXPECT_THAT(*paths, testing::Contains(testing::EndsWith("/vector")));
  EXPECT_THAT(*paths, Not(testing::Contains(HasSubstr("kernel.cc"))));
  const FileSet files = ReadFileSet(*paths, std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(IsUnchanged(files));
  ASSERT_TRUE(WriteFileAtomically(outside.File("outside.h"), "#define FACTOR 3\n").ok());
  EXPECT_FALSE(IsUnchanged(files));
}

TEST(HostCompileTest, AMissingHeaderIsAnErrorOfTheSource) {
  HostKernel kernel(kDefinition, "#include <no/such/header.h>\n" + std::string(kSource));
  std::string artifact;
  const worker::v1::Result result = kernel.Compile(kernel.DefaultConfig(), &artifact);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_COMPILE_ERROR);
  EXPECT_THAT(result.message(), HasSubstr("sub/kernel.cc:1:"));
}

TEST(HostCompileTest, AnErrorIsItsFirstLineWithARelativePath) {
  HostKernel kernel(kDefinition, kSource);
  std::string artifact;
  const worker::v1::Result result = kernel.Compile(kernel.With("WHAT", "error"), &artifact);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_COMPILE_ERROR);
  EXPECT_EQ(result.phase(), v1::PHASE_COMPILE);
  EXPECT_THAT(result.message(), HasSubstr("sub/kernel.cc:5:"));
  EXPECT_THAT(result.message(), HasSubstr("error: "));
  EXPECT_THAT(result.message(), Not(HasSubstr("\n")));
  EXPECT_THAT(result.log(), HasSubstr("also_unknown"));
  EXPECT_THAT(result.log(), Not(HasSubstr(kernel.scratch())));
  EXPECT_TRUE(artifact.empty());
  EXPECT_FALSE(result.has_artifact());
  EXPECT_TRUE(std::filesystem::is_empty(kernel.scratch()));
}

TEST(HostCompileTest, ACompilerThatSaysItCrashedHasCrashed) {
  HostKernel kernel(kDefinition, kSource);
  std::string artifact;
  const worker::v1::Result result = kernel.Compile(kernel.With("WHAT", "crash"), &artifact);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_COMPILE_CRASH);
  EXPECT_THAT(result.message(), HasSubstr("internal compiler error"));
}

TEST(HostCompileTest, ALongLogIsCutWithANote) {
  std::string source = kSource;
  for (int i = 0; i < 2000; ++i) source += "int x" + std::to_string(i) + " = unknown_" + std::to_string(i) + ";\n";
  HostKernel kernel(kDefinition, source);
  std::string artifact;
  const worker::v1::Result result = kernel.Compile(kernel.DefaultConfig(), &artifact);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_COMPILE_ERROR);
  EXPECT_LE(result.log().size(), 33u * 1024);
  EXPECT_THAT(result.log(), HasSubstr("the rest was cut"));
}

TEST(HostCompileTest, ABinaryThatIsTooLargeIsTheConfigsFault) {
  HostKernel kernel(
      kDefinition,
      "extern \"C\" __attribute__((visibility(\"default\"))) char large[65l << 20];\nchar large[65l << 20] = {1};\n" +
          std::string(kSource));
  std::string artifact;
  const worker::v1::Result result = kernel.Compile(kernel.DefaultConfig(), &artifact);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_COMPILE_ERROR);
  EXPECT_THAT(result.message(), HasSubstr("64 MiB"));
  EXPECT_FALSE(result.has_artifact());
}

TEST(HostCompileTest, OptionsOfTheDaemonAreTaken) {
  HostKernel kernel(kDefinition,
                    "#ifndef FROM_OPTIONS\n#error \"the option is missing\"\n#endif\n" + std::string(kSource));
  std::string artifact;
  EXPECT_EQ(kernel.Compile(kernel.DefaultConfig(), &artifact).outcome(), v1::OUTCOME_COMPILE_ERROR);
  kernel.prepared().compile_options = {"-DFROM_OPTIONS"};
  EXPECT_EQ(kernel.Compile(kernel.DefaultConfig(), &artifact).outcome(), v1::OUTCOME_OK);
}

TEST(HostCompileTest, ToolchainNamesTheCompilerAndItsPlace) {
  HostKernel kernel(kDefinition, kSource);
  EXPECT_THAT(kernel.compiler().toolchain(), ::testing::MatchesRegex(".+ [0-9][0-9.]* \\(/.+\\)"));
}

TEST(HostToolchainTest, AMissingCompilerIsOneSentence) {
  WorkerOptions options;
  options.scratch_directory = "/tmp";
  options.host_compiler = "no-such-compiler";
  const auto backend = MakeHostCompileBackend(options);
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(MessageOf(backend.status())), HasSubstr("'no-such-compiler' is not in PATH"));
}

TEST(HostToolchainTest, VersionsOfKnownCompilers) {
  const std::string copyright = "\nCopyright (C) 2022 Free Software Foundation, Inc.\n";
  EXPECT_EQ(CompilerVersionOf("c++ (Debian 12.2.0-14+deb12u1) 12.2.0" + copyright), "g++ 12.2.0");
  EXPECT_EQ(CompilerVersionOf("g++ (GCC) 11.4.1 20230605 (Red Hat 11.4.1-2)" + copyright), "g++ 11.4.1");
  EXPECT_EQ(CompilerVersionOf("Debian clang version 14.0.6\nTarget: x86_64-pc-linux-gnu\n"), "clang++ 14.0.6");
  EXPECT_EQ(CompilerVersionOf("Ubuntu clang version 15.0.7-1\n"), "clang++ 15.0.7");
  EXPECT_EQ(CompilerVersionOf("icpx 2024\nmore\n"), "icpx 2024");
}

TEST(HostToolchainTest, CommandsRunWithoutAShell) {
  const absl::StatusOr<CommandResult> result = RunCommand({"/bin/echo", "$HOME; `id`"}, "/", "", 1024);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->exit.ok());
  EXPECT_EQ(result->output, "$HOME; `id`\n");
  EXPECT_FALSE(result->truncated);
  const absl::StatusOr<CommandResult> cut = RunCommand({"/bin/echo", "0123456789"}, "", "", 4);
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->output, "0123");
  EXPECT_TRUE(cut->truncated);
}

TEST(HostToolchainTest, ACommandThatCannotStartExits127) {
  const absl::StatusOr<CommandResult> result = RunCommand({"/no/such/program"}, "", "", 1024);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->exit.exit_code, 127);
}

}  // namespace
}  // namespace tunefarm
