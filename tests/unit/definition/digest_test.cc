#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

struct Change {
  std::string_view what;
  std::string_view from;
  std::string_view to;
};
void PrintTo(const Change& change, std::ostream* out) { *out << change.what; }

// Results are filed under the program digest. If this fails, the encoding has changed and every stored result of every
// kernel is orphaned: that is the error, not these values.
TEST(DigestTest, IsStable) {
  const auto plan = SamplePlan();
  EXPECT_EQ(plan->program_digest(), "f6e9ac5d893c8ed251cbb91f17c62a6073fc67faa0868aa727f684bce46a1c89");
  EXPECT_EQ(plan->kernel_id(), "34125950f3dd9ed816be50de1050bb1ca98438959e51a38c2dc554eb24be3a85");
  EXPECT_EQ(plan->kernel().name(), "kernels/" + plan->kernel_id());
  EXPECT_EQ(plan->kernel().program_digest(), plan->program_digest());
}

TEST(DigestTest, CanonicalFormIsAFixedPoint) {
  const auto plan = SamplePlan();
  const auto again = KernelPlan::Compile(plan->kernel());
  ASSERT_TRUE(again.ok()) << Message(again.status());
  EXPECT_EQ((*again)->kernel_id(), plan->kernel_id());
  EXPECT_EQ((*again)->program_digest(), plan->program_digest());
  EXPECT_EQ((*again)->kernel().SerializeAsString(), plan->kernel().SerializeAsString());
}

TEST(DigestTest, OutputOnlyFieldsAreNotBelieved) {
  const auto plan = SamplePlan();
  v1::Kernel kernel = plan->kernel();
  kernel.set_name("kernels/forged");
  kernel.set_program_digest("forged");
  EXPECT_EQ((*KernelPlan::Compile(kernel))->kernel().name(), plan->kernel().name());
  EXPECT_EQ((*KernelPlan::Compile(kernel))->program_digest(), plan->program_digest());
}

class SameProgramTest : public testing::TestWithParam<Change> {};

TEST_P(SameProgramTest, OtherKernelButSameProgram) {
  const auto plan = SamplePlan();
  const auto changed = SamplePlan(GetParam().from, GetParam().to);
  EXPECT_EQ(changed->program_digest(), plan->program_digest());
  EXPECT_NE(changed->kernel_id(), plan->kernel_id());
}

