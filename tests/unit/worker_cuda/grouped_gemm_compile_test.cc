// Real compilations of configs of kernels/grouped_gemm for sm_80 and sm_90a, with what the compiler reports compared to
// what the definitions take for granted: registers, spills, shared memory. A developer's sample is always the same, so
// that a change fails for what it does and not for what was drawn. TUNEFARM_ROTATING_SAMPLE=1 (continuous integration)
// draws a dozen for each target from the revision, TUNEFARM_NIGHTLY=1 200; TUNEFARM_SAMPLE_SEED=N repeats a draw.
// TUNEFARM_COMPILE_PART=K/N compiles one part of N, the K-th from 0, of all binaries of all spaces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <iostream>
#include <unordered_set>
#include <vector>

#include "server/base/hash.h"
#include "server/base/random.h"
#include "server/device/device_class.h"
#include "server/version.h"
#include "tests/fakes/repository_kernel.h"
#include "tests/unit/worker_cuda/cuda_kernel.h"

namespace tunefarm {
namespace {

// Sums that do not fit spill 800 bytes and more; none of the fixed sample does, and at most one config in twelve of a
// drawn one may: a search finds out and leaves it. A handful of values around the main loop costs little; what lies
// between is slow at worst, and must be rare.
constexpr int kSpillBytesMax = 512;
constexpr int kSpillBytesOfAHandful = 64;

bool IsOn(const char* variable) {
  const char* const value = getenv(variable);
  return value != nullptr && *value == '1';
}

bool IsNightly() { return IsOn("TUNEFARM_NIGHTLY"); }
bool IsRotating() { return IsNightly() || IsOn("TUNEFARM_ROTATING_SAMPLE"); }

uint64_t SampleSeed() {
  if (const char* const given = getenv("TUNEFARM_SAMPLE_SEED")) return strtoull(given, nullptr, 10);
  if (!IsRotating()) return 1;
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : std::string(TUNEFARM_REVISION)) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash % 1'000'000'007;
}

struct Target {
  const char* op;
  const char* device;
};

class GroupedGemmCompile : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<CompileBackend>> backend = MakeCudaCompileBackend({});
    if (!backend.ok()) GTEST_SKIP() << MessageOf(backend.status());
    backend_ = *std::move(backend);
    absl::StatusOr<v1::Kernel> definition =
        LoadRepositoryKernel(std::string("grouped_gemm/grouped_gemm_") + GetParam().op + ".pbtxt");
    ASSERT_TRUE(definition.ok()) << MessageOf(definition.status());
    definition_ = *std::move(definition);
  }

  // `flags`: 0 none, 1 permute_x, 2 permute_y, 3 permute_y with the fused multiplication (forward). `path` may be null.
  std::shared_ptr<PreparedKernel> Prepare(uint64_t flags, const char* dtype, const char* path) {
    v1::Problem problem;
    if (path != nullptr) (*problem.mutable_pinned())["path"].set_string_value(path);
    auto& dims = *problem.mutable_dims();
    dims["dtype"].set_string_value(dtype);
    dims["permute_x"].set_bool_value(flags == 1);
    dims["permute_y"].set_bool_value(flags >= 2);
    if (HasWeights()) dims["fuse_mul_post"].set_bool_value(flags == 3);
    if (IsGateUp()) dims["gate_up"].set_string_value(flags % 2 == 0 ? "split" : "blocks");
    return PrepareKernel(definition_, GetParam().device, problem);
  }

  bool HasWeights() const { return std::string(GetParam().op).starts_with("forward"); }
  uint64_t CountFlags() const { return HasWeights() ? 4 : 3; }
  bool IsFp8() const { return std::string(GetParam().op).ends_with("_fp8"); }
  bool IsGateUp() const { return std::string(GetParam().op).starts_with("gate_up"); }
  bool HasPortablePath() const { return !IsFp8() && !IsGateUp(); }
  std::vector<const char*> DataTypes() const {
    return IsFp8() ? std::vector<const char*>{"fp8"} : std::vector<const char*>{"bf16", "f16"};
  }

  void CompileAndCheck(const PreparedKernel& kernel, const Config& config) {
    SilentReporter reporter;
    std::string artifact;
    const auto result = backend_->Compile(kernel, config, &reporter, &artifact);
    ASSERT_EQ(result.outcome(), v1::OUTCOME_OK) << config.ToText() << ": " << result.message() << "\n" << result.log();
    const auto value = [&config](const char* name) { return config.Find(name)->int_value(); };
    const std::string path = config.Find("path")->string_value();
    const v1::ResourceUse& use = result.resources();
    ++compiled_;
    if (use.spill_bytes() > kSpillBytesOfAHandful) ++spilling_;
    if (use.spill_bytes() > kSpillBytesMax) {
      ++slow_;
      slow_configs_ += config.ToText() + "\n";
    }
    if (path != "portable") {
      // Wgmmas that the compiler had to serialise, or setmaxnreg that it ignored.
      EXPECT_THAT(result.log(), testing::Not(testing::HasSubstr("C75"))) << config.ToText();
      return;
    }
    const bool forward = std::string(GetParam().op) == "forward", dw = std::string(GetParam().op) == "dw";
    const int64_t m = value(dw ? "BLOCK_SIZE_N" : "BLOCK_SIZE_M"), n = value(forward ? "BLOCK_SIZE_N" : "BLOCK_SIZE_K");
    const int64_t k = value(dw ? "BLOCK_SIZE_M" : forward ? "BLOCK_SIZE_K" : "BLOCK_SIZE_N");
    const int64_t warps = value("num_warps"), warps_m = value("warps_m");
    const int64_t estimate = m * n / (32 * warps) + m / warps_m / 2 + n / (warps / warps_m) / 2 + 56;
    // A bound on what the block may need: with one block there are registers to spare, which the compiler then uses.
    if (value("min_blocks") > 1) {
      EXPECT_LE(use.registers(), 65536 / (value("min_blocks") * 32 * warps)) << config.ToText();
    }
    EXPECT_LE(use.registers(), 255) << config.ToText();
    EXPECT_LE(estimate, 255) << config.ToText();
    EXPECT_EQ(use.static_shared_bytes(), 0) << config.ToText();
    const std::map<std::string, LoadedEntry> loaded = {
        {std::string("grouped_gemm_") + GetParam().op, {1, static_cast<int>(use.registers()), 0}}};
    const auto steps = kernel.plan->Steps(Sequence::kLaunches, kernel.problem, config, kernel.device_class, &loaded);
    ASSERT_TRUE(steps.ok()) << MessageOf(steps.status());
    ASSERT_EQ(steps->size(), 1U) << config.ToText();
    const bool staged = config.Find("epilogue")->string_value() == "staged";
    const int64_t ring = value("num_stages") * (m + n) * k * 2, out = staged ? m * (n + 8) * 2 : 0;
    EXPECT_EQ(steps->front().dynamic_shared_bytes, std::max(ring, out) + 8 * (128 + 1)) << config.ToText();
    EXPECT_LE(steps->front().dynamic_shared_bytes, kernel.device_class.shared_bytes_per_block_optin);
  }

  std::unique_ptr<CompileBackend> backend_;
  v1::Kernel definition_;
  void ExpectFewSpills() const {
    EXPECT_LE(slow_, IsRotating() || getenv("TUNEFARM_COMPILE_PART") != nullptr ? (compiled_ + 11) / 12 : 0)
        << "of " << compiled_ << ":\n"
        << slow_configs_;
    if (compiled_ >= 100) {
      EXPECT_LE(spilling_, compiled_ / 10) << "of " << compiled_;
    }
  }

  int compiled_ = 0;
  int spilling_ = 0;  // configs that spill more than a handful
  int slow_ = 0;      // configs that spill more than kSpillBytesMax
  std::string slow_configs_;
};

