// Dims with inputs_only: what may use them, and that nothing of a binary depends on them.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "server/definition/launch_digest.h"
#include "server/definition/lookup_rules.h"
#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

using testing::StartsWith;

// A buffer that a prepare step draws, by a law and with a size that only describe inputs.
constexpr std::string_view kDrawn = R"pb(
  dims {
    name: "draw"
    default_value { string_value: "even" }
    values { string_value: "even" }
    values { string_value: "skew" }
    inputs_only: true
  }
  dims {
    name: "first"
    default_value { int_value: 1 }
    max: 64
    inputs_only: true
  }
  derived { name: "drawn" expression: "N * first" }
  arguments {
    name: "order"
    buffer {
      data_type: DATA_TYPE_I32
      length: "drawn"
      access: ACCESS_IN
      fill { prepare_step: "draw" }
    }
  }
  arguments {
    name: "law"
    scalar { data_type: DATA_TYPE_I32 value: "1 if draw == 'skew' else 0" }
  }
  prepare {
    step {
      name: "draw"
      kernel {
        entry: "draw"
        grid: "ceil_div(drawn, 256)"
        block: "256"
        arguments: [ "order", "law" ]
      }
      when: "first > 0"
    }
  }
)pb";
constexpr std::string_view kRule = "it describes test inputs, on which nothing that is tuned may depend";

// The reference is judged with what was drawn, too.
std::string DrawnWith(std::string_view more) {
  constexpr std::string_view kReference = R"(block: "256" arguments: ["x", "y", "n")";
  return SampleWith(kReference, fmt::format(R"({}, "order", "law")", kReference)) + fmt::format("{}{}", kDrawn, more);
}

