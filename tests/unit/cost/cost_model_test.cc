#include "server/cost/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cost/tiled_kernel.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

struct Made {
  std::shared_ptr<const KernelPlan> plan;
  ResolvedProblem problem;
  DeviceClass device;
  std::optional<Space> space;
  std::shared_ptr<const CostModel> model;

  std::optional<CostPrediction> Predict(const Config& config) const {
    CostModel::Scratch scratch = model->MakeScratch();
    return model->Predict(space->IndicesOf(config).value(), &scratch);
  }
};

Made Make(std::shared_ptr<const KernelPlan> plan, std::string_view device = "A100", int64_t n = 100'000) {
  Made made;
  made.plan = std::move(plan);
  made.device = FindKnownClass(device).value();
  tunefarm::v1::Problem problem;
  (*problem.mutable_dims())["N"].set_int_value(n);
  made.problem = made.plan->ResolveProblem(problem).value();
  made.space = made.plan->BuildSpace(made.problem, made.device).value();
  made.model = CostModel::Make(made.plan, made.problem, made.device, *made.space).value();
  return made;
}

Config TiledConfig(int64_t threads, int64_t per_thread = 1, int64_t shared = 0) {
  return Config{{"THREADS", Value(threads)}, {"PER_THREAD", Value(per_thread)}, {"SHARED", Value(shared)}};
}

