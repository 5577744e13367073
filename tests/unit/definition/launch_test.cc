#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "server/definition/macro_rules.h"
#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class LaunchTest : public testing::Test {
 protected:
  LaunchTest() : plan_(SamplePlan()), problem_(SampleProblem(*plan_)), device_(FindKnownClass("H200").value()) {
    config_ = plan_->DefaultConfig(problem_);
    config_.Set("STAGES", Value(4));
    config_.Set("ORDER", Value("2.5"));
  }

  const std::shared_ptr<const KernelPlan> plan_;
  const ResolvedProblem problem_;
  const DeviceClass device_;
  Config config_;
};

TEST_F(LaunchTest, Constants) {
  const auto constants = plan_->Constants(problem_, config_, device_);
  ASSERT_TRUE(constants.ok()) << Message(constants.status());
  EXPECT_THAT(*constants, ElementsAre(Pair("BLOCK", "128"), Pair("K", "64"), Pair("ORDER", "2.5"),
                                      Pair("ORDER_2_5", "1"), Pair("SCALE", "0.5"), Pair("STAGES", "4"),
                                      Pair("dtype", "f32"), Pair("dtype_f32", "1"), Pair("element_bytes", "4")));
}

TEST(MacroValueTest, WordsAndNumbersCanBeMacros) {
  for (const char* good : {"row", "8x8", "_", "007", "1e3", "128.0", ".5", "2.", "-1", "+1.5e-3f", "3.0L", "-7ull"}) {
    EXPECT_EQ(definition::WhyNoMacroValue(good), "") << good;
  }
  for (const char* bad : {"col-major", "z.1", "+x", "-", ".", "1.2.3", "1e+", "a+b", "-1e", "--1", "1.0x", "e.5"}) {
    EXPECT_NE(definition::WhyNoMacroValue(bad), "") << bad;
  }
  EXPECT_THAT(definition::WhyNoMacroValue("col-major"), HasSubstr("write 'col_major'"));
}

// A derived text that only some configs give is found when they are compiled.
TEST_F(LaunchTest, DerivedTextsThatCannotBeMacros) {
  const auto plan =
      SamplePlan("derived { name: \"tile\"",
                 "derived { name: \"order\" bind: BIND_COMPILE expression: \"'a-b' if STAGES > 2 else 'a'\" "
                 "} derived { name: \"tile\"");
  ASSERT_NE(plan, nullptr);
  EXPECT_TRUE(plan->Constants(problem_, plan->DefaultConfig(problem_), device_).ok());
  const absl::Status status = plan->Constants(problem_, config_, device_).status();
  EXPECT_THAT(Message(status), HasSubstr("derived[1].expression: 'a-b' cannot be the value of a macro"));
}

// RUN-bound values do not multiply binaries.
TEST_F(LaunchTest, RunBoundParametersShareABinary) {
  Config other = config_;
  other.Set("VECTOR", Value(true));
  EXPECT_EQ(*plan_->Constants(problem_, other, device_), *plan_->Constants(problem_, config_, device_));
}

TEST_F(LaunchTest, BoolsAreDigits) {
  const auto plan = SamplePlan("bools: [false, true] } bind: BIND_RUN", "bools: [false, true] }");
  const auto constants = plan->Constants(SampleProblem(*plan), plan->DefaultConfig(problem_), device_);
  EXPECT_THAT(*constants, testing::Contains(Pair("VECTOR", "0")));
}

