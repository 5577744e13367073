// Kernels on the users' own data: inputs and expected outputs from files.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/worker/host_kernel.h"

namespace tunefarm {
namespace {

using ::testing::HasSubstr;

// What names a file's content to the worker, which does not look whether it does.
std::string DigestOf(const std::string& name) { return std::string(64 - name.size(), '0') + name; }

template <typename T>
void Hand(HostKernel* kernel, const std::string& digit, const std::vector<T>& elements) {
  UniqueFd fd(memfd_create("data", MFD_CLOEXEC));
  const auto bytes = std::as_bytes(std::span(elements));
  TUNEFARM_CHECK(write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  kernel->prepared().data_files[DigestOf(digit)] = std::make_shared<const UniqueFd>(std::move(fd));
}

std::string File(const std::string& digit, int bytes) {
  return fmt::format(R"(file {{ path: "{0}.npy" digest: "{1}" bytes: {2} }})", digit, DigestOf(digit), bytes);
}

// y = A x, A in compressed rows.
std::string SparseDefinition() {
  return fmt::format(R"(
    display_name: "sparse"
    language: LANGUAGE_HOST_CXX
    sources {{ path: "sparse.cc" }}
    dims {{ name: "N" default_value {{ int_value: 3 }} }}
    dims {{ name: "NNZ" default_value {{ int_value: 5 }} }}
    parameters {{ name: "DOES" values {{ strings: ["good", "wrong", "unwritten", "writes_input", "looks_for_files"] }} }}
    arguments {{ name: "rows" buffer {{ data_type: DATA_TYPE_I32 length: "N + 1" access: ACCESS_IN
                                        index_limit: "NNZ + 1" fill {{ {} }} }} }}
    arguments {{ name: "columns" buffer {{ data_type: DATA_TYPE_I32 length: "NNZ" access: ACCESS_IN
                                           index_limit: "N" fill {{ {} }} }} }}
    arguments {{ name: "values" buffer {{ data_type: DATA_TYPE_F32 length: "NNZ" access: ACCESS_IN fill {{ {} }} }} }}
    arguments {{ name: "x" buffer {{ data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN fill {{ {} }} }} }}
    arguments {{ name: "y" buffer {{ data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT }} }}
    arguments {{ name: "n" scalar {{ data_type: DATA_TYPE_I32 value: "N" }} }}
    launches {{ kernel {{ entry: "run" arguments: ["rows", "columns", "values", "x", "y", "n"] }} }}
    reference {{ files {{ buffer: "y" {} }} }}
  )",
                     File("a", 16), File("b", 20), File("c", 20), File("d", 12), File("e", 12));
}

constexpr char kSparseSource[] = R"(
#include <unistd.h>

extern "C" void run(const int* rows, const int* columns, const float* values, float* x, float* y, int n) {
#ifdef DOES_looks_for_files
  // A pipe cannot be sought in.
  for (int fd = 3; fd < 512; ++fd) {
    if (lseek(fd, 0, SEEK_CUR) >= 0) return;
  }
#endif
  for (int i = 0; i < n; ++i) {
    float sum = 0;
    for (int k = rows[i]; k < rows[i + 1]; ++k) sum += values[k] * x[columns[k]];
#ifdef DOES_unwritten
    if (i == 1) continue;
#endif
    y[i] = sum;
  }
#ifdef DOES_wrong
  y[2] += 1;
#endif
#ifdef DOES_writes_input
  x[0] = 7;
#endif
}
)";

class SparseTest : public testing::Test {
 protected:
  SparseTest() : kernel_(SparseDefinition(), kSparseSource) {
    Hand<int32_t>(&kernel_, "a", {0, 2, 3, 5});
    Hand<int32_t>(&kernel_, "b", {0, 2, 1, 0, 2});
    Hand<float>(&kernel_, "c", {1, 2, 3, 4, 5});
    Hand<float>(&kernel_, "d", {1, 10, 100});
    Hand<float>(&kernel_, "e", {201, 30, 504});
  }

  void Prepare() {
    const worker::v1::Prepared prepared = kernel_.Prepare();
    ASSERT_TRUE(prepared.ok()) << prepared.message();
  }
  worker::v1::Result Run(const char* does) { return kernel_.Run(kernel_.With("DOES", does)); }