std::string Refusal(const std::string& text) {
  const absl::Status status = CompileText(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::string message = Message(status);
  return message.substr(0, message.find('\n'));
}

ResolvedProblem Problem(const KernelPlan& plan, const std::string& draw, int64_t first) {
  v1::Problem problem;
  (*problem.mutable_dims())["K"].set_int_value(64);
  (*problem.mutable_dims())["draw"].set_string_value(draw);
  (*problem.mutable_dims())["first"].set_int_value(first);
  auto resolved = plan.ResolveProblem(problem);
  EXPECT_TRUE(resolved.ok()) << Message(resolved.status());
  return resolved.ok() ? *resolved : ResolvedProblem();
}

TEST(InputsOnlyTest, NoBinaryDependsOnThem) {
  const auto plan = CompileText(DrawnWith(""));
  ASSERT_TRUE(plan.ok()) << Message(plan.status());
  const DeviceClass device = *FindKnownClass("H200");
  const ResolvedProblem even = Problem(**plan, "even", 1), skew = Problem(**plan, "skew", 7);
  EXPECT_NE(even.key, skew.key) << "results are filed under all dims";
  const Config config = (*plan)->DefaultConfig(even);
  const auto constants = (*plan)->Constants(even, config, device);
  ASSERT_TRUE(constants.ok()) << Message(constants.status());
  EXPECT_EQ(*constants, *(*plan)->Constants(skew, config, device));
  for (const auto& [name, value] : *constants) {
    EXPECT_THAT(name, testing::Not(testing::AnyOf(StartsWith("draw"), StartsWith("first"))));
  }
  EXPECT_EQ(*LaunchDigest(**plan, even, config, device),
            *LaunchDigest(**plan, Problem(**plan, "skew", 1), config, device));
}

TEST(InputsOnlyTest, StepsThatMakeInputsGetThem) {
  const auto plan = CompileText(DrawnWith(""));
  ASSERT_TRUE(plan.ok()) << Message(plan.status());
  const DeviceClass device = *FindKnownClass("H200");
  const ResolvedProblem problem = Problem(**plan, "skew", 7);
  EXPECT_TRUE((*plan)->CheckProblem(problem, device).ok());
  const Config config = (*plan)->DefaultConfig(problem);
  const auto steps = (*plan)->Steps(Sequence::kPreparePerProblem, problem, config, device);
  ASSERT_TRUE(steps.ok()) << Message(steps.status());
  ASSERT_EQ(steps->size(), 2U);
  EXPECT_EQ((*steps)[1].grid[0], 7 * 4096 / 256);
  int32_t law = 0;
  std::memcpy(&law, (*steps)[1].scalars.at("law").bytes.data(), sizeof(law));
  EXPECT_EQ(law, 1);
  const auto buffers = (*plan)->Buffers(problem, config, device);
  ASSERT_TRUE(buffers.ok()) << Message(buffers.status());
  EXPECT_EQ(buffers->back().length, 7 * 4096);
}

// Stored definitions are checked again as they were stored.
TEST(InputsOnlyTest, TheCanonicalDefinitionIsItsOwn) {
  const auto plan = CompileText(DrawnWith(""));
  ASSERT_TRUE(plan.ok()) << Message(plan.status());
  EXPECT_EQ((*plan)->kernel().dims(4).bind(), v1::BIND_RUN) << "a string, too";
  const auto again = KernelPlan::Compile((*plan)->kernel());
  ASSERT_TRUE(again.ok()) << Message(again.status());
  EXPECT_EQ((*again)->kernel_id(), (*plan)->kernel_id());
}

TEST(InputsOnlyTest, NoQuestionHasToNameThem) {
  const auto plan = CompileText(DrawnWith(""));
  ASSERT_TRUE(plan.ok()) << Message(plan.status());
  EXPECT_EQ(SampleProblem(**plan).key, Problem(**plan, "even", 1).key);
}

TEST(InputsOnlyTest, WhatIsTunedMustNotUseThem) {
  struct Case {
    std::string_view more, message;
  };
  for (const Case& c : {
           Case{R"(constraints { expression: "BLOCK > first" })",
                "constraints[1].expression: expression error at column 9: 'first' is a dim with inputs_only; "},
           Case{R"(constraints { expression: "drawn > BLOCK" })",
                "constraints[1].expression: expression error at column 1: 'first' is a dim with inputs_only, and a "
                "derived value here uses it; "},
           Case{R"(launches { kernel { entry: "e" grid: "first" block: "1" } })",
                "launches[3].kernel.grid[0]: expression error at column 1: 'first' is a dim with inputs_only; "},
           Case{R"(launches { kernel { entry: "e" grid: "1" block: "1" } when: "draw == 'even'" })",
                "launches[3].when: expression error at column 1: 'draw' is a dim with inputs_only; "},
           Case{R"(launches { kernel { entry: "e" grid: "1" block: "1" arguments: ["x", "law"] } })",
                "launches[3].kernel.arguments[1]: 'law' uses the dim 'draw', which has inputs_only: "},
           Case{R"(launches { kernel { entry: "e" grid: "1" block: "1" arguments: ["order"] } })",
                "launches[3].kernel.arguments[0]: 'order' uses the dim 'first', which has inputs_only: "},
           Case{R"(arguments { name: "view" tensor_map { buffer: "x" dims: "first" box: "1" } }
                   launches { kernel { entry: "e" grid: "1" block: "1" arguments: ["view"] } })",
                "launches[3].kernel.arguments[0]: 'view' uses the dim 'first', which has inputs_only: "},
           Case{R"(arguments { name: "view" tensor_map { buffer: "order" dims: "64" box: "1" } }
                   launches { kernel { entry: "e" grid: "1" block: "1" arguments: ["view"] } })",
                "launches[3].kernel.arguments[0]: 'view' uses the dim 'first', which has inputs_only: "},
           Case{R"(arguments { name: "room" buffer { data_type: DATA_TYPE_F32 length: "first" access: ACCESS_SCRATCH } }
                   launches { memset { buffer: "room" } })",
                "launches[3].memset.buffer: 'room' uses the dim 'first', which has inputs_only: "},
           Case{R"(launches { library_op { op: LIBRARY_OP_KIND_GEMM a: "x" b: "x" c: "y" m: "N" n: "K" k: "first" } })",
                "launches[3].library_op.k: expression error at column 1: 'first' is a dim with inputs_only; "},
           Case{R"(prepare { step { kernel { entry: "e" grid: "1" block: "1" arguments: ["law"] } }
                             per: PREPARE_PER_CONFIG })",
                "prepare[3].step.kernel.arguments[0]: 'law' uses the dim 'draw', which has inputs_only: "},
           Case{R"(arguments { name: "other" constant_symbol { symbol: "other" data_type: DATA_TYPE_F32
                                                               length: "first" } })",
                "arguments[11].constant_symbol.length: expression error at column 1: 'first' is a dim with "
                "inputs_only; "},
       }) {
    SCOPED_TRACE(c.more);
    EXPECT_EQ(Refusal(DrawnWith(c.more)), fmt::format("{}{}", c.message, kRule));
  }
  EXPECT_EQ(Refusal(SampleWith("32 * STAGES", "32 * first") + std::string(kDrawn)),
            fmt::format("resources.registers_per_thread: expression error at column 6: 'first' is a dim with "
                        "inputs_only; {}",
                        kRule));
}