TEST(CostModelTest, ReadsTheLaunchOfAConfig) {
  const Made made = Make(TiledPlan());
  const auto prediction = made.Predict(TiledConfig(48, 2, 16384));
  ASSERT_TRUE(prediction.has_value());
  const LaunchCost& launch = prediction->largest;
  EXPECT_EQ(launch.threads_per_block, 48);
  EXPECT_EQ(launch.blocks, 1042);  // 100,000 / 96, rounded up
  EXPECT_EQ(launch.shared_bytes, 16384);
  EXPECT_EQ(launch.occupancy.blocks_per_sm, 9);  // 17 KiB each of 164
  EXPECT_DOUBLE_EQ(launch.lanes, 0.75);
  EXPECT_DOUBLE_EQ(launch.tiles, 100'000.0 / 96 / 1042);
  EXPECT_EQ(prediction->floor_ns, 0) << "no work is declared";
  EXPECT_DOUBLE_EQ(prediction->time, 1 / launch.efficiency());
}

// The same of one that KernelPlan::Steps evaluates, for every config.
TEST(CostModelTest, AgreesWithThePlanOnEveryConfig) {
  const Made made = Make(TiledPlan());
  const ConfigTable table = made.space->Enumerate().value();
  ASSERT_EQ(table.size(), 60u);
  CostModel::Scratch scratch = made.model->MakeScratch();
  for (uint64_t row = 0; row < table.size(); ++row) {
    const Config config = made.space->ConfigAt(table, row);
    const auto steps = made.plan->Steps(Sequence::kLaunches, made.problem, config, made.device).value();
    const auto prediction = made.model->Predict(table.Row(row), &scratch);
    ASSERT_TRUE(prediction.has_value()) << config.ToText();
    EXPECT_EQ(prediction->largest.blocks, steps[0].grid[0]) << config.ToText();
    EXPECT_EQ(prediction->largest.threads_per_block, steps[0].block[0]) << config.ToText();
    EXPECT_EQ(prediction->largest.shared_bytes, steps[0].dynamic_shared_bytes) << config.ToText();
  }
}

TEST(CostModelTest, RoundingInDerivedNamesAndWithinOneAnotherCounts) {
  const Made made = Make(TiledPlan("derived { name: \"tile\"",
                                   "derived { name: \"tiles\" expression: \"ceil_div(ceil_div(N, THREADS), "
                                   "PER_THREAD)\" }\nderived { name: \"tile\""),
                         "A100", 1000);
  EXPECT_DOUBLE_EQ(made.Predict(TiledConfig(64, 4))->largest.tiles, 1000.0 / 256 / 4);
  const Made nested = Make(TiledPlan("ceil_div(N, tile)", "ceil_div(ceil_div(N, THREADS), PER_THREAD)"), "A100", 1000);
  EXPECT_DOUBLE_EQ(nested.Predict(TiledConfig(64, 4))->largest.tiles, 1000.0 / 256 / 4);
  const Made floored = Make(TiledPlan("ceil_div(N, tile)", "(N + tile - 1) // tile"), "A100", 1000);
  EXPECT_DOUBLE_EQ(floored.Predict(TiledConfig(64, 4))->largest.tiles, 1) << "other roundings are not understood";
}

TEST(CostModelTest, DeclaredRegistersAndStaticSharedMemoryCount) {
  const Made made = Make(TiledPlan("unverified_reason",
                                   "resources { registers_per_thread: \"128\" static_shared_bytes: "
                                   "\"1024 * PER_THREAD\" }\nunverified_reason"));
  const auto prediction = made.Predict(TiledConfig(256, 8));
  EXPECT_EQ(prediction->largest.shared_bytes, 8192);
  EXPECT_EQ(prediction->largest.occupancy.blocks_per_sm, 2);
  EXPECT_EQ(prediction->largest.occupancy.limit, OccupancyLimit::kRegisters);
}

TEST(CostModelTest, TheRooflineTellsConfigsApartWhereWorkNamesParameters) {
  const std::string work = "flops: \"0\"\nbytes: \"4 * N * (1 + PER_THREAD)\"\nunverified_reason";
  const Made made = Make(TiledPlan("unverified_reason", work));
  const auto one = made.Predict(TiledConfig(64, 1)), two = made.Predict(TiledConfig(64, 2));
  EXPECT_NEAR(one->floor_ns, 8e5 / 2039, 1e-6);
  EXPECT_NEAR(two->floor_ns / one->floor_ns, 1.5, 1e-9);
  DeviceClass unknown = made.device;
  unknown.display_name = "another";
  const auto model = CostModel::Make(made.plan, made.problem, unknown, *made.space).value();
  CostModel::Scratch scratch = model->MakeScratch();
  EXPECT_EQ(model->Predict(made.space->IndicesOf(TiledConfig(64)).value(), &scratch)->floor_ns, 0);
}

TEST(CostModelTest, LaunchesCountByTheirThreads) {
  const std::string two =
      "launches { kernel { entry: \"small\" grid: \"1\" block: \"THREADS\" arguments: [\"y\"] } when: \"wide\" "
      "}\nunverified_reason";
  const auto plan = TiledPlan("unverified_reason", two);
  const Made narrow = Make(plan);
  EXPECT_EQ(narrow.Predict(TiledConfig(64))->largest.blocks, 1563);
  Made wide = Make(TiledPlan("unverified_reason", two));
  tunefarm::v1::Problem problem;
  (*problem.mutable_dims())["wide"].set_bool_value(true);
  wide.problem = wide.plan->ResolveProblem(problem).value();
  wide.model = CostModel::Make(wide.plan, wide.problem, wide.device, *wide.space).value();
  const auto prediction = wide.Predict(TiledConfig(64));
  EXPECT_EQ(prediction->largest.blocks, 1563);
  EXPECT_GT(prediction->time, narrow.Predict(TiledConfig(64))->time) << "the small one idles most of the device";
}

TEST(CostModelTest, AGridThatAsksHowManyBlocksFitHasNoTail) {
  const Made made = Make(TiledPlan("ceil_div(N, tile)", "kernel.max_active_blocks * device.sm_count"));
  const auto prediction = made.Predict(TiledConfig(64));
  EXPECT_EQ(prediction->largest.blocks, 0);
  EXPECT_DOUBLE_EQ(prediction->time, 1);
}

TEST(CostModelTest, SaysWhatItHasNothingToGoBy) {
  const auto refusal = [](const std::shared_ptr<const KernelPlan>& plan, const DeviceClass& device) {
    const ResolvedProblem problem = plan->ResolveProblem({}).value();
    const Space space = plan->BuildSpace(problem, device).value();
    const absl::Status status = CostModel::Make(plan, problem, device, space).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ReasonOf(status), "COST_MODEL_UNAVAILABLE");
    return std::string(MessageOf(status));
  };
  const DeviceClass a100 = FindKnownClass("A100").value();
  EXPECT_EQ(refusal(TiledPlan("block: \"THREADS\"", "block: \"min(THREADS, kernel.registers)\""), a100),
            "the cost model has nothing to go by: the block of launches[0] of kernel 'tiled' is known only after "
            "compiling; leave it off");
  EXPECT_EQ(refusal(TiledPlan(kTiledText.substr(kTiledText.find("launches"),
                                                kTiledText.find("unverified") - kTiledText.find("launches")),
                              "launches { library_op { op: LIBRARY_OP_KIND_GEMM a: \"x\" b: \"x\" c: \"y\" m: \"1\" n: "
                              "\"1\" k: \"1\" } }\n"),
                    a100),
            "the cost model has nothing to go by: kernel 'tiled' times no launch of its own; leave it off");
  std::string host(kTiledText);
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"LANGUAGE_CUDA", "LANGUAGE_HOST_CXX"},
        {"tiled.cu", "tiled.cc"},
        {"grid: \"ceil_div(N, tile)\" block: \"THREADS\" dynamic_shared_bytes: \"SHARED\"", ""}}) {
    host.replace(host.find(from), from.size(), to);
  }
  const auto plan = KernelPlan::Compile(ParseKernelText(host, "kernel.pbtxt").value());
  ASSERT_TRUE(plan.ok()) << MessageOf(plan.status());
  DeviceClass cpu;
  cpu.kind = DeviceKind::kHost;
  cpu.sm_count = 2;
  EXPECT_THAT(refusal(*plan, cpu), HasSubstr("kernel 'tiled' is written in C++ for the host"));
}

}  // namespace
}  // namespace tunefarm
