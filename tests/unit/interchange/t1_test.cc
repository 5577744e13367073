// What is made of an interpreter's answers. The interpreter's side is tested in tests/python.
#include "server/interchange/t1.h"

#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "server/definition/kernel_plan.h"
#ifdef TUNEFARM_TEST_NVRTC
#include "server/worker/backend.h"
#endif

namespace tunefarm::interchange {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string T1Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// Two parameters, a (1, 2, 4) and b (0, 3), and a kernel that needs neither.
constexpr char kAnswer[] =
    R"({
  "kernel": "{\"display_name\": \"k\", \"language\": \"LANGUAGE_HOST_CXX\", \"parameters\": [)"
    R"({\"name\": \"a\", \"values\": {\"ints\": [1, 2, 4]}, \"default_value\": {\"int_value\": 1}}, )"
    R"({\"name\": \"b\", \"values\": {\"ints\": [0, 3]}, \"default_value\": {\"int_value\": 0}}], )"
    R"(\"constraints\": [{\"expression\": \"a <= 2\"}], )"
    R"(\"arguments\": [{\"name\": \"y\", \"buffer\": {\"data_type\": \"DATA_TYPE_F32\", \"length\": \"4\", )"
    R"(\"access\": \"ACCESS_OUT\"}}], )"
    R"(\"launches\": [{\"kernel\": {\"entry\": \"f\", \"arguments\": [\"y\"]}}], )"
    R"(\"reference\": {\"steps\": [{\"kernel\": {\"entry\": \"f\", \"arguments\": [\"y\"]}}]}, )"
    R"(\"tolerance\": {\"atol\": 0.5, \"rtol\": 0.25}, )"
    R"(\"sources\": [{\"path\": \"k.cc\", \"content\": \"Ly8K\"}]}",
  "notes": ["A note."],
  "budget": "--max-trials 6",
  "translated": [{"text": "a < 3"}],
  "compile_options": [],
  "places": {"parameters[0]": "4:7: /P/0", "constraints[0]": "7:9: /C/0", "launches[0]": "9:1: /K"}
})";

absl::StatusOr<ImportedKernel> Made(const std::string& answer, const T1Options& options = {}) {
  return KernelOfT1(answer, "f.json", options);
}

std::string T1ErrorOf(const std::string& answer) {
  const auto made = Made(answer);
  return made.ok() ? "accepted" : std::string(MessageOf(made.status()));
}

TEST(T1, AnAnswerBecomesACheckedDefinition) {
  T1Options options;
  options.atol = 0.125;
  const auto made = Made(kAnswer, options);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->space_text, "4 valid configs of 6");
  EXPECT_EQ(made->budget_options, "--max-trials 6");
  EXPECT_THAT(made->notes, ElementsAre("A note."));
  EXPECT_EQ(made->kernel.tolerance().atol(), 0.125);
  EXPECT_EQ(made->kernel.tolerance().rtol(), 0.25);
  EXPECT_THAT(made->kernel.compile_options(), ElementsAre("-O2"));
  EXPECT_EQ(made->kernel.sources(0).content(), "//\n");
  EXPECT_THAT(made->text, HasSubstr("# - A note.\n"));
  EXPECT_THAT(made->text, HasSubstr("expression: \"a <= 2\""));
  const auto loaded =
      LoadKernelText(made->text, "kernel.pbtxt", [](const std::string&) { return std::string("//\n"); });
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->name(), "kernels/" + (*KernelPlan::Compile(made->kernel))->kernel_id());
}

TEST(T1, ConditionsThatTheLanguageCannotReadAreTranslated) {
  const auto made = Made(T1Replaced(kAnswer, "a <= 2", "math.floor(a) < 3"));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->kernel.constraints(0).expression(), "a < 3");
  const std::string unreadable = T1Replaced(kAnswer, "a <= 2", "math.flor(a) < 3");
  EXPECT_EQ(T1ErrorOf(T1Replaced(unreadable, "\"text\": \"a < 3\"", "\"error\": \"7:12: /C/0: no\"")),
            "f.json:7:12: /C/0: no");
  EXPECT_THAT(T1ErrorOf(T1Replaced(unreadable, "a < 3", "c < 3")),
              HasSubstr("f.json:7:9: /C/0: expression error at column 1"));
}

TEST(T1, DefaultsThatBreakAConditionAreReplaced) {
  const auto made = Made(T1Replaced(kAnswer, "a <= 2", "a > 1 and b == 3"));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->kernel.parameters(0).default_value().int_value(), 2);
  EXPECT_EQ(made->kernel.parameters(1).default_value().int_value(), 3);
  EXPECT_THAT(made->notes,
              ElementsAre("A note.", "The defaults (a=1,b=0) break a condition; a=2,b=3 is the default instead."));
  EXPECT_THAT(T1ErrorOf(T1Replaced(kAnswer, "a <= 2", "a > 4")),
              HasSubstr("f.json:1:1: no config satisfies the conditions"));
}