TEST_F(LaunchTest, Buffers) {
  const auto buffers = plan_->Buffers(problem_, config_, device_);
  ASSERT_TRUE(buffers.ok()) << Message(buffers.status());
  ASSERT_EQ(buffers->size(), 5U);
  const BufferPlan& x = (*buffers)[0];
  EXPECT_EQ(x.type, v1::DATA_TYPE_F32);
  EXPECT_EQ(x.length, 4096 * 64);
  EXPECT_EQ(x.init, v1::INIT_FILL);
  EXPECT_EQ(x.fill.normal().deviation(), 1);
  EXPECT_EQ((*buffers)[1].init, v1::INIT_POISON);
  const BufferPlan& sum = (*buffers)[2];
  EXPECT_EQ(sum.restore, v1::RESTORE_PER_SAMPLE);
  EXPECT_EQ(sum.fill.uniform().high(), 255);
  EXPECT_EQ((*buffers)[3].length, 128 * 4 * 132);
  EXPECT_TRUE((*buffers)[4].is_constant_symbol);
  EXPECT_EQ((*buffers)[4].symbol, "table");
}

TEST_F(LaunchTest, FootprintCountsCopiesAndGuards) {
  constexpr int64_t kGuards = 2 * 65536;
  const int64_t x = 4096 * 64 * 4 + kGuards;
  const int64_t sum = 4096 * 8 + kGuards;
  const int64_t work = 128 * 4 * 132 + kGuards;
  EXPECT_EQ(*plan_->FootprintBytes(problem_, config_, device_), x + 2 * x + 3 * sum + work + 16 * 4);
}

TEST_F(LaunchTest, StepsNeedTheLoadedKernelWhereTheyNameIt) {
  const absl::Status status = plan_->Steps(Sequence::kLaunches, problem_, config_, device_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Message(status),
              HasSubstr("launches[2].kernel.grid[0]: kernel.* is known only after 'finish' is loaded"));
}

TEST_F(LaunchTest, StepsAreEvaluated) {
  const std::map<std::string, LoadedEntry> loaded = {{"scale<BLOCK>", {9, 9, 9}}, {"finish", {3, 40, 0}}};
  const auto steps = plan_->Steps(Sequence::kLaunches, problem_, config_, device_, &loaded);
  ASSERT_TRUE(steps.ok()) << Message(steps.status());
  ASSERT_EQ(steps->size(), 2U);  // VECTOR is false, so that nothing is cleared.
  const StepPlan& scale = (*steps)[0];
  EXPECT_EQ(scale.entry, "scale<BLOCK>");
  EXPECT_TRUE(scale.timed);
  EXPECT_THAT(scale.grid, ElementsAre(8, 2, 1));
  EXPECT_THAT(scale.block, ElementsAre(128, 1, 1));
  EXPECT_EQ(scale.dynamic_shared_bytes, 128U * 4 * 64);
  EXPECT_FALSE(scale.cluster.has_value());
  EXPECT_THAT(scale.arguments, ElementsAre("x", "y", "n", "scale", "map"));
  int32_t n = 0;
  std::memcpy(&n, scale.scalars.at("n").bytes.data(), sizeof(n));
  EXPECT_EQ(n, 4096);
  float factor = 0;
  std::memcpy(&factor, scale.scalars.at("scale").bytes.data(), sizeof(factor));
  EXPECT_EQ(factor, 0.5F);
  EXPECT_EQ(scale.tensor_maps.at("map").buffer, "x");
  const driver_step::TensorMapValues& map = scale.tensor_maps.at("map").values;
  EXPECT_EQ(map.type, driver_step::TensorMapTypeOf(v1::DATA_TYPE_F32));
  EXPECT_EQ(map.rank, 2U);
  EXPECT_THAT(map.dims, ElementsAre(64, 4096, 0, 0, 0));
  EXPECT_THAT(map.byte_strides, ElementsAre(256, 0, 0, 0));
  EXPECT_THAT(map.box, ElementsAre(16, 4, 0, 0, 0));
  EXPECT_THAT(map.element_strides, ElementsAre(1, 1, 0, 0, 0));
  EXPECT_EQ(map.swizzle, driver_step::ModeOf(driver_step::kSwizzles, "128B"));
  EXPECT_EQ(map.interleave, driver_step::ModeOf(driver_step::kInterleaves, "none"));
  const StepPlan& finish = (*steps)[1];
  EXPECT_EQ(finish.name, "finish");
  EXPECT_THAT(finish.grid, ElementsAre(3 * 132, 1, 1));
  uint32_t resident = 0;
  std::memcpy(&resident, finish.scalars.at("resident").bytes.data(), sizeof(resident));
  EXPECT_EQ(resident, 3U * 132);
}

