// What definitions may do with buffers and scalars of F8E4M3.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/device/device_class.h"
#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

constexpr std::string_view kQuantised = R"kernel(
display_name: "quantised"
language: LANGUAGE_CUDA
sources { path: "q.cu" content: "//" }
dims { name: "N" default_value { int_value: 4096 } }
dims { name: "dtype" type: VALUE_TYPE_STRING default_value { string_value: "fp8" }
       values { string_value: "fp8" } values { string_value: "bf16" } }
parameters { name: "BLOCK" values { ints: [64] } }
arguments { name: "x" buffer { data_type_dim: "dtype" length: "N" access: ACCESS_IN } }
arguments { name: "q" buffer { data_type: DATA_TYPE_F8E4M3 length: "N" access: ACCESS_IN } }
arguments { name: "made" buffer { data_type: DATA_TYPE_F8E4M3 length: "N" access: ACCESS_IN fill { prepare_step: "make" } } }
arguments { name: "y" buffer { data_type: DATA_TYPE_F8E4M3 length: "N" access: ACCESS_OUT } }
arguments { name: "factor" scalar { data_type: DATA_TYPE_F8E4M3 value: "1.5" } }
arguments { name: "of_x" tensor_map { buffer: "x" dims: ["N"] box: ["64"] } }
arguments { name: "of_q" tensor_map { buffer: "q" dims: ["N"] box: ["64"] } }
prepare { step { name: "make" kernel { entry: "make" grid: "1" block: "1" arguments: ["q", "made"] } } }
launches { kernel { entry: "k" grid: "1" block: "BLOCK" arguments: ["of_x", "of_q", "made", "y", "factor"] } }
reference { steps { kernel { entry: "plain" grid: "1" block: "1" arguments: ["x", "q", "y"] } } }
flops: "N"
flops_unit: "'tensor_fp8' if dtype == 'fp8' else 'tensor_bf16'"
)kernel";

std::string QuantisedWith(std::string_view from, std::string_view to) {
  std::string text(kQuantised);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// Of the default problem, or what is wrong with it.
std::string WhyNotQuantised(std::string_view text) {
  const auto plan = CompileText(text);
  if (!plan.ok()) return Message(plan.status());
  const auto problem = (*plan)->ResolveProblem({});
  if (!problem.ok()) return Message(problem.status());
  const Config config = (*plan)->DefaultConfig(*problem);
  const DeviceClass device = *FindKnownClass("H100");
  const auto buffers = (*plan)->Buffers(*problem, config, device);
  if (!buffers.ok()) return Message(buffers.status());
  return Message((*plan)->Steps(Sequence::kLaunches, *problem, config, device).status());
}

TEST(F8E4M3DefinitionTest, IsOneByteInBuffersScalarsAndMaps) {
  const auto plan = CompileText(kQuantised);
  ASSERT_TRUE(plan.ok()) << Message(plan.status());
  const ResolvedProblem problem = *(*plan)->ResolveProblem({});
  EXPECT_EQ(problem.key, "N=4096,dtype=fp8");
  const Config config = (*plan)->DefaultConfig(problem);
  const DeviceClass device = *FindKnownClass("H100");
  const auto buffers = (*plan)->Buffers(problem, config, device);
  ASSERT_TRUE(buffers.ok()) << Message(buffers.status());
  ASSERT_EQ(buffers->size(), 4U);
  for (const BufferPlan& buffer : *buffers) {
    EXPECT_EQ(buffer.type, v1::DATA_TYPE_F8E4M3) << buffer.name;
    EXPECT_EQ(buffer.bytes(), 4096) << buffer.name;
  }
  EXPECT_TRUE(buffers->at(0).fill.has_normal());
  EXPECT_TRUE(buffers->at(1).fill.has_normal());
  EXPECT_EQ(buffers->at(2).fill.prepare_step(), "make");
  const auto steps = (*plan)->Steps(Sequence::kLaunches, problem, config, device);
  ASSERT_TRUE(steps.ok()) << Message(steps.status());
  const StepPlan& step = steps->at(0);
  EXPECT_EQ(step.scalars.at("factor").bytes[0], std::byte{0x3c});
  for (const char* const map : {"of_x", "of_q"}) {
    EXPECT_EQ(step.tensor_maps.at(map).values.type, 0) << "CU_TENSOR_MAP_DATA_TYPE_UINT8";
  }
}

TEST(F8E4M3DefinitionTest, RefusesWhatItCannotHold) {
  struct Case {
    std::string_view from, to, error;
  };
  constexpr std::string_view kQ = "DATA_TYPE_F8E4M3 length: \"N\" access: ACCESS_IN }";
  constexpr std::string_view kX = "data_type_dim: \"dtype\" length: \"N\" access: ACCESS_IN }";
  for (
      const Case& one :
      {Case{kQ, "DATA_TYPE_F8E4M3 length: \"N\" access: ACCESS_IN fill { constant { value: 449 } } }",
            "arguments[1].buffer.fill.constant.value: 449 is beyond the values of f8e4m3 (-448 to 448)"},
       Case{kQ, "DATA_TYPE_F8E4M3 length: \"N\" access: ACCESS_IN fill { uniform { low: -500 high: 1 } } }",
            "arguments[1].buffer.fill.uniform: -500 is beyond the values of f8e4m3 (-448 to 448)"},
       Case{kX, "data_type_dim: \"dtype\" length: \"N\" access: ACCESS_IN fill { uniform { low: 0 high: 1000 } } }",
            "arguments[0].buffer.fill: 'x' is f8e4m3 in this problem, whose values are from -448 to 448, not 1000"},
       Case{kQ, "DATA_TYPE_F8E4M3 length: \"N\" access: ACCESS_IN index_limit: \"N\" }",
            "arguments[1].buffer.index_limit: an index is an integer, and the buffer's type is f8e4m3"},
       Case{"value: \"1.5\"", "value: \"-450\"",
            "arguments[4].scalar.value: argument 'factor': -450 is out of the range of f8e4m3"},
       Case{"buffer: \"q\" dims: [\"N\"] box: [\"64\"]", "buffer: \"q\" dims: [\"N\"] box: [\"64\"] oob_fill_nan: true",
            "arguments[6].tensor_map.oob_fill_nan: a tensor map sees f8e4m3 as bytes, which have no NaN; leave it out"},
       Case{"buffer: \"x\" dims: [\"N\"] box: [\"64\"]", "buffer: \"x\" dims: [\"N\"] box: [\"64\"] oob_fill_nan: true",
            "arguments[5].tensor_map.oob_fill_nan: a tensor map sees f8e4m3 as bytes, which have no NaN; leave it out"},
       Case{"values { string_value: \"bf16\" }", "values { string_value: \"f8e4m3\" }",
            "arguments[0].buffer.data_type_dim: the value 'f8e4m3' of dim 'dtype' is no data type; write i8, u8, ..., "
            "fp8, f16, bf16, f32 or f64"},
       Case{
           "flops: \"N\"",
           "baseline { steps { library_op { op: LIBRARY_OP_KIND_GEMM a: \"q\" b: \"q\" c: \"y\" m: \"64\" n: \"64\" k: "
           "\"64\" } } label: \"cuBLAS\" }",
           "baseline.steps[0].library_op.a: 'q' is of type f8e4m3, which library operations do not multiply; write a "
           "kernel of your own"}}) {
    EXPECT_EQ(WhyNotQuantised(QuantisedWith(one.from, one.to)).substr(0, one.error.size()), one.error);
  }
  EXPECT_EQ(WhyNotQuantised(kQuantised), "");
}

}  // namespace
}  // namespace tunefarm
