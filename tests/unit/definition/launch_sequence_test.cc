#include "server/definition/launch_sequence.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "server/base/file.h"
#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;
using testing::Not;

using Symbols = std::map<std::string, std::string>;

void ExpectIs(const v1::LaunchSequence& made, const std::string& text) {
  v1::LaunchSequence expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &expected));
  google::protobuf::util::MessageDifferencer differencer;
  std::string difference;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(expected, made)) << difference;
}

class LaunchSequenceTest : public testing::Test {
 protected:
  absl::StatusOr<v1::LaunchSequence> Make(const KernelPlan& plan, const Symbols& symbols = {{"scale<BLOCK>", "_Z1s"}}) {
    const ResolvedProblem problem = SampleProblem(plan);
    Config config = plan.DefaultConfig(problem);
    config.Set("STAGES", Value(4));
    return MakeLaunchSequence(plan, problem, config, FindKnownClass("H200").value(), symbols);
  }

  void ExpectRefused(std::string_view from, std::string_view to, std::string_view message) {
    const auto made = Make(*SamplePlan(from, to));
    ASSERT_FALSE(made.ok());
    EXPECT_TRUE(absl::IsInvalidArgument(made.status()));
    EXPECT_THAT(Message(made.status()), HasSubstr(message));
  }
};

constexpr std::string_view kClear =
    R"(launches { name: "clear" memset { buffer: "y" byte: 7 } when: "VECTOR" untimed: true })";
constexpr std::string_view kProduct =
    R"(launches { library_op { op: LIBRARY_OP_KIND_GEMM a: "x" b: "x" c: "y" m: "N" n: "K" k: "K" } when: "VECTOR" })";

TEST_F(LaunchSequenceTest, KnownValuesArePutIn) {
  const auto made = Make(*SamplePlan());
  ASSERT_TRUE(made.ok()) << Message(made.status());
  ExpectIs(*made, R"text(
    open_dims: "N"
    values { key: "K" value { int_value: 64 } }
    values { key: "tile" value { int_value: 512 } }
    buffers { name: "x" data_type: DATA_TYPE_F32 length: "N * K" access: ACCESS_IN }
    buffers { name: "y" data_type: DATA_TYPE_F32 length: "N * K" access: ACCESS_OUT }
    buffers { name: "sum" data_type: DATA_TYPE_I64 length: "N" access: ACCESS_INOUT }
    buffers { name: "table" data_type: DATA_TYPE_F32 length: "16" access: ACCESS_IN symbol: "table" }
    buffers { name: "work" data_type: DATA_TYPE_U8 length: "tile * device.sm_count" access: ACCESS_SCRATCH
              init: INIT_ZERO }
    prepare { kernel { symbol: "relayout" grid: ["1", "1", "1"] block: ["128", "1", "1"] dynamic_shared_bytes: "0"
                       arguments { buffer: "x" } arguments { buffer: "work" } } }
    launches { kernel { symbol: "_Z1s" grid: ["ceil_div(N, tile)", "2", "1"] block: ["128", "1", "1"]
                        dynamic_shared_bytes: "32768"
                        arguments { buffer: "x" } arguments { buffer: "y" }
                        arguments { scalar { data_type: DATA_TYPE_I32 value: "N" } }
                        arguments { scalar { data_type: DATA_TYPE_F32 value: "0.5" } }
                        arguments { tensor_map { buffer: "x" data_type: DATA_TYPE_F32 dims: ["64", "N"]
                                                 byte_strides: "256" box: ["16", "4"] element_strides: ["1", "1"]
                                                 swizzle: "'128B'" interleave: "'none'" l2_promotion: "'none'"
                                                 base_offset_bytes: "0" } } } }
    launches { name: "finish" kernel { symbol: "finish" grid: ["kernel.max_active_blocks * device.sm_count", "1", "1"]
                        block: ["64", "1", "1"] dynamic_shared_bytes: "0"
                        arguments { buffer: "sum" }
                        arguments { scalar { data_type: DATA_TYPE_U32
                                             value: "kernel.max_active_blocks * device.sm_count" } } } }
  )text");
}

