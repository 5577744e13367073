// A kernel on the host that takes and makes F8E4M3: filled, quantised by a prepare step, poisoned, compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/worker/host_kernel.h"

namespace tunefarm {
namespace {

using ::testing::HasSubstr;

constexpr char kDefinition[] = R"(
  display_name: "quantised"
  language: LANGUAGE_HOST_CXX
  sources { path: "quantised.cc" }
  dims { name: "N" default_value { int_value: 1000 } }
  parameters {
    name: "DOES"
    values { strings: ["good", "next_code", "two_codes", "leaves_one", "makes_nan", "touches_gap"] }
  }
  arguments { name: "x" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN } }
  arguments {
    name: "q" buffer { data_type: DATA_TYPE_F8E4M3 length: "N" access: ACCESS_IN fill { prepare_step: "quantise" } }
  }
  arguments {
    name: "w"
    buffer { data_type: DATA_TYPE_F8E4M3 length: "N" access: ACCESS_IN fill { uniform { low: 0.5 high: 2 } } }
  }
  arguments { name: "y" buffer { data_type: DATA_TYPE_F8E4M3 length: "N" access: ACCESS_OUT } }
  arguments { name: "factor" scalar { data_type: DATA_TYPE_F8E4M3 value: "1.5" } }
  arguments { name: "n" scalar { data_type: DATA_TYPE_I32 value: "N" } }
  prepare { step { name: "quantise" kernel { entry: "quantise" arguments: ["x", "q", "n"] } } }
  launches { kernel { entry: "run" arguments: ["q", "w", "y", "factor", "n"] } }
  reference { steps { kernel { entry: "reference" arguments: ["q", "w", "y", "factor", "n"] } } }
  # Neighbouring codes differ by at most an eighth.
  tolerance { atol: 0 rtol: 0.13 }
)";

constexpr char kSource[] = R"(
typedef unsigned char fp8;

static float decoded(fp8 code) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  const float value = exponent ? __builtin_ldexpf(8 + fraction, exponent - 10) : __builtin_ldexpf(fraction, -9);
  return code & 128 ? -value : value;
}

// Of two neighbours that are as near it takes the smaller magnitude.
static fp8 encoded(float value) {
  const float magnitude = __builtin_fabsf(value);
  int code = 0;
  while (code < 0x7E && __builtin_fabsf(decoded(code + 1) - magnitude) < __builtin_fabsf(decoded(code) - magnitude)) ++code;
  return code | (value < 0 ? 128 : 0);
}

extern "C" void quantise(const float* x, fp8* q, int n) {
  for (int i = 0; i < n; ++i) q[i] = encoded(x[i]);
}

// The last element stays untouched.
extern "C" void reference(const fp8* q, const fp8* w, fp8* y, fp8 factor, int n) {
  for (int i = 0; i < n - 1; ++i) y[i] = encoded(decoded(factor) * decoded(q[i]) * decoded(w[i]));
}

extern "C" void run(const fp8* q, const fp8* w, fp8* y, fp8 factor, int n) {
  for (int i = 0; i < n - 1; ++i) {
#ifdef DOES_leaves_one
    if (i == 3) continue;
#endif
    y[i] = encoded(decoded(factor) * decoded(q[i]) * decoded(w[i]));
  }
#ifdef DOES_next_code
  ++y[7];
#endif
#ifdef DOES_two_codes
  y[7] += 2;
#endif
#ifdef DOES_makes_nan
  y[5] = 0x7F;
#endif
#ifdef DOES_touches_gap
  y[n - 1] = 0;
#endif
}
)";

class HostF8E4M3Test : public ::testing::Test {
 protected:
  HostF8E4M3Test() : kernel_(kDefinition, kSource) {}

  void SetUp() override {
    const worker::v1::Prepared prepared = kernel_.Prepare();
    ASSERT_TRUE(prepared.ok()) << prepared.message();
  }

  worker::v1::Result Run(const char* does) { return kernel_.Run(kernel_.With("DOES", does)); }

  HostKernel kernel_;
};

TEST_F(HostF8E4M3Test, PassesWithinTheTolerance) {
  for (const char* const does : {"good", "next_code"}) {
    const worker::v1::Result result = Run(does);
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << does << ": " << result.message();
    EXPECT_EQ(result.verification().elements(), 1000u);
  }
  EXPECT_GT(Run("next_code").verification().max_relative_error(), 0.06);
}

TEST_F(HostF8E4M3Test, WhatIsWrongIsFound) {
  const auto expect = [this](const char* does, const std::string& message) {
    const worker::v1::Result result = Run(does);
    EXPECT_EQ(result.outcome(), v1::OUTCOME_WRONG_RESULT) << does << ": " << result.message();
    EXPECT_THAT(result.message(), HasSubstr(message)) << does;
  };
  expect("two_codes", "y[7] is ");
  expect("leaves_one", "y[3] was never written or is NaN; the reference has ");
  // Under the other poison it is no poison: NaN.
  expect("makes_nan", "y[5] ");
  expect("touches_gap", "y[999] was written (0), but the reference leaves it untouched");
}

// That the reference writes NaN is known only by its second run, since the first poison is NaN of the same bits.
TEST(HostF8E4M3ReferenceTest, ItsNanNeverPasses) {
  std::string source = kSource;
  const std::string last = "// The last element";
  source.replace(source.find(last), last.size(), "#define reference unused\n" + last);
  source += R"(
#undef reference
extern "C" void reference(const fp8* q, const fp8* w, fp8* y, fp8 factor, int n) {
  for (int i = 0; i < n - 1; ++i) y[i] = i == 5 ? 0x7F : encoded(decoded(factor) * decoded(q[i]) * decoded(w[i]));
}
)";
  HostKernel kernel(kDefinition, source);
  const worker::v1::Prepared prepared = kernel.Prepare();
  ASSERT_TRUE(prepared.ok()) << prepared.message();
  const worker::v1::Result result = kernel.Run(kernel.With("DOES", "makes_nan"));
  EXPECT_EQ(result.outcome(), v1::OUTCOME_WRONG_RESULT) << result.message();
  EXPECT_THAT(result.message(), HasSubstr("y[5] is nan, but the reference has nan"));
}

}  // namespace
}  // namespace tunefarm