TEST(T1, AConditionThatCannotBeEvaluatedIsRefusedAtItsPlace) {
  const std::string error = T1ErrorOf(T1Replaced(kAnswer, "a <= 2", "a % b == 0"));
  EXPECT_THAT(error,
              HasSubstr("f.json:7:9: /C/0: this fails for some values (guard it: NAME != 0 and ...): constraint 1"));
  EXPECT_THAT(error, HasSubstr("division by zero in 1 % 0"));
  EXPECT_EQ(T1ErrorOf(T1Replaced(kAnswer, "a <= 2", "b == 0 or a % b == 0")), "accepted");
}

TEST(T1, CompileOptionsThatAreNotAllowedAreNoted) {
  const auto made = Made(T1Replaced(
      kAnswer, "\"compile_options\": []",
      R"("compile_options": [{"text": "-O3", "pointer": "/O/0"}, {"text": "-fplugin=x", "pointer": "/O/1"}])"));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(made->kernel.compile_options(), ElementsAre("-O3"));
  EXPECT_THAT(made->notes[1], HasSubstr("/O/1: compiler option '-fplugin=x' is not taken over"));
}

TEST(T1, WhatTheCheckerRefusesIsBlamedOnItsPlace) {
  EXPECT_THAT(T1ErrorOf(T1Replaced(kAnswer, R"(\"name\": \"a\")", R"(\"name\": \"while\")")), HasSubstr("f.json:"));
  EXPECT_THAT(T1ErrorOf(T1Replaced(kAnswer, R"(\"entry\": \"f\")", R"(\"entry\": \"f<\")")),
              HasSubstr("f.json:9:1: /K: the definition made of this is refused: launches[0]"));
  EXPECT_THAT(T1ErrorOf(T1Replaced(kAnswer, R"(\"name\": \"a\")", R"(\"name\": \"and\")")),
              HasSubstr("f.json:4:7: /P/0: "));
}

TEST(T1, ErrorsOfTheInterpreterAreSaidWithTheFile) {
  EXPECT_EQ(T1ErrorOf(R"({"error": "/a: no", "place": "2:3", "is_missing": false})"), "f.json:2:3: /a: no");
  EXPECT_TRUE(absl::IsInvalidArgument(Made(R"({"error": "no", "place": ""})").status()));
  const auto missing = Made(R"({"error": "there is no file x", "place": "", "is_missing": true})");
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_EQ(MessageOf(missing.status()), "there is no file x");
  // An interpreter that says something else is not the file's fault.
  for (const char* answer : {"", "Traceback", "[]", "{}", R"({"kernel": "{"})", R"({"kernel": 1, "notes": 2})",
                             R"({"kernel": "{\"parameters\": [{\"name\": \"a\"}]}"})"}) {
    EXPECT_TRUE(absl::IsInternal(Made(answer).status())) << answer << Made(answer).status();
  }
}

TEST(T1, ARequestHasTheModulesOnItsFirstLine) {
  T1Options options;
  options.folder = "a\xff";
  options.thread_limit = 64;
  options.is_unverified = true;
  const std::string request = T1Request("{\n}\xff", options);
  const size_t line = request.find('\n');
  EXPECT_EQ(request.substr(line + 1), "{\n}\xff");
  for (const char* part : {"\"t1_main\"", "\"json_text\"", "\"thread_limit\":64", "\"is_unverified\":true"})
    EXPECT_THAT(request.substr(0, line), HasSubstr(part));
}

#ifdef TUNEFARM_TEST_NVRTC
// tests/python/t1_command_test.py compares what the command makes with this folder.
TEST(T1, TheImportedCudaKernelCompiles) {
  const auto backend = MakeCudaCompileBackend(WorkerOptions());
  if (!backend.ok()) GTEST_SKIP() << MessageOf(backend.status());
  const std::string data = std::string(std::getenv("TUNEFARM_SOURCE_DIR")) + "/tests/data/t1/";
  const auto text = ReadFile(data + "expected/stencil/kernel.pbtxt", 1 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto loaded = LoadKernelText(*text, "kernel.pbtxt", [&](const std::string& path) {
    return ReadFile(data + (path == "imported.cu" ? "expected/stencil/imported.cu.expected" : path), 1 << 20);
  });
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  PreparedKernel kernel;
  kernel.plan = *KernelPlan::Compile(*loaded);
  kernel.problem = *kernel.plan->ResolveProblem(v1::Problem());
  kernel.device_class = *FindKnownClass("H200");
  const auto space = kernel.plan->BuildSpace(kernel.problem, kernel.device_class);
  ASSERT_TRUE(space.ok()) << space.status();
  const auto configs = space->Enumerate();
  ASSERT_TRUE(configs.ok());
  struct : PhaseReporter {
    void Begin(v1::Phase /*phase*/) override {}
    void Log(std::string_view /*text*/) override {}
  } reporter;
  for (const uint64_t row : {uint64_t{0}, configs->size() - 1}) {
    std::string artifact;
    const auto result = (*backend)->Compile(kernel, space->ConfigAt(*configs, row), &reporter, &artifact);
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message() << "\n" << result.log();
    // The names that the loader needs: the template's, and the constant's by its own name.
    EXPECT_EQ(result.lowered_names().count("stencil<float>"), 1u);
  }
}
#endif

}  // namespace
}  // namespace tunefarm::interchange