TEST_F(LaunchSequenceTest, OpenConditionsAndConstraintsStay) {
  const auto plan = SamplePlan(R"(when: "STAGES > 1")", R"(when: "N > tile and STAGES > 1")");
  const auto made = Make(*plan);
  ASSERT_TRUE(made.ok()) << Message(made.status());
  EXPECT_EQ(made->launches(1).when(), "N > tile and STAGES > 1");
  EXPECT_EQ(made->values().at("STAGES").int_value(), 4);
  // What the step asks of the device matters where it runs.
  EXPECT_THAT(made->constraints(), Contains("not (N > tile and STAGES > 1) or 1 <= 64 <= device.block_max_x"));
  EXPECT_THAT(made->constraints(), Each(HasSubstr("not (N > tile and STAGES > 1) or ")));
  // What stands in a string is no name.
  const auto bound = Make(*SamplePlan(R"("tile <= 2048")", R"("tile <= N or 'a\\' VECTOR' == 'b'")"));
  ASSERT_TRUE(bound.ok()) << Message(bound.status());
  EXPECT_THAT(bound->constraints(), ElementsAre(R"(tile <= N or 'a\' VECTOR' == 'b')"));
  EXPECT_THAT(bound->values(), Not(Contains(Key("VECTOR"))));
}

TEST_F(LaunchSequenceTest, LimitsOfTheDeviceThatOpenDimsMayBreakAreConstraints) {
  EXPECT_THAT(Make(*SamplePlan())->constraints(), IsEmpty());
  const auto made = Make(*SamplePlan(R"text(["ceil_div(N, tile)", "2"])text", R"text(["2", "ceil_div(N, tile)"])text"));
  ASSERT_TRUE(made.ok()) << Message(made.status());
  EXPECT_THAT(made->constraints(), ElementsAre("1 <= (ceil_div(N, tile)) <= device.grid_max_y"));
  EXPECT_THAT(made->values(), Contains(Key("tile")));
}

TEST_F(LaunchSequenceTest, OpenDerivedValuesAreExpressions) {
  const auto made = Make(*SamplePlan(R"(derived { name: "tile" expression: "BLOCK * STAGES" })",
                                     R"text(
derived { name: "least" expression: "min(N, 32)" }
derived { name: "unused" expression: "N // 2" }
derived { name: "tile" expression: "BLOCK * STAGES // max(least, 1) * least" })text"));
  ASSERT_TRUE(made.ok()) << Message(made.status());
  ASSERT_EQ(made->derived_size(), 2);
  EXPECT_EQ(made->derived(0).name(), "least");
  EXPECT_EQ(made->derived(1).name(), "tile");
  EXPECT_EQ(made->derived(1).expression(), "BLOCK * STAGES // max(least, 1) * least");
  EXPECT_THAT(made->values(), Contains(Key("BLOCK")));
  EXPECT_THAT(made->values(), Not(Contains(Key("SCALE"))));
}

TEST_F(LaunchSequenceTest, ConstantFillsAreOneElement) {
  const auto fill = [&](std::string_view init) {
    const auto made =
        Make(*SamplePlan("access: ACCESS_SCRATCH init: INIT_ZERO", "access: ACCESS_SCRATCH " + std::string(init)));
    EXPECT_TRUE(made.ok()) << Message(made.status());
    return made.ok() ? made->buffers(4) : v1::LaunchBuffer();
  };
  const v1::LaunchBuffer seven = fill("init: INIT_FILL fill { constant { value: 7 } }");
  EXPECT_EQ(seven.init(), v1::INIT_FILL);
  EXPECT_EQ(seven.fill(), std::string("\x07", 1));
  EXPECT_EQ(fill("init: INIT_FILL fill { constant {} }").init(), v1::INIT_ZERO);
  EXPECT_EQ(fill("init: INIT_FILL fill { zeros {} }").init(), v1::INIT_ZERO);
  EXPECT_EQ(fill("").init(), v1::INIT_UNSPECIFIED);
}

TEST_F(LaunchSequenceTest, WhatOnlyAWorkerDoesIsRefused) {
  const std::string always(kProduct.substr(0, kProduct.find(" when:")));
  ExpectRefused(kClear, always + " }", "launches[0].library_op: an operation of a library");
  ExpectRefused("access: ACCESS_SCRATCH init: INIT_ZERO", "access: ACCESS_SCRATCH init: INIT_FILL fill { iota {} }",
                "arguments[3].buffer.fill: 'work' must begin with data that a tuning makes");
  // A step that does not run for the config does no harm.
  EXPECT_TRUE(Make(*SamplePlan(kClear, kProduct)).ok());
}

TEST_F(LaunchSequenceTest, ConfigsThatCannotRunAreRefused) {
  ExpectRefused(R"("tile <= 2048")", R"("tile <= 64")", "the config breaks the constraint tile <= 64");
  ExpectRefused(R"(dynamic_shared_bytes: "tile * 64")", R"(dynamic_shared_bytes: "tile * 1024")", "shared memory");
  const auto made = Make(*SamplePlan(), Symbols());
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(Message(made.status()),
              HasSubstr("launches[1].kernel.entry: the binary says no symbol for 'scale<BLOCK>'"));
}

// ---- The kernels that come with the project ----

std::shared_ptr<const KernelPlan> Load(const std::string& folder, const std::string& file) {
  const std::filesystem::path path = std::filesystem::path(std::getenv("TUNEFARM_SOURCE_DIR")) / "kernels" / folder;
  const auto text = ReadFile((path / file).string(), 1 << 20);
  EXPECT_TRUE(text.ok()) << Message(text.status());
  if (!text.ok()) return nullptr;
  const auto kernel = LoadKernelText(
      *text, file, [&path](const std::string& source) { return ReadFile((path / source).string(), 4 << 20); });
  EXPECT_TRUE(kernel.ok()) << Message(kernel.status());
  return kernel.ok() ? *KernelPlan::Compile(*kernel) : nullptr;
}

class RepositorySequenceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("TUNEFARM_SOURCE_DIR") == nullptr) GTEST_SKIP() << "TUNEFARM_SOURCE_DIR is not set";
  }
};

