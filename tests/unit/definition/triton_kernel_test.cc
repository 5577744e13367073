// Kernels in Triton: what a definition may say, and what a launch of it is specialised on.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/definition/binary_entries.h"
#include "server/definition/launch_digest.h"
#include "server/definition/launch_sequence.h"
#include "server/definition/triton_signature.h"
#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

constexpr std::string_view kText = R"kernel(
display_name: "product" language: LANGUAGE_TRITON
sources { path: "product.py" content: "import triton" } sources { path: "helper.py" content: "pass" }
dims { name: "M" min: -1048576 }
dims { name: "N" default_value { int_value: 64 } }
dims { name: "K" default_value { int_value: 48 } bind: BIND_COMPILE }
dims { name: "dtype" type: VALUE_TYPE_STRING default_value { string_value: "bf16" }
       values { string_value: "f16" } values { string_value: "bf16" } }
parameters { name: "register" values { ints: [64, 128] } }
parameters { name: "num_warps" values { ints: [4, 8] } }
parameters { name: "SPLIT" values { ints: [1, 16] } bind: BIND_RUN }
parameters { name: "ORDER" values { strings: ["row-major", "col"] } }
parameters { name: "EVEN" values { bools: [false, true] } }
derived { name: "half" expression: "register / 2" bind: BIND_COMPILE }
arguments { name: "a" buffer { data_type_dim: "dtype" length: "64" access: ACCESS_IN } }
arguments { name: "c" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
arguments { name: "m" scalar { data_type: DATA_TYPE_I32 value: "M" } }
arguments { name: "split" scalar { data_type: DATA_TYPE_U64 value: "SPLIT" } }
arguments { name: "scale" scalar { data_type: DATA_TYPE_F32 value: "1" } }
prepare { step { kernel { entry: "split_it" grid: "M" arguments: ["split"] } } per: PREPARE_PER_CONFIG }
launches { kernel { entry: "mm" grid: ["ceil_div(N, register)", "SPLIT"] arguments: ["a", "c", "m", "split", "scale"] } }
reference { steps { kernel { entry: "plain" grid: "1" arguments: ["a", "c", "m"] } } }
baseline { steps { library_op { op: LIBRARY_OP_KIND_GEMM a: "a" b: "a" c: "c" m: "N" n: "N" k: "K" } } label: "cuBLAS" }
resources { min_compute_capability: 80 }
)kernel";

std::string TextWith(std::string_view from, std::string_view to) {
  std::string text(kText);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::shared_ptr<const KernelPlan> PlanOf(std::string_view text = kText) {
  const auto plan = CompileText(text);
  EXPECT_TRUE(plan.ok()) << Message(plan.status());
  return plan.ok() ? *plan : nullptr;
}

ResolvedProblem TritonProblem(const KernelPlan& plan, int64_t m) {
  v1::Problem problem;
  (*problem.mutable_dims())["M"].set_int_value(m);
  return *plan.ResolveProblem(problem);
}

DeviceClass H100() { return FindKnownClass("H100").value(); }

std::vector<std::string> SignaturesOf(int64_t m, std::string_view config, bool for_reference = false) {
  const auto plan = PlanOf();
  const auto parsed = plan->ConfigFromText(config);
  EXPECT_TRUE(parsed.ok()) << Message(parsed.status());
  const auto signatures = TritonSignatures(*plan, TritonProblem(*plan, m), *parsed, H100(), for_reference);
  EXPECT_TRUE(signatures.ok()) << Message(signatures.status());
  return signatures.value_or(std::vector<std::string>());
}

constexpr std::string_view kOther = "EVEN=false,ORDER=row-major,SPLIT=16,num_warps=4,register=128";
using Names = std::vector<std::string>;

TEST(TritonKernelTest, RunsOnAGpu) {
  const auto plan = PlanOf();
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->device_kind(), DeviceKind::kCuda);
  EXPECT_TRUE(NeedsInterpreter(plan->language()));
  EXPECT_FALSE(HasMacros(plan->language()));
  EXPECT_EQ(*plan->BuildSpace(TritonProblem(*plan, 64), H100())->CountValid(), 32U);
  EXPECT_EQ(WhyEntriesDoNotFit(*plan, TritonProblem(*plan, 64), *plan->ConfigFromText(kOther), H100(), "{}", {}), "");
}

