#include "client/cli/sketch/definition_sketch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/cli/kernel_template.h"
#include "client/cli/sketch/source_signature.h"
#include "server/base/status.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kCudaText[] = R"code(
#pragma once
#ifndef UNROLL
#define UNROLL 4   // from outside
#endif
#ifndef GUARD_H
#define GUARD_H
#endif
// __global__ void commented(int n) {}
const char* text = "__global__ void quoted(int n) {";
__device__ float helper(float x) { return x; }
template <typename T, int BLOCK = 128, bool FAST = (1 > 0)>
__global__ void __launch_bounds__(256) stencil(const T* __restrict__ in, T *out, const float w[9],
                                               [[maybe_unused]] unsigned int nx, std::size_t ny, float alpha, bool flip,
                                               float4 *extra /* , int gone */) {
  if (nx) { helper(1); }
}
extern "C" __global__ void other(int* x);
)code";

constexpr char kHostText[] = R"code(
#include <cstddef>
void helper(int n) { (void)n; }
extern "C" {
void blur(const float* src, float* dst, int width, int height, double sigma) noexcept {}
void blur_reference(const float* src, float* dst, int width, int height, double sigma) {}
}
)code";

std::string Signature(const SourceFunction& function) {
  std::string text = function.name + "(";
  for (const SourceArgument& argument : function.arguments) {
    text += (text.back() == '(' ? "" : ", ") + std::string(argument.is_const ? "const " : "") + argument.type +
            (argument.is_pointer ? "* " : " ") + argument.name;
  }
  return text + ")";
}

absl::StatusOr<v1::Kernel> Load(const DefinitionSketch& sketch) {
  return LoadKernelText(sketch.text, "kernel.pbtxt",
                        [](const std::string&) { return absl::StatusOr<std::string>("// source\n"); });
}

TEST(SourceSignatureTest, Cuda) {
  const SourceSignature signature = ReadSignature(kCudaText, /*is_cuda=*/true);
  ASSERT_EQ(signature.functions.size(), 2U);
  EXPECT_EQ(Signature(signature.functions[0]),
            "stencil(const T* in, T* out, const float* w, unsigned int nx, size_t ny, float alpha, bool flip, float4* "
            "extra)");
  ASSERT_EQ(signature.functions[0].templates.size(), 3U);
  EXPECT_TRUE(signature.functions[0].templates[0].is_type());
  EXPECT_EQ(signature.functions[0].templates[1].name, "BLOCK");
  EXPECT_EQ(signature.functions[0].templates[2].type, "bool");
  EXPECT_FALSE(signature.functions[0].is_extern_c);
  EXPECT_TRUE(signature.functions[1].is_extern_c);
  EXPECT_EQ(Signature(signature.functions[1]), "other(int* x)");
  ASSERT_EQ(signature.macros.size(), 1U);
  EXPECT_EQ(signature.macros[0], (std::pair<std::string, int64_t>("UNROLL", 4)));
}

TEST(SourceSignatureTest, Host) {
  const SourceSignature signature = ReadSignature(kHostText, /*is_cuda=*/false);
  ASSERT_EQ(signature.functions.size(), 2U);
  EXPECT_EQ(Signature(signature.functions[0]),
            "blur(const float* src, float* dst, int width, int height, double sigma)");
  EXPECT_TRUE(signature.functions[0].is_extern_c);
  // Without any extern "C", every function that returns void.
  EXPECT_EQ(ReadSignature("void f(int* x) { } void g(); int h(int n) { return n; }", false).functions.size(), 1U);
}

TEST(SourceSignatureTest, AnyTextEnds) {
  for (const std::string& whole : {std::string(kCudaText), std::string(kHostText),
                                   std::string("template<__global__ void f(R\"x(abc extern \"C\" { void")}) {
    for (size_t end = 0; end <= whole.size(); ++end) {
      for (const bool is_cuda : {false, true}) ReadSignature(std::string_view(whole).substr(0, end), is_cuda);
    }
  }
}