  // Why it is refused.
  void ExpectRefusal(v1::Outcome outcome, const std::string& message) {
    const worker::v1::Prepared prepared = kernel_.Prepare();
    EXPECT_FALSE(prepared.ok());
    EXPECT_EQ(prepared.outcome(), outcome);
    EXPECT_THAT(prepared.message(), HasSubstr(message));
    EXPECT_FALSE(prepared.worker_is_damaged());
  }

  HostKernel kernel_;
};

TEST_F(SparseTest, RunsOnTheFilesAndIsComparedWithOne) {
  Prepare();
  const worker::v1::Result good = Run("good");
  EXPECT_EQ(good.outcome(), v1::OUTCOME_OK) << good.message();
  EXPECT_EQ(good.verification().elements(), 3u);
  EXPECT_GT(good.measurement().median_ns(), 0);
}

TEST_F(SparseTest, WhatIsWrongIsFoundAndMended) {
  Prepare();
  const auto expect = [this](const char* does, v1::Outcome outcome, const std::string& message) {
    const worker::v1::Result result = Run(does);
    EXPECT_EQ(result.outcome(), outcome) << does << ": " << result.message();
    EXPECT_THAT(result.message(), HasSubstr(message)) << does;
  };
  expect("wrong", v1::OUTCOME_WRONG_RESULT, "y[2] is 505, but the reference has 504");
  expect("unwritten", v1::OUTCOME_WRONG_RESULT, "y[1] was never written");
  expect("writes_input", v1::OUTCOME_OUT_OF_BOUNDS, "Input buffer x was changed at byte ");
  expect("good", v1::OUTCOME_OK, "");
}

TEST_F(SparseTest, TrialsDoNotGetTheFiles) {
  Prepare();
  const worker::v1::Result result = Run("looks_for_files");
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message();
}

TEST_F(SparseTest, TheDataAreTheSameForEverySeed) {
  Prepare();
  RunInput input = HostKernel::Input();
  input.config = kernel_.DefaultConfig();
  ASSERT_EQ(kernel_.Compile(input.config, &input.artifact).outcome(), v1::OUTCOME_OK);
  input.input_seed = 5;
  input.second_input_seed = 6;
  const worker::v1::Result result = kernel_.Run(input);
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message();
}

TEST_F(SparseTest, AnIndexBeyondItsLimitIsRefused) {
  Hand<int32_t>(&kernel_, "b", {0, 2, 1, 3, 2});
  ExpectRefusal(v1::OUTCOME_INFEASIBLE_LAUNCH,
                "columns[3] is 3, but the kernel indexes memory with it and its index_limit allows 0 to 2.");
  Hand<int32_t>(&kernel_, "b", {0, 2, 1, 0, 2});
  Hand<int32_t>(&kernel_, "a", {0, -2, 3, 5});
  ExpectRefusal(v1::OUTCOME_INFEASIBLE_LAUNCH, "rows[1] is -2, ");
}

TEST_F(SparseTest, AFileThatIsNotWholeIsLost) {
  Hand<float>(&kernel_, "e", {201, 30});
  ExpectRefusal(v1::OUTCOME_LOST, "The file e.npy of buffer y");
  kernel_.prepared().data_files.erase(DigestOf("c"));
  ExpectRefusal(v1::OUTCOME_LOST, "The file c.npy of buffer values was not handed to the worker.");
}

TEST_F(SparseTest, NanCannotBeExpected) {
  Hand<float>(&kernel_, "e", {201, __builtin_nanf(""), 504});
  ExpectRefusal(v1::OUTCOME_INFEASIBLE_LAUNCH, "has NaN at y[1], which no output can equal.");
}

// Some of the bytes that are expected equal the poison; `total` is restored before each sample.
std::string BytesDefinition() {
  return fmt::format(R"(
    display_name: "bytes"
    language: LANGUAGE_HOST_CXX
    sources {{ path: "bytes.cc" }}
    parameters {{ name: "DOES" values {{ strings: ["good", "skips_first", "skips_second"] }} }}
    arguments {{ name: "bytes" buffer {{ data_type: DATA_TYPE_U8 length: "4" access: ACCESS_IN fill {{ {0} }} }} }}
    arguments {{ name: "total" buffer {{ data_type: DATA_TYPE_I32 length: "4" access: ACCESS_INOUT
                                         restore: RESTORE_PER_SAMPLE fill {{ {1} }} }} }}
    arguments {{ name: "copy" buffer {{ data_type: DATA_TYPE_U8 length: "4" access: ACCESS_OUT }} }}
    launches {{ kernel {{ entry: "run" arguments: ["bytes", "total", "copy"] }} }}
    reference {{ files {{ buffer: "total" {2} }} files {{ buffer: "copy" {0} }} }}
  )",
                     File("a", 4), File("b", 16), File("c", 16));
}