TEST(InputsOnlyTest, ADimThatOnlyDescribesInputsSaysNothingElse) {
  struct Case {
    std::string_view more, message;
  };
  for (const Case& c : {
           Case{R"(dims { name: "seed" inputs_only: true })", "dims[6].default_value: a dim with inputs_only needs a "},
           Case{R"(dims { name: "seed" default_value { int_value: 1 } lookup: LOOKUP_RULE_LOG inputs_only: true })",
                "dims[6].lookup: a look-up never compares a dim with inputs_only"},
           Case{R"(dims { name: "seed" default_value { int_value: 1 } bind: BIND_COMPILE inputs_only: true })",
                "dims[6].bind: a dim with inputs_only is never part of a binary"},
           Case{R"(derived { name: "baked" expression: "first * 2" bind: BIND_COMPILE })",
                "derived[3].bind: 'baked' uses the dim 'first', which has inputs_only"},
           Case{R"(dims { name: "kind" default_value { string_value: "f32" } values { string_value: "f32" }
                          type: VALUE_TYPE_STRING inputs_only: true }
                   arguments { name: "z" buffer { data_type_dim: "kind" length: "N" access: ACCESS_IN } })",
                "arguments[11].buffer.data_type_dim: 'kind' has inputs_only"},
       }) {
    SCOPED_TRACE(c.more);
    EXPECT_THAT(Refusal(DrawnWith(c.more)), StartsWith(std::string(c.message)));
  }
}

// A module of Python makes its inputs itself, of all values.
TEST(InputsOnlyTest, AModuleOfPythonGetsThem) {
  const auto plan = CompileText(R"pb(
    display_name: "snake"
    language: LANGUAGE_PYTHON
    python { device: DEVICE_KIND_HOST }
    sources { path: "snake.py" content: "pass" }
    dims {
      name: "draw"
      default_value { string_value: "even" }
      values { string_value: "even" }
      values { string_value: "skew" }
      inputs_only: true
    }
    derived { name: "law" expression: "1 if draw == 'skew' else 0" }
    parameters {
      name: "BLOCK"
      values { ints: [ 32, 64 ] }
    }
  )pb");
  ASSERT_TRUE(plan.ok()) << Message(plan.status());
  EXPECT_TRUE(KernelPlan::Compile((*plan)->kernel()).ok());
}

// Of bests that answer equally well, the one of the usual inputs is chosen.
TEST(InputsOnlyTest, DimsOffTheirDefaultsAreCounted) {
  const auto plan = CompileText(DrawnWith(""));
  ASSERT_TRUE(plan.ok()) << Message(plan.status());
  const Config defaults = InputDefaults((*plan)->kernel());
  EXPECT_EQ(defaults.ToText(), "draw=even,first=1");
  EXPECT_EQ(InputsOffDefault(defaults, Problem(**plan, "even", 1).dims), 0);
  EXPECT_EQ(InputsOffDefault(defaults, Problem(**plan, "skew", 1).dims), 1);
  EXPECT_EQ(InputsOffDefault(defaults, Problem(**plan, "skew", 7).dims), 2);
  // Stored under a definition that had no such dim yet.
  EXPECT_EQ(InputsOffDefault(defaults, {{"first", Value(2)}}), 1);
}

}  // namespace
}  // namespace tunefarm