// Names of C++ are no trouble, texts need not be words, and types are kept apart.
TEST(TritonKernelTest, ConstantsAreLiterals) {
  const auto plan = PlanOf();
  const auto constants = plan->Constants(TritonProblem(*plan, 1), *plan->ConfigFromText(kOther), H100());
  ASSERT_TRUE(constants.ok()) << Message(constants.status());
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(*constants, (Pairs{{"EVEN", "False"},
                               {"K", "48"},
                               {"ORDER", "'row-major'"},
                               {"dtype", "'bf16'"},
                               {"half", "64.0"},
                               {"num_warps", "4"},
                               {"register", "128"}}));
}

TEST(TritonKernelTest, SignaturesTellWhatALaunchIsSpecialisedOn) {
  EXPECT_EQ(SignaturesOf(17, kOther), (Names{"mm(*bf16,*fp32,i32,u64:16,fp32)", "split_it(u64:16)"}));
  EXPECT_EQ(SignaturesOf(32, kOther), (Names{"mm(*bf16,*fp32,i32:16,u64:16,fp32)", "split_it(u64:16)"}));
  EXPECT_EQ(SignaturesOf(1, kOther), (Names{"mm(*bf16,*fp32,i32=1,u64:16,fp32)", "split_it(u64:16)"}));
}

TEST(TritonKernelTest, F8E4M3IsCalledAsInTriton) {
  const auto plan = PlanOf(TextWith("string_value: \"f16\"", "string_value: \"fp8\""));
  v1::Problem problem;
  (*problem.mutable_dims())["M"].set_int_value(17);
  (*problem.mutable_dims())["dtype"].set_string_value("fp8");
  const auto signatures =
      TritonSignatures(*plan, *plan->ResolveProblem(problem), *plan->ConfigFromText(kOther), H100(), false);
  ASSERT_TRUE(signatures.ok()) << Message(signatures.status());
  EXPECT_EQ(*signatures, (Names{"mm(*fp8e4nv,*fp32,i32,u64:16,fp32)", "split_it(u64:16)"}));
}

TEST(TritonKernelTest, ProblemsThatSpecialiseAlikeShareABinary) {
  EXPECT_EQ(SignaturesOf(48, kOther), SignaturesOf(4096, kOther));
  EXPECT_EQ(SignaturesOf(3, kOther), SignaturesOf(4095, kOther));
  EXPECT_NE(SignaturesOf(3, kOther), SignaturesOf(48, kOther));
  EXPECT_NE(SignaturesOf(3, kOther), SignaturesOf(1, kOther));
}

TEST(TritonKernelTest, WhatIsNotSpecialisedOnIsOneBinary) {
  const auto plan = PlanOf(TextWith("value: \"M\"", "value: \"M\" do_not_specialize: true"));
  const Config config = *plan->ConfigFromText(kOther);
  const Names any{"mm(*bf16,*fp32,i32,u64:16,fp32)", "split_it(u64:16)"};
  for (const int64_t m : {1, 2, 16}) EXPECT_EQ(*TritonSignatures(*plan, TritonProblem(*plan, m), config, H100()), any);
  EXPECT_EQ(
      Message(CompileText(SampleWith("value: \"N\"", "value: \"N\" do_not_specialize: true")).status()),
      "arguments[4].scalar.do_not_specialize: only LANGUAGE_TRITON compiles for the values of scalars; leave it out");
}

