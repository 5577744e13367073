#include "client/cli/options/problem_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cli/studies/job_names.h"
#include "server/base/status.h"

namespace tunefarm::cli {
namespace {

using testing::HasSubstr;

ProblemOptions Dims(std::vector<std::string> dims) {
  ProblemOptions options;
  options.dims = std::move(dims);
  return options;
}

std::string ErrorOf(const ProblemOptions& options) {
  const auto problems = MakeProblems(options);
  EXPECT_EQ(problems.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(MessageOf(problems.status()));
}

TEST(ProblemOptionsTest, NoOptionsAreTheDefaultProblem) {
  const auto problems = MakeProblems({});
  ASSERT_TRUE(problems.ok());
  ASSERT_EQ(problems->size(), 1u);
  EXPECT_TRUE((*problems)[0].dims().empty());
}

TEST(ProblemOptionsTest, TheGridVariesTheLastDimFastest) {
  ProblemOptions options = Dims({"M=1,2", "N=10,20", "dtype=bf16"});
  options.pins = {"BLOCK=64"};
  options.seeds = {3, 4};
  const auto problems = MakeProblems(options);
  ASSERT_TRUE(problems.ok());
  std::vector<std::pair<int64_t, int64_t>> shapes;
  for (const v1::Problem& problem : *problems) {
    shapes.emplace_back(problem.dims().at("M").int_value(), problem.dims().at("N").int_value());
    EXPECT_EQ(problem.dims().at("dtype").string_value(), "bf16");
    EXPECT_EQ(problem.pinned().at("BLOCK").int_value(), 64);
    EXPECT_THAT(problem.input_seeds(), testing::ElementsAre(3, 4));
  }
  EXPECT_THAT(shapes, testing::ElementsAre(std::pair(1, 10), std::pair(1, 20), std::pair(2, 10), std::pair(2, 20)));
}

TEST(ProblemOptionsTest, AreWordsOfACommandLineAgain) {
  EXPECT_EQ(ProblemOptions().ToText(), "");
  ProblemOptions options = Dims({"N=1..4", "dtype=a b"});
  options.pins = {"MODE=1_000", "TAG="};
  options.seeds = {3, 4};
  EXPECT_EQ(options.ToText(),
            " --dim N=1..4 --dim 'dtype=a b' --pin MODE=1_000 --pin TAG= --input-seed 3 --input-seed 4");
}

TEST(ProblemOptionsTest, Errors) {
  EXPECT_THAT(ErrorOf(Dims({"M"})), HasSubstr("--dim M: write --dim NAME=VALUE"));
  EXPECT_THAT(ErrorOf(Dims({"=4"})), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(ErrorOf(Dims({"M="})), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(ErrorOf(Dims({"M=1,,2"})), HasSubstr("an empty value"));
  EXPECT_THAT(ErrorOf(Dims({"M=1", "M=2"})), HasSubstr("--dim M is given twice"));
  ProblemOptions pins;
  pins.pins = {"A=1", "A=1"};
  EXPECT_THAT(ErrorOf(pins), HasSubstr("--pin A is given twice"));
  pins.pins = {"A"};
  EXPECT_THAT(ErrorOf(pins), HasSubstr("--pin A: write --pin NAME=VALUE"));
}

TEST(ProblemOptionsTest, RangesAreWrittenOut) {
  const auto values = [](const std::string& text) { return ParseDim("M=" + text)->values; };
  EXPECT_THAT(values("1..16*2"), testing::ElementsAre("1", "2", "4", "8", "16"));
  EXPECT_THAT(values("3..20*2"), testing::ElementsAre("3", "6", "12"));
  EXPECT_THAT(values("64..200+64"), testing::ElementsAre("64", "128", "192"));
  EXPECT_THAT(values("1..3"), testing::ElementsAre("1", "2", "3"));
  EXPECT_THAT(values("5..5"), testing::ElementsAre("5"));
  EXPECT_THAT(values("-2..0"), testing::ElementsAre("-2", "-1", "0"));
  EXPECT_THAT(values("7,1..4*2,9"), testing::ElementsAre("7", "1", "2", "4", "9"));
  EXPECT_THAT(values("9223372036854775806..9223372036854775807"),
              testing::ElementsAre("9223372036854775806", "9223372036854775807"));
  EXPECT_THAT(values("4611686018427387904..9223372036854775807*2"), testing::ElementsAre("4611686018427387904"));
  // No numbers, no range.
  EXPECT_THAT(values("a..b"), testing::ElementsAre("a..b"));
  EXPECT_THAT(values("bf16"), testing::ElementsAre("bf16"));
  for (const char* const bad : {"1..", "1..x", "4..1", "1..8*1", "1..8*0", "0..8*2", "1..8+0", "1..8*", "1..8*2*2"}) {
    EXPECT_THAT(ErrorOf(Dims({std::string("M=") + bad})), HasSubstr("is no range; ranges look like 1..8192*2")) << bad;
  }
  EXPECT_THAT(ErrorOf(Dims({"M=1..1000000000"})), HasSubstr("more than 10000 values"));
  EXPECT_EQ(MakeProblems(Dims({"M=1..8192*2", "N=1..10"}))->size(), 140u);
}

TEST(ProblemOptionsTest, AtMost256Problems) {
  std::string values = "0";
  for (int i = 1; i < 16; ++i) values += "," + std::to_string(i);
  EXPECT_EQ(MakeProblems(Dims({"A=" + values, "B=" + values}))->size(), 256u);
  EXPECT_THAT(ErrorOf(Dims({"A=" + values, "B=" + values + ",16"})), HasSubstr("more than 256 problems"));
}

TEST(ProblemOptionsTest, OneProblemWhereOneIsMeant) {
  EXPECT_EQ(MakeProblem(Dims({"M=1"}))->dims().at("M").int_value(), 1);
  EXPECT_EQ(MakeProblem(Dims({"M=1,2"})).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ProblemOptionsTest, AnOptionTakesOneValueAndLeavesTheNextWord) {
  CLI::App app;
  ProblemOptions options;
  std::string kernel;
  options.AddTo(&app, /*many=*/true);
  app.add_option("KERNEL", kernel);
  app.parse("--dim M=1 --input-seed 5 --pin A=2 kernel --dim N=2");
  EXPECT_EQ(kernel, "kernel");
  EXPECT_THAT(options.dims, testing::ElementsAre("M=1", "N=2"));
  EXPECT_THAT(options.pins, testing::ElementsAre("A=2"));
  EXPECT_THAT(options.seeds, testing::ElementsAre(5));
}

TEST(ValueTest, KindsAreInferred) {
  EXPECT_EQ(InferValue("64").int_value(), 64);
  EXPECT_EQ(InferValue("-3").int_value(), -3);
  EXPECT_EQ(InferValue("true").kind_case(), v1::Value::kBoolValue);
  EXPECT_EQ(InferValue("0.5").double_value(), 0.5);
  EXPECT_EQ(InferValue("bf16").string_value(), "bf16");
  for (const char* text : {"64", "-3", "true", "false", "0.5", "bf16", "a b"}) {
    EXPECT_EQ(ValueText(InferValue(text)), text);
  }
  EXPECT_EQ(ValueText(v1::Value()), "");
  // What a number or a truth value would print otherwise keeps its text.
  for (const char* text : {"007", "+5", "1e3", "1.50", "True", "0x10", "nan ", "nan", "inf", "-inf", "-nan", ""}) {
    EXPECT_EQ(InferValue(text).kind_case(), v1::Value::kStringValue) << text;
    EXPECT_EQ(ValueText(InferValue(text)), text);
  }
}

TEST(ValueTest, WordsAreAsAShellTakesThem) {
  for (const char* text : {"MODE=1", "a/b.pbtxt", "N=1..8192*2", "x=a b", "it's", "", "$HOME", "a;b", "é", "~"}) {
    const std::string command = "printf %s " + ShellWord(text);
    FILE* const pipe = popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    char printed[64] = {};
    printed[fread(printed, 1, sizeof(printed) - 1, pipe)] = 0;
    pclose(pipe);
    EXPECT_STREQ(printed, text) << command;
  }
  EXPECT_EQ(ShellWord("MODE=1.5"), "MODE=1.5");
  EXPECT_EQ(ShellWord("it's"), "'it'\\''s'");
}

TEST(ProblemOptionsTest, APinMayBeEmpty) {
  ProblemOptions options;
  options.pins = {"MODE="};
  const auto problems = MakeProblems(options);
  ASSERT_TRUE(problems.ok()) << problems.status();
  EXPECT_EQ((*problems)[0].pinned().at("MODE").kind_case(), v1::Value::kStringValue);
}

TEST(ValueTest, ConfigsAreSortedByName) {
  v1::Config config;
  for (const char* name : {"B", "A", "Z10", "Z2"}) (*config.mutable_values())[name] = InferValue("1");
  EXPECT_EQ(ConfigText(config), "A=1 B=1 Z10=1 Z2=1");
  EXPECT_EQ(ConfigText(v1::Config()), "");
  (*config.mutable_values())["A"].set_string_value("a b");
  EXPECT_EQ(ConfigText(config), "A='a b' B=1 Z10=1 Z2=1");
}

TEST(JobNamesTest, NumbersAndNames) {
  EXPECT_EQ(*JobName("17"), "jobs/17");
  EXPECT_EQ(*JobName("jobs/17"), "jobs/17");
  EXPECT_EQ(JobNumber("jobs/17"), "17");
  EXPECT_EQ(JobNumber("17"), "17");
  for (const char* bad : {"", "x", "17a", "-1", "jobs/", "jobs/x", "jobs/1/studies/2", " 17", "1234567890123456789"}) {
    EXPECT_EQ(JobName(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace tunefarm::cli