std::vector<std::string> NamesOf(const v1::LaunchSequence& sequence) {
  std::vector<std::string> names;
  for (const v1::LaunchBuffer& buffer : sequence.buffers()) names.push_back(buffer.name());
  return names;
}

TEST_F(RepositorySequenceTest, VectorAdd) {
  const auto plan = Load("vector_add", "kernel.pbtxt");
  ASSERT_NE(plan, nullptr);
  const auto problem = plan->ResolveProblem(v1::Problem());
  const auto made =
      MakeLaunchSequence(*plan, *problem, plan->DefaultConfig(*problem), FindKnownClass("H100").value(), Symbols());
  ASSERT_TRUE(made.ok()) << Message(made.status());
  ExpectIs(*made, R"text(
    open_dims: "N"
    values { key: "elements_per_block" value { int_value: 256 } }
    buffers { name: "a" data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN }
    buffers { name: "b" data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN }
    buffers { name: "c" data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT }
    launches { kernel { symbol: "vector_add" grid: ["ceil_div(N, elements_per_block)", "1", "1"] block: ["256", "1", "1"]
                        dynamic_shared_bytes: "0" arguments { buffer: "a" } arguments { buffer: "b" }
                        arguments { buffer: "c" } arguments {
    scalar {
    data_type:
      DATA_TYPE_I64 value : "N"
    } }
}
}
  )text");
}