TEST_F(LaunchTest, ActiveBlocksAreTheLeastOfAnEntrysLaunchesAndOneAtLeast) {
  const auto plan = SamplePlan("reference { steps", R"(
launches { kernel { entry: "finish" grid: "1" block: "256" arguments: ["sum", "resident"] } }
reference { steps)");
  const std::map<std::string, LoadedEntry> loaded = {{"scale<BLOCK>", {9, 9, 9}}, {"finish", {9, 40, 0}}};
  std::vector<std::string> asked;
  int64_t threads = 512;
  const auto active_blocks = [&](const StepPlan& step) -> absl::StatusOr<int64_t> {
    asked.push_back(step.entry + " " + std::to_string(step.block[0]) + " " + std::to_string(step.dynamic_shared_bytes));
    return threads / step.block[0];
  };
  const auto grids = [&] {
    std::vector<uint32_t> all;
    const auto steps = plan->Steps(Sequence::kLaunches, problem_, config_, device_, &loaded, active_blocks);
    EXPECT_TRUE(steps.ok()) << Message(steps.status());
    for (const StepPlan& step : steps.value_or(std::vector<StepPlan>())) all.push_back(step.grid[0]);
    return all;
  };
  EXPECT_THAT(grids(), ElementsAre(8, 2 * 132, 1));
  EXPECT_THAT(asked, ElementsAre("scale<BLOCK> 128 32768", "finish 64 0", "finish 256 0"));
  threads = 0;
  EXPECT_THAT(grids(), ElementsAre(8, 132, 1));
  const absl::Status status =
      plan->Steps(Sequence::kLaunches, problem_, config_, device_, &loaded,
                  [](const StepPlan&) -> absl::StatusOr<int64_t> { return absl::CancelledError(); })
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST_F(LaunchTest, WhenLeavesStepsOut) {
  config_.Set("STAGES", Value(1));
  config_.Set("VECTOR", Value(true));
  const auto steps = plan_->Steps(Sequence::kLaunches, problem_, config_, device_);
  ASSERT_TRUE(steps.ok()) << Message(steps.status());
  ASSERT_EQ(steps->size(), 2U);
  EXPECT_EQ((*steps)[0].kind, StepPlan::Kind::kMemset);
  EXPECT_EQ((*steps)[0].memset_buffer, "y");
  EXPECT_EQ((*steps)[0].memset_byte, 7);
  EXPECT_FALSE((*steps)[0].timed);
}

TEST_F(LaunchTest, OtherSequences) {
  EXPECT_EQ((*plan_->Steps(Sequence::kPreparePerProblem, problem_, config_, device_))[0].memset_buffer, "work");
  EXPECT_EQ((*plan_->Steps(Sequence::kPreparePerConfig, problem_, config_, device_))[0].entry, "relayout");
  EXPECT_THAT((*plan_->Steps(Sequence::kReference, problem_, config_, device_))[0].grid, ElementsAre(16, 1, 1));
  const auto baseline = plan_->Steps(Sequence::kBaseline, problem_, config_, device_);
  ASSERT_TRUE(baseline.ok()) << Message(baseline.status());
  EXPECT_EQ((*baseline)[0].kind, StepPlan::Kind::kLibraryOp);
  EXPECT_EQ((*baseline)[0].m, 4096);
  EXPECT_EQ((*baseline)[0].k, 64);
  EXPECT_EQ((*baseline)[0].library_op.compute_type(), v1::COMPUTE_TYPE_FP32);
  EXPECT_THAT(plan_->Entries(Sequence::kLaunches), ElementsAre("scale<BLOCK>", "finish"));
  EXPECT_TRUE(plan_->HasSequence(Sequence::kReference));
  EXPECT_FALSE(
      SamplePlan(
          R"(baseline { steps { library_op { op: LIBRARY_OP_KIND_GEMM a: "x" b: "x" c: "y" m: "N" n: "K" k: "K" } } label: "cuBLAS" })",
          "")
          ->HasSequence(Sequence::kBaseline));
}

TEST_F(LaunchTest, ScalarsOutOfRangeAreRefused) {
  const auto plan = SamplePlan(R"(data_type: DATA_TYPE_I32 value: "N")", R"(data_type: DATA_TYPE_U8 value: "N")");
  config_.Set("STAGES", Value(1));
  const absl::Status status = plan->Steps(Sequence::kLaunches, problem_, config_, device_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("argument 'n': 4096 is out of the range of u8 (0 to 255)"));
}

TEST_F(LaunchTest, WhatDimsDecideIsCheckedForTheProblem) {
  EXPECT_TRUE(plan_->CheckProblem(problem_, device_).ok());
  const auto error = [this](std::string_view from, std::string_view to) {
    return Message(SamplePlan(from, to)->CheckProblem(problem_, device_));
  };
  constexpr std::string_view kScalar = "data_type: DATA_TYPE_I32 value: \"N\"";
  EXPECT_THAT(error(kScalar, "data_type: DATA_TYPE_I32 value: \"N * N * N\""),
              HasSubstr("argument 'n': 68719476736 is out of the range of i32"));
  EXPECT_THAT(error(kScalar, "data_type: DATA_TYPE_I32 value: \"N // (K - 64)\""),
              HasSubstr("division by zero in 4096 // 0"));
  EXPECT_THAT(error("\"ceil_div(N, 256)\"", "\"N - 4096\""), HasSubstr("0 is not between 1 and"));
  EXPECT_THAT(error("length: \"N\" access: ACCESS_INOUT", "length: \"N - 4096\" access: ACCESS_INOUT"),
              HasSubstr("buffer 'sum' has 0 elements"));
}

// What a parameter decides too is an outcome of the configs.
TEST_F(LaunchTest, WhatParametersDecideIsNotTheProblems) {
  const auto plan = SamplePlan("arguments { name: \"scale\" scalar { data_type: DATA_TYPE_F32 value: \"SCALE\" } }",
                               "arguments { name: \"scale\" scalar { data_type: DATA_TYPE_U8 value: \"BLOCK * 2\" } }");
  EXPECT_TRUE(plan->CheckProblem(problem_, device_).ok());
}

TEST_F(LaunchTest, AConfigWhoseLaunchesCannotBeEvaluatedIsNoted) {
  const auto plan =
      SamplePlan(R"(data_type: DATA_TYPE_I32 value: "N")", R"(data_type: DATA_TYPE_U8 value: "BLOCK * 2")");
  config_.Set("BLOCK", Value(64));
  EXPECT_EQ(*plan->FirstBrokenDeviceLimit(problem_, config_, device_), "");
  config_.Set("BLOCK", Value(128));
  const absl::Status status = plan->FirstBrokenDeviceLimit(problem_, config_, device_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("argument 'n': 256 is out of the range of u8 (0 to 255)"));
}

TEST_F(LaunchTest, WorkAndTolerance) {
  EXPECT_EQ(plan_->Flops(problem_, config_, device_), 4096.0 * 64);
  EXPECT_EQ(plan_->Bytes(problem_, config_, device_), 2.0 * 4096 * 64 * 4);
  EXPECT_EQ(plan_->Tolerance(problem_).atol, 0.001);
  EXPECT_EQ(plan_->Tolerance(problem_).rtol, 0);
  v1::Problem half;
  (*half.mutable_dims())["K"].set_int_value(64);
  (*half.mutable_dims())["dtype"].set_string_value("bf16");
  const TolerancePlan tolerance = plan_->Tolerance(*plan_->ResolveProblem(half));
  EXPECT_EQ(tolerance.rtol, 0.01);
  EXPECT_EQ(tolerance.row_length, 64);
}

}  // namespace
}  // namespace tunefarm
