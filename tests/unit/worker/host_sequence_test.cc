// What a definition can ask of a host run beyond one kernel call: sequences, typed scalars, state, work space,
// preparation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/worker/host_kernel.h"

namespace tunefarm {
namespace {

using ::testing::HasSubstr;

constexpr char kDefinition[] = R"(
  display_name: "sequence"
  language: LANGUAGE_HOST_CXX
  sources { path: "sequence.cc" }
  dims { name: "N" default_value { int_value: 512 } }
  parameters { name: "BLOCK" values { ints: [16, 64] } }
  parameters {
    name: "DOES"
    values { strings: ["good", "touches_gap", "accumulates_twice", "skips_prepare", "forgets_factor"] }
  }
  arguments { name: "x" buffer { data_type: DATA_TYPE_I32 length: "N" access: ACCESS_IN fill { iota { start: 1 } } } }
  arguments {
    name: "table"
    buffer { data_type: DATA_TYPE_I32 length: "N" access: ACCESS_IN fill { prepare_step: "make_table" } }
  }
  arguments {
    name: "total"
    buffer {
      data_type: DATA_TYPE_I64 length: "N" access: ACCESS_INOUT restore: RESTORE_PER_SAMPLE
      fill { constant { value: 5 } }
    }
  }
  arguments { name: "bytes" buffer { data_type: DATA_TYPE_U8 length: "N" access: ACCESS_OUT } }
  arguments { name: "zeroed" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT init: INIT_ZERO } }
  arguments { name: "work" buffer { data_type: DATA_TYPE_I32 length: "N * BLOCK" access: ACCESS_SCRATCH } }
  arguments { name: "i8" scalar { data_type: DATA_TYPE_I8 value: "-7" } }
  arguments { name: "u16" scalar { data_type: DATA_TYPE_U16 value: "65535" } }
  arguments { name: "u64" scalar { data_type: DATA_TYPE_U64 value: "N" } }
  arguments { name: "f32" scalar { data_type: DATA_TYPE_F32 value: "0.25" } }
  arguments { name: "f64" scalar { data_type: DATA_TYPE_F64 value: "-1.5" } }
  prepare {
    step { name: "make_table" kernel { entry: "make_table" arguments: ["table", "u64"] } }
    per: PREPARE_PER_PROBLEM
  }
  prepare {
    step { name: "lay_out" kernel { entry: "lay_out" arguments: ["table", "work", "u64"] } }
    per: PREPARE_PER_CONFIG
  }
  launches { memset { buffer: "zeroed" byte: 0 } untimed: true }
  launches {
    kernel {
      entry: "run"
      arguments: ["i8", "x", "u16", "work", "f32", "total", "f64", "bytes", "zeroed", "u64"]
    }
  }
  reference { steps { kernel { entry: "reference" arguments: ["x", "table", "total", "bytes", "zeroed", "u64"] } } }
)";

constexpr char kSource[] = R"(
typedef unsigned long size;
enum { kFactor = 3 };

extern "C" void make_table(int* table, size n) {
  for (size i = 0; i < n; ++i) table[i] = (int)(i * i % 97);
}

extern "C" void lay_out(const int* table, int* work, size n) {
  for (size i = 0; i < n * BLOCK; ++i) work[i] = table[i % n];
}

// Odd elements of `bytes` stay untouched; some of the even ones equal the poison.
extern "C" void reference(const int* x, const int* table, long* total, unsigned char* bytes, float* zeroed, size n) {
  for (size i = 0; i < n; ++i) {
    total[i] += (long)x[i] * kFactor + table[i];
    if (i % 2 == 0) bytes[i] = i % 8 == 0 ? 0xA5 : (unsigned char)i;
    zeroed[i] = i < n / 2 ? -7 + 65535 + 0.25f - 1.5f : 0;
  }
}

extern "C" void run(signed char i8, const int* x, unsigned short u16, int* work, float f32, long* total, double f64,
                    unsigned char* bytes, float* zeroed, size n) {
  int scale = kFactor;
#ifdef DOES_forgets_factor
  scale = 1;
#endif
#ifdef DOES_skips_prepare
  work[3] = 1000;
#endif
  for (size i = 0; i < n; ++i) {
    total[i] += (long)x[i] * scale + work[n * (BLOCK - 1) + i % n];
#ifdef DOES_skips_prepare
    total[i] += work[i] - work[n * (BLOCK - 1) + i];
#endif
    if (i % 2 == 0) bytes[i] = i % 8 == 0 ? 0xA5 : (unsigned char)i;
    if (i < n / 2) zeroed[i] = i8 + u16 + f32 + (float)f64;
  }
#ifdef DOES_touches_gap
  bytes[7] = 0;
#endif
#ifdef DOES_accumulates_twice
  total[0] += 1;
#endif
}
)";