INSTANTIATE_TEST_SUITE_P(
    Change, SameProgramTest,
    testing::Values(
        Change{"display name", R"(display_name: "sample")", R"(display_name: "other")"},
        Change{"description", "in tiles", "in tiles."},
        Change{"parameter description", "Threads.", "Threads per block."},
        Change{"values of a parameter", "last: 1024 }", "last: 512 }"},
        Change{"default of a parameter", "default_value { int_value: 128 }", "default_value { int_value: 64 }"},
        Change{"constraint", "tile <= 2048", "tile <= 1024"}, Change{"reason", "small tiles", "smaller tiles"},
        Change{"default of a dim", "int_value: 4096", "int_value: 8192"},
        Change{"inputs only", "bool_value: false } }", "bool_value: false } inputs_only: true }"},
        Change{"range of a dim", "1048576", "2097152"}, Change{"lookup rule", " lookup: LOOKUP_RULE_LOG", ""},
        Change{"flops",
               R"("N * K")"
               "\nbytes",
               R"("2 * N * K")"
               "\nbytes"},
        Change{"bytes", "2 * N * K * element_bytes", "3 * N * K * element_bytes"},
        Change{"baseline label", R"(label: "cuBLAS")", R"(label: "library")"},
        Change{"baseline steps", R"(b: "x" c: "y")", R"(b: "y" c: "y")"},
        Change{"declared registers", "32 * STAGES", "31 * STAGES"},
        Change{"declared shared memory", R"(static_shared_bytes: "1024")", R"(static_shared_bytes: "512")"},
        Change{"starting configs", "resources {", R"(starting_configs: "BLOCK=64" resources {)"},
        Change{"least capability", "min_compute_capability: 80", "min_compute_capability: 90"},
        Change{"name of a launch", R"(name: "finish" kernel)", R"(name: "end" kernel)"},
        Change{"order of headers", R"(path: "z.cuh" content: "#pragma once" }
sources { path: "a.cuh")",
               R"(path: "a.cuh" content: "#pragma once" }
sources { path: "z.cuh")"},
        Change{"order of parameters", R"(parameters { name: "STAGES" range { first: 1 last: 4 } }
parameters { name: "SCALE" values { doubles: [0.5, 2.0] } })",
               R"(parameters { name: "SCALE" values { doubles: [0.5, 2.0] } }
parameters { name: "STAGES" range { first: 1 last: 4 } })"}));

class OtherProgramTest : public testing::TestWithParam<Change> {};

TEST_P(OtherProgramTest, OtherProgram) {
  const auto plan = SamplePlan();
  const auto changed = SamplePlan(GetParam().from, GetParam().to);
  EXPECT_NE(changed->program_digest(), plan->program_digest());
  EXPECT_NE(changed->kernel_id(), plan->kernel_id());
}

INSTANTIATE_TEST_SUITE_P(
    Change, OtherProgramTest,
    testing::Values(
        Change{"source", "void scale();", "void scale() ;"},
        Change{"header that nobody includes", R"("a.cuh" content: "#pragma once")",
               R"("a.cuh" content: "#pragma once ")"},
        Change{"name of a header", R"("a.cuh")", R"("b.cuh")"},
        Change{"no such header", R"(sources { path: "a.cuh" content: "#pragma once" })", ""},
        Change{"option", "--fmad=true", "--fmad=false"},
        Change{"order of options", R"("--fmad=true", "-DEXTRA=1")", R"("-DEXTRA=1", "--fmad=true")"},
        Change{"name of a dim", R"(name: "causal")", R"(name: "masked")"},
        Change{"type of a dim", R"(VALUE_TYPE_BOOL default_value { bool_value: false })", "VALUE_TYPE_INT"},
        Change{"bind of a dim", R"(name: "K" bind: BIND_COMPILE)", R"(name: "K" bind: BIND_RUN)"},
        Change{"bind of a parameter", "last: 4 } }", "last: 4 } bind: BIND_RUN }"},
        Change{"type of a parameter", "doubles: [0.5, 2.0]", "ints: [1, 2]"},
        Change{"another parameter", R"(derived {)", R"(parameters { name: "MORE" values { ints: 1 } } derived {)"},
        Change{"derived value", "BLOCK * STAGES", "STAGES * BLOCK"},
        Change{"bind of a derived value", R"(STAGES" })", R"(STAGES" bind: BIND_COMPILE })"},
        Change{"length of a buffer", R"(length: "N * K")", R"(length: "K * N")"},
        Change{"init", " init: INIT_ZERO", ""}, Change{"restore", " restore: RESTORE_PER_SAMPLE", ""},
        Change{"scalar", R"(value: "SCALE")", R"(value: "2 * SCALE")"}, Change{"tensor map", "'128B'", "'64B'"},
        Change{"prepare", R"(memset { buffer: "work" })", R"(memset { buffer: "work" byte: 1 })"},
        Change{"prepare per", " per: PREPARE_PER_CONFIG", ""}, Change{"grid", R"("2"])", R"("3"])"},
        Change{"entry", R"(entry: "finish")", R"(entry: "finish2")"}, Change{"when", "STAGES > 1", "STAGES > 2"},
        Change{"untimed", " untimed: true", ""}, Change{"reference", R"("256" arguments)", R"("128" arguments)"},
        Change{"atol", "atol: 0.001", "atol: 0.002"}, Change{"conditional tolerance", "rtol: 0.01", "rtol: 0.02"},
        Change{"target", "min_compute_capability: 80", "min_compute_capability: 80 architecture_specific: true"},
        Change{"exact target", "min_compute_capability: 80", "exact_compute_capability: 90"}));

// What the defaults say may be written out without being another kernel.
TEST(DigestTest, WrittenDefaultsChangeNothing) {
  const auto plan = SamplePlan();
  for (const Change& change :
       {Change{"type", R"(dims { name: "K" )", R"(dims { name: "K" type: VALUE_TYPE_INT min: 1 max: 1099511627776 )"},
        Change{"bind", R"(name: "STAGES" )",
               R"(name: "STAGES" type: VALUE_TYPE_INT bind: BIND_COMPILE default_value { int_value: 1 } )"},
        Change{"step", "first: 1 last: 4", "first: 1 last: 4 step: 1"},
        Change{"deviation", R"("N * K" access: ACCESS_OUT)",
               R"("N * K" access: ACCESS_OUT init: INIT_POISON restore: RESTORE_NEVER)"},
        Change{"swizzle", R"(byte_strides)", R"(interleave: "'none'" element_strides: ["1", "1"] byte_strides)"},
        Change{"iota", "iota {}", "iota { step: 1 }"},
        Change{"per", R"(memset { buffer: "work" } } })",
               R"(memset { buffer: "work" } } per: PREPARE_PER_PROBLEM })"}}) {
    EXPECT_EQ(SamplePlan(change.from, change.to)->kernel_id(), plan->kernel_id()) << change.what;
  }
}

TEST(DigestTest, AbsentToleranceIsTheDefaultOne) {
  const std::string_view tolerance =
      R"(tolerance { atol: 0.001 conditional { when: "dtype == 'bf16'" tolerance { rtol: 0.01 row_norm_bound: 0.1 row_length: "K" } } })";
  EXPECT_EQ(SamplePlan(tolerance, "")->kernel_id(),
            SamplePlan(tolerance, "tolerance { atol: 1e-5 rtol: 1e-5 }")->kernel_id());
}

}  // namespace
}  // namespace tunefarm