TEST_P(GroupedGemmCompile, ASampleOfTheSpaceIsWhatTheDefinitionExpects) {
  const uint64_t seed = SampleSeed();
  SCOPED_TRACE("TUNEFARM_SAMPLE_SEED=" + std::to_string(seed));
  PhiloxStream random(seed, static_cast<uint64_t>(GetParam().op[1] + (IsFp8() ? 1 : 0)) << 8 |
                                static_cast<uint64_t>(*GetParam().device));
  const uint64_t kinds = CountFlags();
  const bool has_hopper = std::string(GetParam().device) == "H200";
  const int rounds = IsNightly() ? 20 : IsRotating() ? 6 : 2, configs_each = IsNightly() ? 10 : IsRotating() ? 2 : 1;
  for (int round = 0; round < rounds; ++round) {
    // In turn: the space of one path is many times that of the other.
    const char* const path = !HasPortablePath() || (has_hopper && round % 2 == 0) ? "hopper" : "portable";
    const char* const dtype = DataTypes()[random.UniformInt(DataTypes().size())];
    const auto kernel = Prepare(random.UniformInt(kinds), dtype, path);
    ASSERT_NE(kernel, nullptr);
    const absl::StatusOr<Space> space = kernel->plan->BuildSpace(kernel->problem, kernel->device_class);
    ASSERT_TRUE(space.ok()) << MessageOf(space.status());
    for (int i = 0; i < configs_each; ++i) {
      const absl::StatusOr<std::vector<uint16_t>> indices = space->SampleUniform(random);
      ASSERT_TRUE(indices.ok()) << MessageOf(indices.status());
      ASSERT_NO_FATAL_FAILURE(CompileAndCheck(*kernel, space->MakeConfig(*indices)));
    }
  }
  ExpectFewSpills();
}

