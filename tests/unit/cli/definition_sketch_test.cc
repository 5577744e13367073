#include "client/cli/sketch/definition_sketch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/cli/kernel_template.h"
#include "client/cli/sketch/signature_check.h"
#include "client/cli/sketch/source_signature.h"
#include "client/cli/sketch/triton_signature.h"
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

constexpr char kTritonText[] = R"code(
"""@triton.jit
def in_a_text(x_ptr): pass"""
import triton
import triton.language as tl
from triton import Config, jit

# @triton.jit
def in_a_comment(x_ptr): pass

@numba.jit
def of_another(x_ptr): pass

class Holder:
    @jit
    def activation(x, MODE: tl.constexpr = "relu"):
        return tl.where(x > 0, x, 0.0)

@triton.autotune(
    configs=[Config({"BLOCK_M": 64})], key=["M"])
@triton.jit(do_not_specialize=["eps"])
def attention(
    Q, k_ptr, out,  # "strings" and (brackets in comments
    rows_idx_ptr, counter,
    M, N, stride_qm, stride_qk, stride_outm, stride_outn, K=64, eps: "tl.float32" = 1e-5, *,
    BLOCK_M: tl.constexpr, BLOCK_N: "tl.constexpr" = f(1, [2]), BLOCK_K: tl.constexpr = 32, GROUP: tl.constexpr = 8,
    CAUSAL: tl.constexpr = True, HEAD: 'constexpr' = 128, MODE: tl.constexpr = None, IS_EVEN: tl.constexpr,
):
    r'''tl.store(k_ptr, 1)'''
    i, j = tl.program_id(0), tl.program_id(axis=1)
    q_rows = (Q + i * \
              stride_qm)
    q = tl.load(q_rows, mask=i < M, other='it\'s')
    keys = tl.make_block_ptr(base=k_ptr, shape=(N, K))
    out_rows = tl.make_tensor_descriptor(out, [M, N])
    s = tl.dot(q, keys.load([0, 0]))
    out_rows.store([i, j], activation(s, MODE))
    tl.atomic_add(counter, 1)

@triton.jit
def second(x_ptr, n, BLOCK: tl.constexpr): tl.store(pointer=x_ptr, value=n)

attention[(1,)](second(1))
)code";