constexpr char kBytesSource[] = R"(
extern "C" void run(const unsigned char* bytes, int* total, unsigned char* copy) {
  for (int i = 0; i < 4; ++i) {
    total[i] += bytes[i];
#if defined(DOES_skips_first)
    if (i == 0) continue;
#elif defined(DOES_skips_second)
    if (i == 1) continue;
#endif
    copy[i] = bytes[i];
  }
}
)";

TEST(BytesTest, BothPoisonsTellWhatWasWrittenAndDataAreRestored) {
  HostKernel kernel(BytesDefinition(), kBytesSource);
  Hand<uint8_t>(&kernel, "a", {0xA5, 0x5A, 1, 2});
  Hand<int32_t>(&kernel, "b", {10, 20, 30, 40});
  Hand<int32_t>(&kernel, "c", {10 + 0xA5, 20 + 0x5A, 31, 42});
  const worker::v1::Prepared prepared = kernel.Prepare();
  ASSERT_TRUE(prepared.ok()) << prepared.message();
  const worker::v1::Result good = kernel.Run(kernel.With("DOES", "good"));
  EXPECT_EQ(good.outcome(), v1::OUTCOME_OK) << good.message();
  const worker::v1::Result first = kernel.Run(kernel.With("DOES", "skips_first"));
  EXPECT_EQ(first.outcome(), v1::OUTCOME_WRONG_RESULT) << first.message();
  EXPECT_THAT(first.message(), HasSubstr("copy[0] was never written"));
  const worker::v1::Result second = kernel.Run(kernel.With("DOES", "skips_second"));
  EXPECT_EQ(second.outcome(), v1::OUTCOME_WRONG_RESULT) << second.message();
  EXPECT_THAT(second.message(), HasSubstr("copy[1] was never written"));
}

// y[i] = table[i], where `table` is made as the test says.
HostKernel GatherKernel(const std::string& fill) {
  return HostKernel(fmt::format(R"(
    display_name: "gather"
    language: LANGUAGE_HOST_CXX
    sources {{ path: "gather.cc" }}
    arguments {{ name: "table" buffer {{ data_type: DATA_TYPE_U16 length: "4" access: ACCESS_IN index_limit: "3"
                                         fill {{ {} }} }} }}
    arguments {{ name: "y" buffer {{ data_type: DATA_TYPE_U16 length: "4" access: ACCESS_OUT }} }}
    prepare {{ step {{ name: "make" kernel {{ entry: "make" arguments: ["table"] }} }} per: PREPARE_PER_PROBLEM }}
    launches {{ kernel {{ entry: "run" arguments: ["table", "y"] }} }}
    reference {{ steps {{ kernel {{ entry: "run" arguments: ["table", "y"] }} }} }}
  )",
                                fill),
                    R"(
extern "C" void make(unsigned short* table) { table[2] = 3; }
extern "C" void run(const unsigned short* table, unsigned short* y) { for (int i = 0; i < 4; ++i) y[i] = table[i]; }
)");
}

TEST(IndexTest, WhateverMakesItIsChecked) {
  EXPECT_THAT(GatherKernel("iota { start: 0 }").Prepare().message(), HasSubstr("table[3] is 3, "));
  // What a step leaves unwritten is no index either.
  const worker::v1::Prepared prepared = GatherKernel(R"(prepare_step: "make")").Prepare();
  EXPECT_EQ(prepared.outcome(), v1::OUTCOME_INFEASIBLE_LAUNCH);
  EXPECT_THAT(prepared.message(), HasSubstr("table[0] is 42405, "));
}

}  // namespace
}  // namespace tunefarm