// Configs that differ in what is not compiled in share a binary.
TEST_P(GroupedGemmCompile, EveryBinaryIsWhatTheDefinitionExpects) {
  const char* const part_text = getenv("TUNEFARM_COMPILE_PART");
  if (part_text == nullptr) GTEST_SKIP() << "TUNEFARM_COMPILE_PART=K/N compiles a part of all binaries";
  uint64_t part = 0, parts = 0;
  ASSERT_EQ(sscanf(part_text, "%" SCNu64 "/%" SCNu64, &part, &parts), 2) << part_text;
  ASSERT_LT(part, parts);
  const uint64_t kinds = CountFlags();
  std::unordered_set<uint64_t> seen;
  for (uint64_t flags = 0; flags < kinds; ++flags) {
    for (const char* const dtype : DataTypes()) {
      const auto kernel = Prepare(flags, dtype, nullptr);
      ASSERT_NE(kernel, nullptr);
      const absl::StatusOr<Space> space = kernel->plan->BuildSpace(kernel->problem, kernel->device_class);
      ASSERT_TRUE(space.ok()) << MessageOf(space.status());
      const absl::StatusOr<ConfigTable> table = space->Enumerate();
      ASSERT_TRUE(table.ok()) << MessageOf(table.status());
      for (uint64_t row = 0; row < table->size(); ++row) {
        const Config config = space->ConfigAt(*table, row);
        const auto constants = kernel->plan->Constants(kernel->problem, config, kernel->device_class);
        ASSERT_TRUE(constants.ok()) << MessageOf(constants.status());
        std::string text;
        for (const auto& [name, value] : *constants) text += name + "=" + value + "\n";
        const uint64_t hash = Xxh3(text);
        if (hash % parts != part || !seen.insert(hash).second) continue;
        ASSERT_NO_FATAL_FAILURE(CompileAndCheck(*kernel, config));
      }
    }
  }
  std::cout << GetParam().op << " on " << GetParam().device << ": " << compiled_ << " binaries, " << spilling_
            << " spill more than a handful, " << slow_ << " more than " << kSpillBytesMax << " bytes\n";
  EXPECT_GT(compiled_, 0);
  ExpectFewSpills();
}

// The default config stands for the reference too: it must compile under every flag.
TEST_P(GroupedGemmCompile, TheDefaultConfigCompiles) {
  const uint64_t kinds = IsNightly() ? CountFlags() : 1;
  for (uint64_t flags = 0; flags < kinds; ++flags) {
    const auto kernel = Prepare(flags, DataTypes().front(), nullptr);
    ASSERT_NE(kernel, nullptr);
    const Config config = kernel->plan->DefaultConfig(kernel->problem);
    const absl::StatusOr<Space> space = kernel->plan->BuildSpace(kernel->problem, kernel->device_class);
    ASSERT_TRUE(space.ok()) << MessageOf(space.status());
    EXPECT_TRUE(space->Contains(config)) << MessageOf(space->Check(config));
    ASSERT_NO_FATAL_FAILURE(CompileAndCheck(*kernel, config));
  }
  ExpectFewSpills();
}

INSTANTIATE_TEST_SUITE_P(Targets, GroupedGemmCompile,
                         testing::Values(Target{"forward", "A100"}, Target{"forward", "H200"}, Target{"dx", "A100"},
                                         Target{"dx", "H200"}, Target{"dw", "A100"}, Target{"dw", "H200"},
                                         Target{"forward_fp8", "H200"}, Target{"gate_up", "H200"},
                                         Target{"gate_up_fp8", "H200"}),
                         [](const testing::TestParamInfo<Target>& target) {
                           return std::string(target.param.op) + "_" + target.param.device;
                         });

}  // namespace
}  // namespace tunefarm