std::string Signature(const SourceFunction& function) {
  std::string text = function.name + "(";
  for (const SourceArgument& argument : function.arguments) {
    text += (text.back() == '(' ? "" : ", ") + std::string(argument.is_const ? "const " : "") + argument.type +
            (argument.is_pointer() ? "* " : " ") + argument.name;
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

// Names, with *: pointer, r: read, w: written, =: its default, of constexprs behind a colon.
std::string Signature(const TritonFunction& function) {
  std::string text = function.name + "(";
  for (const TritonParameter& parameter : function.parameters) {
    text += (text.back() == '(' ? "" : ", ") + std::string(parameter.is_pointer ? "*" : "") + parameter.name +
            (parameter.is_read ? " r" : "") + (parameter.is_written ? " w" : "") +
            (parameter.is_constexpr ? ": constexpr" : "") +
            (parameter.default_text.empty() ? "" : " = " + parameter.default_text);
  }
  return text + ")";
}

TEST(TritonSignatureTest, KernelsAndWhatTheyDoWithTheirParameters) {
  const std::vector<TritonFunction> kernels = ReadTritonKernels(kTritonText);
  ASSERT_EQ(kernels.size(), 2U);  // activation is called by one
  EXPECT_EQ(Signature(kernels[0]),
            "attention(*Q r, *k_ptr r, *out w, *rows_idx_ptr, *counter r w, M, N, stride_qm, stride_qk, stride_outm, "
            "stride_outn, K = 64, eps = 1e-5, BLOCK_M: constexpr, BLOCK_N: constexpr = f(1,[2]), BLOCK_K: constexpr = "
            "32, GROUP: constexpr = 8, CAUSAL: constexpr = True, HEAD: constexpr = 128, MODE: constexpr = None, "
            "IS_EVEN: constexpr)");
  EXPECT_EQ(kernels[0].grid_axes, 2);
  EXPECT_EQ(Signature(kernels[1]), "second(*x_ptr w, n, BLOCK: constexpr)");
  EXPECT_EQ(kernels[1].grid_axes, 1);
  EXPECT_TRUE(ReadTritonKernels("@jit\ndef f(x): pass\n").empty());  // of whom?
  EXPECT_TRUE(ReadTritonKernels("@triton.jit\nclass A:\n  def f(x): pass\n").empty());
}

TEST(TritonSignatureTest, AnyTextEnds) {
  const std::string whole = kTritonText;
  for (size_t end = 0; end <= whole.size(); ++end) {
    ReadTritonKernels(std::string_view(whole).substr(0, end));
    ReadTritonKernels(std::string_view(whole).substr(end));
  }
}

// But for the language and threads, which Triton chooses, what is written for Triton is what CUDA takes.
absl::StatusOr<v1::Kernel> LoadAsCuda(const DefinitionSketch& sketch) {
  std::string text = sketch.text;
  for (const auto& [from, to] : {std::pair<std::string, std::string>("language: TRITON", "language: CUDA"),
                                 std::pair<std::string, std::string>(" grid: [", " block: 1 grid: [")}) {
    EXPECT_THAT(text, HasSubstr(from));
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  }
  return Load({text, {}});
}

TEST(DefinitionSketchTest, Triton) {
  const auto sketch = SketchTritonDefinition("attention", "attention.py", kTritonText);
  ASSERT_TRUE(sketch.has_value());
  const auto kernel = LoadAsCuda(*sketch);
  ASSERT_TRUE(kernel.ok()) << MessageOf(kernel.status()) << "\n" << sketch->text;
  EXPECT_EQ(kernel->dims_size(), 3);
  ASSERT_EQ(kernel->arguments_size(), 13);
  EXPECT_EQ(kernel->arguments(0).buffer().length(), "M * K");
  EXPECT_EQ(kernel->arguments(1).buffer().length(), "M * N * K");
  EXPECT_EQ(kernel->arguments(2).buffer().access(), v1::ACCESS_OUT);
  EXPECT_EQ(kernel->arguments(3).buffer().data_type(), v1::DATA_TYPE_I32);
  EXPECT_TRUE(kernel->arguments(3).buffer().fill().has_zeros());
  EXPECT_EQ(kernel->arguments(4).buffer().access(), v1::ACCESS_INOUT);
  EXPECT_EQ(kernel->arguments(7).scalar().value(), "K");   // stride_qm
  EXPECT_EQ(kernel->arguments(10).scalar().value(), "1");  // stride_outn
  EXPECT_EQ(kernel->arguments(12).scalar().data_type(), v1::DATA_TYPE_F32);
  EXPECT_EQ(kernel->launches(0).kernel().grid(0), "ceil_div(M, BLOCK_M)");
  EXPECT_EQ(kernel->launches(0).kernel().grid(1), "ceil_div(N, BLOCK_N)");
  std::string names;
  for (const v1::Parameter& parameter : kernel->parameters()) names += parameter.name() + " ";
  EXPECT_EQ(names, "BLOCK_M BLOCK_N BLOCK_K GROUP num_warps num_stages CAUSAL HEAD IS_EVEN ");
  EXPECT_THAT(sketch->notes, testing::Contains(HasSubstr("'MODE' has its default")));
  EXPECT_THAT(sketch->notes, testing::Contains(HasSubstr("left out: second.")));
}

TEST(DefinitionSketchTest, TritonOfRowsAndElements) {
  const auto grid = [](const std::string& parameters) {
    const auto sketch =
        SketchTritonDefinition("k", "k.py", "@triton.jit\ndef k(x_ptr, y_ptr, " + parameters + "):\n  pass\n");
    const auto kernel = LoadAsCuda(*sketch);
    EXPECT_TRUE(kernel.ok()) << MessageOf(kernel.status()) << "\n" << sketch->text;
    EXPECT_THAT(sketch->notes, testing::Contains(HasSubstr("'y_ptr' is taken for the output")));
    return kernel->launches(0).kernel().grid(0);
  };
  EXPECT_EQ(grid("n, BLOCK: tl.constexpr"), "ceil_div(n, BLOCK)");
  EXPECT_EQ(grid("rows, columns, BLOCK: tl.constexpr"), "rows");
  EXPECT_EQ(grid("scale"), "N");
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

TEST(DefinitionSketchTest, ListsTheHeadersOfTheSource) {
  const std::vector<std::string> headers = {"tile.cuh", "detail/load.cuh"};
  for (const std::string& text : {SketchDefinition("k", "k.cu", SourceTemplate("k", true), true, headers)->text,
                                  KernelTemplate("k", "k.cu", true, headers)}) {
    const auto kernel = Load({text, {}});
    ASSERT_TRUE(kernel.ok()) << MessageOf(kernel.status()) << "\n" << text;
    ASSERT_EQ(kernel->sources_size(), 3);
    EXPECT_EQ(kernel->sources(0).path(), "k.cu");
    EXPECT_EQ(kernel->sources(2).path(), "detail/load.cuh");
  }
}

// Where the header has the kernel and the definition passes a buffer and a scalar of these types.
std::vector<std::string> MismatchesOf(const std::string& source, const std::string& buffer = "I64",
                                      const std::string& scalar = "I32", const std::string& entry = "scale") {
  const auto kernel = LoadKernelText(
      "display_name: \"scale\" language: CUDA sources { path: \"scale.cu\" } sources { path: \"scale.cuh\" }"
      "dims { name: \"N\" default_value: 64 } parameters { name: \"BLOCK\" values: [32, 64] }"
      "arguments { name: \"x\" buffer { data_type: " +
          buffer +
          " length: \"N\" access: OUT } }"
          "arguments { name: \"n\" scalar { data_type: " +
          scalar +
          " value: 1 } }"
          "launches { kernel { entry: \"" +
          entry +
          "\" grid: \"1\" block: \"BLOCK\" arguments: [\"x\", \"n\"] } }"
          "unverified_reason: \"a test\"",
      "kernel.pbtxt", [&](const std::string& path) {
        return absl::StatusOr<std::string>(path == "scale.cu" ? "#include \"scale.cuh\"\n" : source);
      });
  EXPECT_TRUE(kernel.ok()) << MessageOf(kernel.status());
  return SignatureMismatches(*kernel, "folder");
}

TEST(SignatureCheckTest, ATypeThatIsNotTheKernels) {
  EXPECT_THAT(MismatchesOf("// first\nextern \"C\" __global__ void scale(int32_t* values, int count) {}"),
              testing::ElementsAre("folder/scale.cuh:2:43: values of scale is int32_t*, but the definition passes a "
                                   "buffer of I64 as 'x'; one of them has to be changed"));
  const char* const wide = "__global__ void scale(const long long* values, long count) {}";
  EXPECT_THAT(MismatchesOf(wide), testing::ElementsAre(HasSubstr("count of scale is long, but the definition passes a "
                                                                 "scalar of I32 as 'n'")));
  EXPECT_THAT(MismatchesOf(wide, "I64", "I64"), testing::IsEmpty());
  const char* const halves = "__global__ void scale(__half* values, int count) {}";
  EXPECT_THAT(MismatchesOf(halves, "BF16"), testing::SizeIs(1));
  EXPECT_THAT(MismatchesOf(halves, "F16"), testing::IsEmpty());
  const char* const quarters = "__global__ void scale(__nv_fp8_e4m3* values, int count) {}";
  EXPECT_THAT(MismatchesOf(quarters, "F32"), testing::SizeIs(1));
  EXPECT_THAT(MismatchesOf(quarters, "F8E4M3"), testing::IsEmpty());
  EXPECT_THAT(MismatchesOf(quarters, "U8"), testing::IsEmpty());
  const char* const bits = "__global__ void scale(float* values, unsigned char count) {}";
  EXPECT_THAT(MismatchesOf(bits, "F32", "F8E4M3"), testing::IsEmpty());
  EXPECT_THAT(MismatchesOf(bits, "F32", "F16"), testing::SizeIs(1));
  EXPECT_THAT(MismatchesOf("namespace a { template <int K> __global__ void scale(double* values, int count) {} }",
                           "I64", "I32", "a::scale<4>"),
              testing::SizeIs(1));
}

TEST(SignatureCheckTest, WhatCannotBeReadIsTakenToBeRight) {
  for (const char* const source :
       {"__global__ void scale(unsigned* values, int count) {}",       // of the size of F32
        "__global__ void scale(unsigned char* values, int count) {}",  // bytes
        "template <typename T> __global__ void scale(T* values, int n) {}",
        "__global__ void scale(double** values, int n) {}", "__global__ void scale(float4* values, int n) {}",
        "__global__ void scale(double* values, int n, int more) {}",
        "__global__ void scale(double* values, int n) {}\n__global__ void scale(float* values, int n) {}",
        "__global__ void other(double* values, int n) {}", "__global__ void scale(ARGUMENTS) {}", "// nothing"}) {
    EXPECT_THAT(MismatchesOf(source, "F32"), testing::IsEmpty()) << source;
  }
}

TEST(DefinitionSketchTest, NothingRecognized) {
  EXPECT_FALSE(SketchDefinition("k", "k.cu", "int main() {}", true).has_value());
  EXPECT_FALSE(SketchDefinition("k", "k.cc", "", false).has_value());
  EXPECT_FALSE(SketchPythonDefinition("k", "k.py", "print(1)").has_value());
  EXPECT_FALSE(SketchTritonDefinition("k", "k.py", "import triton\ndef k(x_ptr): pass\n").has_value());
  // The template of Python, which is written then, is valid too.
  EXPECT_TRUE(Load({PythonTemplate("k", "k.py"), {}}).ok());
}

}  // namespace
}  // namespace tunefarm::cli