TEST_F(RepositorySequenceTest, MatmulOnTheHost) {
  const auto plan = Load("matmul_host", "kernel.pbtxt");
  ASSERT_NE(plan, nullptr);
  DeviceClass host;
  host.kind = DeviceKind::kHost;
  host.l1_bytes = 32 * 1024;
  const auto problem = plan->ResolveProblem(v1::Problem());
  const auto made = MakeLaunchSequence(*plan, *problem, plan->DefaultConfig(*problem), host, Symbols());
  ASSERT_TRUE(made.ok()) << Message(made.status());
  EXPECT_THAT(made->open_dims(), ElementsAre("M", "N", "K"));
  EXPECT_THAT(NamesOf(*made), ElementsAre("a", "b", "c", "packed"));
  EXPECT_EQ(made->buffers(3).length(), "4096");
  EXPECT_THAT(made->constraints(), ElementsAre("TILE_K * NR * 4 <= max(device.l1_bytes, 32768)"));
  EXPECT_THAT(made->values(), testing::UnorderedElementsAre(Key("TILE_K"), Key("NR")));
  ASSERT_EQ(made->launches_size(), 1);
  EXPECT_EQ(made->launches(0).kernel().grid_size(), 0);
  EXPECT_EQ(made->launches(0).kernel().arguments(4).scalar().value(), "M");
  EXPECT_EQ(made->launches(0).kernel().arguments(7).scalar().value(), "64");
}

TEST_F(RepositorySequenceTest, GroupedProductOnHopper) {
  const auto plan = Load("grouped_gemm", "grouped_gemm_forward.pbtxt");
  ASSERT_NE(plan, nullptr);
  const auto problem = plan->ResolveProblem(v1::Problem());
  ASSERT_TRUE(problem.ok()) << Message(problem.status());
  Config config = plan->DefaultConfig(*problem);
  for (const auto& [name, value] : {std::pair{"BLOCK_SIZE_M", 144}, std::pair{"num_stages", 5}, std::pair{"warps_m", 1},
                                    std::pair{"cluster_m", 2}}) {
    config.Set(name, Value(value));
  }
  for (const auto& [name, value] :
       {std::pair{"path", "hopper"}, std::pair{"schedule", "pingpong"}, std::pair{"epilogue", "staged"}}) {
    config.Set(name, Value(value));
  }
  for (const char* const name : {"use_tma_load_x", "use_tma_load_w", "use_tma_store", "swap_operands"}) {
    config.Set(name, Value(true));
  }
  const auto made = MakeLaunchSequence(*plan, *problem, config, FindKnownClass("H100").value(), Symbols());
  ASSERT_TRUE(made.ok()) << Message(made.status());
  EXPECT_THAT(made->open_dims(), testing::IsSupersetOf({"E", "N", "K"}));
  EXPECT_THAT(made->open_dims(), Not(Contains("dtype")));
  // What only makes the inputs of a tuning is not the caller's.
  EXPECT_THAT(NamesOf(*made), testing::IsSupersetOf({"x", "w", "y", "m_sizes"}));
  EXPECT_THAT(NamesOf(*made), Not(Contains("random")));
  EXPECT_THAT(NamesOf(*made), Not(Contains("x_sorted")));
  EXPECT_EQ(made->prepare_size(), 0);
  ASSERT_EQ(made->launches_size(), 1);
  EXPECT_EQ(made->launches(0).when(), "");
  const v1::SymbolLaunch& launch = made->launches(0).kernel();
  EXPECT_EQ(launch.symbol(), "grouped_gemm_forward");
  EXPECT_EQ(launch.block(0), "384");
  EXPECT_THAT(launch.cluster(), ElementsAre("2", "1", "1"));
  EXPECT_EQ(launch.dynamic_shared_bytes(), "hopper_shared_bytes");
  const v1::TensorMap& w = launch.arguments(1).tensor_map();
  EXPECT_EQ(w.buffer(), "w");
  EXPECT_EQ(w.data_type(), v1::DATA_TYPE_BF16);
  EXPECT_THAT(w.dims(), ElementsAre("K", "N", "E"));
  EXPECT_THAT(w.box(), ElementsAre("64", "64", "1"));
  EXPECT_EQ(w.swizzle(), "'128B'");
  // The other path's rules are settled.
  for (const std::string& constraint : made->constraints())
    EXPECT_THAT(constraint, Not(HasSubstr("path != 'portable'")));
}

}  // namespace
}  // namespace tunefarm