TEST(DefinitionSketchTest, CudaSketchIsAValidDefinition) {
  const auto sketch = SketchDefinition("stencil", "stencil.cu", kCudaText, /*is_cuda=*/true);
  ASSERT_TRUE(sketch.has_value());
  const auto kernel = Load(*sketch);
  ASSERT_TRUE(kernel.ok()) << MessageOf(kernel.status()) << "\n" << sketch->text;
  EXPECT_EQ(kernel->dims_size(), 2);
  EXPECT_EQ(kernel->arguments_size(), 8);
  EXPECT_EQ(kernel->parameters_size(), 4);  // UNROLL and the three of the template
  EXPECT_EQ(kernel->launches(0).kernel().entry(), "stencil<TUNE_T, TUNE_BLOCK, TUNE_FAST>");
  EXPECT_EQ(kernel->launches(0).kernel().block(0), "TUNE_BLOCK");
  EXPECT_FALSE(kernel->unverified_reason().empty());
  EXPECT_THAT(sketch->notes, testing::Contains(HasSubstr("float4")));
  EXPECT_THAT(sketch->notes, testing::Contains(HasSubstr("left out: other")));
}

TEST(DefinitionSketchTest, HostSketchUsesTheReferenceOfTheSource) {
  const auto sketch = SketchDefinition("blur", "blur.cc", kHostText, /*is_cuda=*/false);
  ASSERT_TRUE(sketch.has_value());
  const auto kernel = Load(*sketch);
  ASSERT_TRUE(kernel.ok()) << MessageOf(kernel.status()) << "\n" << sketch->text;
  EXPECT_EQ(kernel->dims_size(), 2);
  EXPECT_EQ(kernel->reference().steps(0).kernel().entry(), "blur_reference");
  EXPECT_EQ(kernel->arguments(1).buffer().access(), v1::ACCESS_OUT);
  EXPECT_EQ(kernel->arguments(4).scalar().data_type(), v1::DATA_TYPE_F64);
}

// The sources of the templates are read back as what their own definitions say.
TEST(DefinitionSketchTest, OfTheTemplates) {
  for (const bool is_cuda : {false, true}) {
    const auto sketch = SketchDefinition("k", "k.cu", SourceTemplate("k", is_cuda), is_cuda);
    ASSERT_TRUE(sketch.has_value());
    const auto kernel = Load(*sketch);
    ASSERT_TRUE(kernel.ok()) << MessageOf(kernel.status()) << "\n" << sketch->text;
    EXPECT_EQ(kernel->reference().steps(0).kernel().entry(), "k_reference");
    EXPECT_EQ(kernel->dims(0).name(), "n");
  }
}

TEST(DefinitionSketchTest, Python) {
  const auto sketch = SketchPythonDefinition("rows", "rows.py", PythonSourceTemplate());
  ASSERT_TRUE(sketch.has_value());
  const auto kernel = Load(*sketch);
  ASSERT_TRUE(kernel.ok()) << MessageOf(kernel.status()) << "\n" << sketch->text;
  EXPECT_EQ(kernel->dims(0).name(), "N");
  EXPECT_EQ(kernel->parameters(0).name(), "CHUNK");
  EXPECT_EQ(kernel->python().device(), v1::DEVICE_KIND_HOST);
  const auto gpu = SketchPythonDefinition("mm", "mm.py", "import torch\nx = config['BLOCK'] + config[\"BLOCK\"]\n");
  ASSERT_TRUE(gpu.has_value());
  EXPECT_EQ(Load(*gpu)->python().device(), v1::DEVICE_KIND_CUDA);
  EXPECT_THAT(gpu->notes, testing::Contains(HasSubstr("make_run_and_gt")));
  EXPECT_THAT(sketch->notes, Not(testing::Contains(HasSubstr("make_run_and_gt"))));
}

TEST(DefinitionSketchTest, NothingRecognized) {
  EXPECT_FALSE(SketchDefinition("k", "k.cu", "int main() {}", true).has_value());
  EXPECT_FALSE(SketchDefinition("k", "k.cc", "", false).has_value());
  EXPECT_FALSE(SketchPythonDefinition("k", "k.py", "print(1)").has_value());
  // The template of Python, which is written then, is valid too.
  EXPECT_TRUE(Load({PythonTemplate("k", "k.py"), {}}).ok());
}

}  // namespace
}  // namespace tunefarm::cli