class HostSequenceTest : public ::testing::Test {
 protected:
  HostSequenceTest() : kernel_(kDefinition, kSource) {}

  HostKernel kernel_;
};

TEST_F(HostSequenceTest, EverythingTogether) {
  const worker::v1::Prepared prepared = kernel_.Prepare();
  ASSERT_TRUE(prepared.ok()) << prepared.message();
  // The work space's size follows the config, up and down again.
  for (const int block : {16, 64, 16}) {
    const worker::v1::Result result = kernel_.Run(kernel_.With("BLOCK", block));
    EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << block << ": " << result.message();
    EXPECT_EQ(result.verification().elements(), 3u * 512);
    // Something is restored before each sample, so a sample is one launch sequence.
    EXPECT_EQ(result.measurement().launches_per_sample(), 1);
  }
}

TEST_F(HostSequenceTest, FaultsOfSequences) {
  ASSERT_TRUE(kernel_.Prepare().ok());
  const auto expect = [this](const char* what, const std::string& message) {
    const worker::v1::Result result = kernel_.Run(kernel_.With("DOES", what));
    EXPECT_EQ(result.outcome(), v1::OUTCOME_WRONG_RESULT) << what << ": " << result.message();
    EXPECT_THAT(result.message(), HasSubstr(message)) << what;
  };
  expect("touches_gap", "bytes[7] was written (0), but the reference leaves it untouched");
  expect("accumulates_twice", "total[0] is ");
  expect("skips_prepare", "total[3] is ");
  expect("forgets_factor", "total[0] is ");
}

std::string ReferenceThat(const std::string& does) {
  return "extern \"C\" void run(float* y) { y[0] = 1; }\nextern \"C\" void reference(float* y) { " + does + " }\n";
}

constexpr char kSmallDefinition[] = R"(
  display_name: "small"
  language: LANGUAGE_HOST_CXX
  sources { path: "small.cc" }
  dims { name: "N" default_value { int_value: 4 } }
  parameters { name: "P" values { ints: [1, 2] } }
  arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
  launches { kernel { entry: "run" arguments: ["y"] } }
  reference { steps { kernel { entry: "reference" arguments: ["y"] } } }
)";

TEST(HostReferenceTest, ABrokenReferenceIsOneSentence) {
  const auto prepare = [](const std::string& does) {
    return HostKernel(kSmallDefinition, ReferenceThat(does)).Prepare();
  };
  const worker::v1::Prepared crashed = prepare("__builtin_trap();");
  EXPECT_FALSE(crashed.ok());
  EXPECT_EQ(crashed.outcome(), v1::OUTCOME_RUN_CRASH);
  EXPECT_EQ(crashed.message(), "The reference crashed with SIGILL.");
  const worker::v1::Prepared damaged = prepare("y[4] = 1;");
  EXPECT_EQ(damaged.outcome(), v1::OUTCOME_OUT_OF_BOUNDS);
  EXPECT_THAT(damaged.message(), HasSubstr("The reference itself is wrong: Buffer y was written 0 bytes past its end"));
}

TEST(HostReferenceTest, RunningUnpreparedIsAnError) {
  HostKernel kernel(kSmallDefinition, ReferenceThat("y[0] = 1;"));
  const worker::v1::Result result = kernel.Run(HostKernel::Input());
  EXPECT_EQ(result.outcome(), v1::OUTCOME_LOST);
}

TEST(HostReferenceTest, ElementsThatTheReferenceLeavesMayStay) {
  HostKernel kernel(kSmallDefinition, ReferenceThat("y[0] = 1;"));
  ASSERT_TRUE(kernel.Prepare().ok());
  EXPECT_EQ(kernel.Run(kernel.DefaultConfig()).outcome(), v1::OUTCOME_OK);
}

TEST(HostReferenceTest, AProblemThatDoesNotFitIsSaid) {
  std::string definition = kSmallDefinition;
  const std::string length = "length: \"N\"";
  // 4 TiB.
  definition.replace(definition.find(length), length.size(), "length: \"N * 2 ** 38\"");
  HostKernel kernel(definition, ReferenceThat("y[0] = 1;"));
  const worker::v1::Prepared prepared = kernel.Prepare();
  EXPECT_FALSE(prepared.ok());
  EXPECT_EQ(prepared.outcome(), v1::OUTCOME_OUT_OF_MEMORY);
  EXPECT_THAT(prepared.message(), HasSubstr("MiB of memory, but "));
}

}  // namespace
}  // namespace tunefarm
