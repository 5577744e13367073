// kernels/grouped_gemm on a GPU: every valid flag combination on sizes that are no multiple of anything, every pattern
// of empty, tiny and huge groups, a drawn sample of the configs, and the library's products against the references.
// Guard zones, untouched elements and unchanged inputs are the runner's part in every run. TUNEFARM_NIGHTLY=1 takes
// more configs.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <string>

#include "server/base/random.h"
#include "server/base/status.h"
#include "tests/fakes/repository_kernel.h"
#include "tests/gpu/kernel_bench.h"

namespace tunefarm {
namespace {

using tunefarm::worker::v1::Result;

v1::Kernel Load(const std::string& op) {
  const absl::StatusOr<v1::Kernel> kernel = LoadRepositoryKernel("grouped_gemm/grouped_gemm_" + op + ".pbtxt");
  EXPECT_TRUE(kernel.ok()) << MessageOf(kernel.status());
  return kernel.value_or(v1::Kernel());
}

// What a case is about: "permute_x", "permute_y", "permute_y_mul" or "" for flags.
struct Case {
  std::string op, flags, dtype;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* dtype : {"bf16", "f16"}) {
    for (const char* op : {"forward", "dx", "dw"}) {
      for (const char* flags : {"", "permute_x", "permute_y"}) cases.push_back({op, flags, dtype});
    }
    cases.push_back({"forward", "permute_y_mul", dtype});
    for (const char* flags : {"", "permute_x", "permute_y"}) cases.push_back({"gate_up", flags, dtype});
  }
  for (const char* flags : {"", "permute_x", "permute_y", "permute_y_mul"})
    cases.push_back({"forward_fp8", flags, "fp8"});
  for (const char* flags : {"", "permute_x", "permute_y"}) cases.push_back({"gate_up_fp8", flags, "fp8"});
  return cases;
}

struct Shape {
  const char* name;
  int tokens, topk, experts, n, k;
  const char* routing;
  std::vector<int> sizes;  // with routing explicit
};

const std::vector<Shape>& Shapes() {
  static const auto* const shapes =
      new std::vector<Shape>{{"odd", 333, 3, 13, 264, 200, "balanced", {}},
                             {"skewed", 1000, 2, 16, 512, 320, "zipf", {}},
                             {"one_empty", 500, 2, 9, 128, 1032, "one_empty", {}},
                             {"huge", 2048, 1, 8, 256, 256, "half_on_one", {}},
                             {"few_rows", 7, 4, 64, 384, 256, "balanced", {}},
                             {"patterns", 700, 1, 12, 136, 72, "explicit", {1, -1, 129, 64, 63, 7, -1, 128}},
                             {"all_on_last", 257, 2, 6, 72, 136, "explicit", {-1, -1, -1, -1, -1, -1, -1, -1}},
                             {"many_groups", 600, 2, 300, 64, 64, "balanced", {}}};
  return *shapes;
}

v1::Problem ProblemOf(const Case& test, const Shape& shape) {
  v1::Problem problem;
  auto& dims = *problem.mutable_dims();
  dims["tokens"].set_int_value(shape.tokens);
  dims["topk"].set_int_value(shape.topk);
  dims["E"].set_int_value(shape.experts);
  // Rows of fp8 are whole pieces of 16 bytes, and so are those of gate and of up.
  const auto rounded_up = [](int extent, bool is_rounded) { return is_rounded ? (extent + 15) / 16 * 16 : extent; };
  const bool is_gate_up = test.op.rfind("gate_up", 0) == 0;
  const bool is_fp8 = test.dtype == "fp8";
  const bool has_blocks = is_gate_up && (&shape - Shapes().data()) % 3 == 0;
  const bool has_whole_blocks = has_blocks || (is_gate_up && is_fp8);
  dims["N"].set_int_value(has_whole_blocks ? (shape.n + 255) / 256 * 256 : rounded_up(shape.n, is_gate_up));
  if (is_gate_up) dims["gate_up"].set_string_value(has_blocks ? "blocks" : "split");
  dims["K"].set_int_value(rounded_up(shape.k, is_fp8));
  dims["dtype"].set_string_value(test.dtype);
  dims["routing"].set_string_value(shape.routing);
  // Groups by their sizes in every second shape, by their ends in the others.
  dims["group_ends"].set_int_value((&shape - Shapes().data()) % 2);
  dims["permute_x"].set_bool_value(test.flags == "permute_x");
  dims["permute_y"].set_bool_value(test.flags.rfind("permute_y", 0) == 0);
  // Other shapes than those with blocks of gate and up by turns.
  if (is_fp8) dims["scale_layout"].set_string_value((&shape - Shapes().data()) % 3 == 1 ? "mn_major" : "row_major");
  if (test.op.rfind("forward", 0) == 0) dims["fuse_mul_post"].set_bool_value(test.flags == "permute_y_mul");
  for (size_t i = 0; i < shape.sizes.size(); ++i) dims["rows_" + std::to_string(i)].set_int_value(shape.sizes[i]);
  return problem;
}

class GroupedGemm : public testing::TestWithParam<Case> {};

TEST_P(GroupedGemm, DefaultsAndASampleOfTheSpaceAreRight) {
  const v1::Kernel definition = Load(GetParam().op);
  const char* const nightly = getenv("TUNEFARM_NIGHTLY");
  const int count = nightly != nullptr && *nightly == '1' ? 40 : 2;
  PhiloxStream random(20261121);
  int number = 0;
  for (const Shape& shape : Shapes()) {
    // Halves differ from bfloat16s in two instructions: every third shape is enough for them.
    if (number++ % 3 != 0 && GetParam().dtype == "f16" && count < 10) continue;
    SCOPED_TRACE(shape.name);
    KernelBench bench(definition, ProblemOf(GetParam(), shape));
    if (!bench.ok()) {
      ADD_FAILURE() << bench.prepared().message();
      continue;
    }
    bench.input.policy.set_max_samples(10);
    std::vector<std::string> configs = {""};
    // From the space of each path by itself: one is many times the other.
    for (const char* path : {"portable", "hopper"}) {
      v1::Problem problem = ProblemOf(GetParam(), shape);
      (*problem.mutable_pinned())["path"].set_string_value(path);
      const absl::StatusOr<ResolvedProblem> pinned = bench.kernel().plan->ResolveProblem(problem);
      if (!pinned.ok()) continue;  // there is no such path
      const absl::StatusOr<Space> space = bench.kernel().plan->BuildSpace(*pinned, bench.kernel().device_class);
      ASSERT_TRUE(space.ok()) << MessageOf(space.status());
      for (int i = 0; i < count; ++i) {
        const absl::StatusOr<std::vector<uint16_t>> indices = space->SampleUniform(random);
        if (indices.ok()) configs.push_back(space->MakeConfig(*indices).ToText());
      }
    }
    EXPECT_GT(configs.size(), static_cast<size_t>(count));
    for (const std::string& config : configs) {
      const Result result = bench.Run(config);
      EXPECT_EQ(v1::Outcome_Name(result.outcome()), "OUTCOME_OK") << config << ": " << result.message();
    }
  }
}

// Products by the library with the copies they need, through both of its forms: few experts are multiplied in a loop,
// many in one call.
TEST_P(GroupedGemm, LibrariesAgree) {
  const v1::Kernel definition = Load(GetParam().op);
  if (!definition.has_baseline()) GTEST_SKIP() << "no library has this product";
  for (const char* name : {"odd", "one_empty", "few_rows", "patterns", "many_groups"}) {
    SCOPED_TRACE(name);
    for (const Shape& shape : Shapes()) {
      if (std::string(shape.name) != name) continue;
      KernelBench bench(definition, ProblemOf(GetParam(), shape));
      if (!bench.ok()) {
        ADD_FAILURE() << bench.prepared().message();
        continue;
      }
      bench.input.policy.set_max_samples(10);
      const Result result = bench.RunBaseline();
      if (result.outcome() == v1::OUTCOME_LOAD_ERROR) {
        std::printf("no baseline: %s\n", result.message().c_str());
        continue;
      }
      EXPECT_EQ(v1::Outcome_Name(result.outcome()), "OUTCOME_OK") << result.message();
    }
  }
}

// Whole tensors, too, must be close: what the row norms allow for each row must not be used up by all of them.
TEST_P(GroupedGemm, WholeTensorsAreClose) {
  if (GetParam().dtype != "bf16") GTEST_SKIP() << "halves have tighter rows than this bound already";
  v1::Kernel definition = Load(GetParam().op);
  // The output as one row.
  const std::string all = GetParam().op == "gate_up"               ? "rows * N // 2"
                          : GetParam().op.rfind("forward", 0) == 0 ? "rows * N"
                          : GetParam().op == "dx"                  ? "rows * K"
                                                                   : "E * N * K";
  const auto change = [&all](v1::Tolerance* tolerance) {
    tolerance->set_row_length(all);
    tolerance->set_row_norm_bound(std::min(tolerance->row_norm_bound(), 2.5e-3));
  };
  change(definition.mutable_tolerance());
  for (v1::ConditionalTolerance& conditional : *definition.mutable_tolerance()->mutable_conditional())
    change(conditional.mutable_tolerance());
  KernelBench bench(definition, ProblemOf(GetParam(), Shapes().front()));
  ASSERT_TRUE(bench.ok()) << bench.prepared().message();
  bench.input.policy.set_max_samples(10);
  const Result result = bench.Run();
  EXPECT_EQ(v1::Outcome_Name(result.outcome()), "OUTCOME_OK") << result.message();
}

INSTANTIATE_TEST_SUITE_P(Flags, GroupedGemm, testing::ValuesIn(Cases()), [](const testing::TestParamInfo<Case>& test) {
  return test.param.op + "_" + test.param.dtype + (test.param.flags.empty() ? "" : "_" + test.param.flags);
});

}  // namespace
}  // namespace tunefarm