// The same kernel with tensor descriptors: of `a` with a block that the config decides, and of `c`.
std::string DescriptorText(std::string_view of_a = "shape: [\"2\", \"32\"] block_shape: [\"register\", \"SPLIT\"]") {
  std::string text = TextWith("arguments { name: \"m\"", fmt::format(R"(
      arguments {{ name: "a_desc" tensor_descriptor {{ buffer: "a" {} }} }}
      arguments {{ name: "c_desc" tensor_descriptor {{ buffer: "c" shape: ["2", "4", "8"] strides: ["64", "16"]
                                                     block_shape: ["1", "2", "8"] oob_fill_nan: true }} }}
      arguments {{ name: "m")",
                                                                     of_a));
  constexpr std::string_view kPassed = "\"SPLIT\"] arguments: [\"a\", \"c\"";
  return text.replace(text.find(kPassed), kPassed.size(), "\"SPLIT\"] arguments: [\"a_desc\", \"c_desc\"");
}

TEST(TritonKernelTest, TensorDescriptorsAreCompiledForTheirBlocks) {
  const auto plan = PlanOf(DescriptorText());
  ASSERT_NE(plan, nullptr);
  const Config config = *plan->ConfigFromText(kOther);
  const ResolvedProblem problem = TritonProblem(*plan, 17);
  EXPECT_EQ(*TritonSignatures(*plan, problem, config, H100()),
            (Names{"mm(tensordesc<bf16[128,16]>,tensordesc<fp32[1,2,8]>,i32,u64:16,fp32)", "split_it(u64:16)"}));
  const auto steps = plan->Steps(Sequence::kLaunches, problem, config, H100());
  ASSERT_TRUE(steps.ok()) << Message(steps.status());
  const TensorDescriptorPlan& a = steps->at(0).tensor_descriptors.at("a_desc");
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(a.buffer, "a");
  EXPECT_EQ(a.type, v1::DATA_TYPE_BF16);
  EXPECT_EQ(a.shape, (Sizes{2, 32}));
  EXPECT_EQ(a.strides, (Sizes{32, 1}));
  EXPECT_EQ(a.block_shape, (Sizes{128, 16}));
  EXPECT_FALSE(a.oob_fill_nan);
  const TensorDescriptorPlan& c = steps->at(0).tensor_descriptors.at("c_desc");
  EXPECT_EQ(c.strides, (Sizes{64, 16, 1}));
  EXPECT_TRUE(c.oob_fill_nan);
  // Another block is another launch, also where the binary is bound to no parameter of it.
  EXPECT_NE(*LaunchDigest(*plan, problem, config, H100()),
            *LaunchDigest(*plan, problem,
                          *plan->ConfigFromText("EVEN=false,ORDER=row-major,SPLIT=16,num_warps=4,"
                                                "register=64"),
                          H100()));
}

TEST(TritonKernelTest, TensorDescriptorsThatCannotBeMadeAreRefused) {
  struct Case {
    std::string_view of_a, error;
  };
  for (const Case& one :
       {Case{"block_shape: [\"1\"]", "shape: a tensor descriptor has 1 to 5 extents, not 0"},
        Case{"shape: [\"2\", \"32\"] block_shape: \"1\"", "block_shape: 1 entry for 2 extents; 2 are needed"},
        Case{"shape: [\"2\", \"32\"] strides: [\"32\", \"1\"] block_shape: [\"1\", \"8\"]",
             "strides: 2 entries for 2 extents; 1 is needed, for the last dimension none"},
        Case{"shape: \"kernel.registers\" block_shape: \"8\"", "shape[0]: "}}) {
    const std::string message = Message(CompileText(DescriptorText(one.of_a)).status());
    EXPECT_EQ(message.rfind(fmt::format("arguments[2].tensor_descriptor.{}", one.error), 0), 0U) << message;
  }
  EXPECT_EQ(
      Message(CompileText(TextWith("name: \"c\" buffer { data_type: DATA_TYPE_F32",
                                   "name: \"t\" tensor_descriptor { buffer: \"c\" shape: \"N\" block_shape: \"8\" "
                                   "oob_fill_nan: true } } arguments { name: \"c\" buffer { data_type: DATA_TYPE_I32"))
                  .status()),
      "arguments[1].tensor_descriptor.oob_fill_nan: i32 has no NaN; leave it out");
  EXPECT_EQ(
      Message(CompileText(SampleWith("name: \"map\" tensor_map",
                                     "name: \"descriptor\" tensor_descriptor { buffer: "
                                     "\"x\" shape: \"N\" block_shape: \"8\" } } arguments { name: \"map\" tensor_map"))
                  .status()),
      "arguments[8].tensor_descriptor: tensor descriptors need LANGUAGE_TRITON; write a tensor_map");
  std::string text = DescriptorText("shape: [\"2\", \"first\"] block_shape: [\"1\", \"8\"]");
  constexpr std::string_view kDim = "dims { name: \"N\"";
  text.insert(text.find(kDim), "dims { name: \"first\" default_value { int_value: 32 } inputs_only: true } ");
  const std::string message = Message(CompileText(text).status());
  EXPECT_EQ(message.rfind("launches[0].kernel.arguments[0]: 'a_desc' uses the dim 'first', which has inputs_only", 0),
            0U)
      << message;
}

// What the config or the problem decides.
TEST(TritonKernelTest, ExtentsStridesAndBlocksHaveLimits) {
  struct Case {
    std::string_view of_a, error;
  };
  for (const Case& one :
       {Case{"shape: [\"2\", \"M\"] block_shape: [\"1\", \"8\"]",
             "shape[1]: a stride of a tensor descriptor in bytes would be 34, which is no multiple of 16"},
        Case{"shape: [\"2\", \"8\"] strides: \"M\" block_shape: [\"1\", \"8\"]",
             "strides[0]: a stride of a tensor descriptor in bytes would be 34, which is no multiple of 16"},
        Case{"shape: [\"2\", \"M - 17\"] block_shape: [\"1\", \"8\"]", "shape[1]: 0 is not between 1 and 2147483647"},
        Case{"shape: [\"2\", \"1 << 30\", \"1 << 30\"] block_shape: [\"1\", \"1\", \"8\"]",
             "shape[1]: 1073741824 is not between 1 and 511"},
        Case{"shape: [\"2\", \"8\"] strides: \"-8\" block_shape: [\"1\", \"8\"]",
             "strides[0]: -8 is not between 0 and 549755813887"},
        Case{"shape: \"8\" block_shape: \"1 << 21\"", "block_shape[0]: 2097152 is not between 1 and 1048576"}}) {
    const auto plan = PlanOf(DescriptorText(one.of_a));
    ASSERT_NE(plan, nullptr);
    const auto steps =
        plan->Steps(Sequence::kLaunches, TritonProblem(*plan, 17), *plan->ConfigFromText(kOther), H100());
    EXPECT_EQ(Message(steps.status()), fmt::format("arguments[2].tensor_descriptor.{}", one.error));
  }
}

TEST(TritonKernelTest, TheReferenceIsCompiledByItself) {
  constexpr std::string_view kDefault = "EVEN=false,ORDER=row-major,SPLIT=1,num_warps=4,register=64";
  EXPECT_EQ(SignaturesOf(3, kDefault), (Names{"mm(*bf16,*fp32,i32,u64=1,fp32)", "split_it(u64=1)"}));
  EXPECT_EQ(SignaturesOf(3, kDefault, true), (Names{"plain(*bf16,*fp32,i32)"}));
}

TEST(TritonKernelTest, LaunchesThatAreSpecialisedOtherwiseAreOtherLaunches) {
  const auto plan = PlanOf();
  const Config config = *plan->ConfigFromText(kOther);
  EXPECT_NE(*LaunchDigest(*plan, TritonProblem(*plan, 48), config, H100()),
            *LaunchDigest(*plan, TritonProblem(*plan, 49), config, H100()));
}

TEST(TritonKernelTest, AGridOfZeroLaunchesNothing) {
  const auto plan = PlanOf(TextWith("min: -1048576", "default_value { int_value: 0 } values { int_value: 0 }"));
  ASSERT_NE(plan, nullptr);
  const ResolvedProblem problem = TritonProblem(*plan, 0);
  const Config config = *plan->ConfigFromText(kOther);
  EXPECT_EQ(*plan->BuildSpace(problem, H100())->CountValid(), 32U);
  EXPECT_EQ(*plan->FirstBrokenDeviceLimit(problem, config, H100()), "");
  EXPECT_EQ(plan->Steps(Sequence::kPreparePerConfig, problem, config, H100())->size(), 0U);
  EXPECT_EQ(plan->Steps(Sequence::kLaunches, problem, config, H100())->size(), 1U);
  // Less than nothing is an error of the config.
  const auto negative = PlanOf();
  EXPECT_FALSE(
      negative->FirstBrokenDeviceLimit(TritonProblem(*negative, -1), config, H100()).value_or("broken").empty());
}

TEST(TritonKernelTest, WhatTheCompiledKernelSaysIsRefused) {
  struct Case {
    std::string_view from, to, error;
  };
  for (const Case& one :
       {Case{"grid: \"1\"", "grid: \"1\" block: \"32\"",
             "reference.steps[0].kernel.block: the compiled kernel of LANGUAGE_TRITON says it (a parameter named "
             "num_warps "
             "sets it); leave it out"},
        Case{"grid: \"1\"", "grid: \"1\" cluster: \"2\"",
             "reference.steps[0].kernel.cluster: the compiled kernel of LANGUAGE_TRITON says it (a parameter named "
             "num_ctas "
             "sets it); leave it out"},
        Case{"grid: \"1\"", "grid: \"1\" dynamic_shared_bytes: \"2\"",
             "reference.steps[0].kernel.dynamic_shared_bytes: the compiled kernel of LANGUAGE_TRITON says it (Triton "
             "decides "
             "it); leave it out"},
        Case{"grid: \"1\"", "grid: \"1\" attributes { cooperative: true }",
             "reference.steps[0].kernel.attributes: the compiled kernel of LANGUAGE_TRITON says it "
             "(launch_cooperative_grid "
             "and launch_pdl are options of Triton, set by parameters of these names); leave it out"},
        Case{"entry: \"plain\" grid: \"1\"", "entry: \"plain\"",
             "reference.steps[0].kernel.grid: a launch needs 1 to 3 expressions here"},
        Case{"entry: \"plain\"", "entry: \"plain<1>\"",
             "reference.steps[0].kernel.entry: 'plain<1>' is not the name of a function"},
        Case{"data_type: DATA_TYPE_F32 value: \"1\"", "data_type: DATA_TYPE_BF16 value: \"1\"",
             "arguments[4].scalar.data_type: Triton is passed no scalars of type bf16; write F32"},
        Case{"data_type: DATA_TYPE_F32 value: \"1\"", "data_type: DATA_TYPE_F8E4M3 value: \"1\"",
             "arguments[4].scalar.data_type: Triton is passed no scalars of type f8e4m3; write F32"},
        Case{"value: \"M\"", "value: \"kernel.registers\"",
             "arguments[2].scalar.value: kernel.* is known only for LANGUAGE_CUDA"},
        Case{"name: \"scale\" scalar { data_type: DATA_TYPE_F32 value: \"1\" }",
             "name: \"scale\" tensor_map { buffer: \"a\" dims: [\"64\"] box: [\"16\"] }",
             "arguments[4].tensor_map: tensor maps need LANGUAGE_CUDA"},
        Case{"name: \"scale\" scalar { data_type: DATA_TYPE_F32 value: \"1\" }",
             "name: \"scale\" constant_symbol { symbol: \"s\" data_type: DATA_TYPE_F32 length: \"16\" }",
             "arguments[4].constant_symbol: constant symbols need LANGUAGE_CUDA; pass a buffer instead"},
        Case{"path: \"product.py\"", "path: \"product.triton\"",
             "sources[0].path: 'product.triton' is no Python module; name it like \"matmul.py\", and list the source "
             "with the "
             "functions first"},
        Case{"resources {", "compile_options: \"-O3\" resources {",
             "compile_options: Triton's options are parameters, dims or derived values with bind COMPILE and the names "
             "num_warps, num_stages, num_ctas and maxnreg; leave it out"}}) {
    EXPECT_EQ(Message(CompileText(TextWith(one.from, one.to)).status()), one.error);
  }
}

TEST(TritonKernelTest, OptionsAreNotBoundAtRunTime) {
  struct Case {
    std::string_view from, to, place;
  };
  for (const Case& one :
       {Case{"name: \"num_warps\" values { ints: [4, 8] }",
             "name: \"num_warps\" values { ints: [4, 8] } bind: BIND_RUN", "parameters[1].bind: 'num_warps'"},
        Case{"dims { name: \"N\"", "dims { name: \"num_stages\" } dims { name: \"N\"", "dims[1].bind: 'num_stages'"},
        Case{"derived {", "derived { name: \"launch_pdl\" expression: \"1 == 1\" } derived {",
             "derived[0].bind: 'launch_pdl'"}}) {
    EXPECT_EQ(Message(CompileText(TextWith(one.from, one.to)).status()),
              std::string(one.place) +
                  " is an option of Triton's compiler, which sees nothing that is bound at run time; write bind: "
                  "COMPILE, or choose another name");
  }
  for (const std::string_view bound :
       {"dims { name: \"num_stages\" default_value { int_value: 3 } bind: BIND_COMPILE } dims { name: \"N\"",
        "derived { name: \"maxnreg\" expression: \"64\" bind: BIND_COMPILE } dims { name: \"N\""}) {
    const auto plan = CompileText(TextWith("dims { name: \"N\"", bound));
    EXPECT_TRUE(plan.ok()) << Message(plan.status());
  }
}

TEST(TritonKernelTest, SourcesDoNotHideWhatTheyImport) {
  EXPECT_EQ(Message(CompileText(TextWith("path: \"product.py\"", "path: \"triton.py\"")).status()),
            "sources[0].path: 'triton.py' would be imported in place of the package triton; choose another name");
  EXPECT_EQ(
      Message(CompileText(TextWith("path: \"helper.py\"", "path: \"torch/__init__.py\"")).status()),
      "sources[1].path: 'torch/__init__.py' would be imported in place of the package torch; choose another name");
}

TEST(TritonKernelTest, ItsLaunchesAreNotWrittenDown) {
  const auto plan = PlanOf();
  const auto made = MakeLaunchSequence(*plan, TritonProblem(*plan, 64), *plan->ConfigFromText(kOther), H100(), {});
  EXPECT_NE(Message(made.status()).find("a kernel in Triton"), std::string::npos) << Message(made.status());
}

}  // namespace
}  // namespace tunefarm
