#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/worker/cuda/driver.h"
#include "server/worker/cuda/outcome_of_cuda_error.h"
#include "server/worker/cuda/peak_rates.h"
#include "server/worker/cuda/ptxas_log.h"

namespace tunefarm::cuda {
namespace {

struct ErrorCase {
  int error;
  CallKind kind;
  v1::Outcome outcome;
  bool sticky;
};

TEST(OutcomeOfCudaError, FollowsTheTable) {
  const ErrorCase cases[] = {
      {CUDA_ERROR_INVALID_VALUE, CallKind::kLaunch, v1::OUTCOME_INFEASIBLE_LAUNCH, false},
      {CUDA_ERROR_INVALID_VALUE, CallKind::kLoad, v1::OUTCOME_LOAD_ERROR, false},
      {CUDA_ERROR_INVALID_VALUE, CallKind::kMachinery, v1::OUTCOME_LOST, false},
      {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, CallKind::kLaunch, v1::OUTCOME_INFEASIBLE_LAUNCH, false},
      {CUDA_ERROR_INVALID_CLUSTER_SIZE, CallKind::kLaunch, v1::OUTCOME_INFEASIBLE_LAUNCH, false},
      {CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, CallKind::kLaunch, v1::OUTCOME_INFEASIBLE_LAUNCH, false},
      {CUDA_ERROR_NO_BINARY_FOR_GPU, CallKind::kLoad, v1::OUTCOME_LOAD_ERROR, false},
      {CUDA_ERROR_INVALID_IMAGE, CallKind::kLoad, v1::OUTCOME_LOAD_ERROR, false},
      {CUDA_ERROR_NOT_FOUND, CallKind::kLoad, v1::OUTCOME_LOAD_ERROR, false},
      {CUDA_ERROR_OUT_OF_MEMORY, CallKind::kMachinery, v1::OUTCOME_OUT_OF_MEMORY, false},
      {CUDA_ERROR_OUT_OF_MEMORY, CallKind::kLaunch, v1::OUTCOME_OUT_OF_MEMORY, false},
      {CUDA_ERROR_ECC_UNCORRECTABLE, CallKind::kMachinery, v1::OUTCOME_RUN_CRASH, true},
      {CUDA_ERROR_UNKNOWN, CallKind::kMachinery, v1::OUTCOME_LOST, true},
      {123456, CallKind::kLaunch, v1::OUTCOME_LOST, false},
  };
  for (const ErrorCase& test : cases) {
    const ErrorMeaning meaning = MeaningOf(test.error, test.kind);
    EXPECT_EQ(v1::Outcome_Name(meaning.outcome), v1::Outcome_Name(test.outcome)) << test.error;
    EXPECT_EQ(meaning.sticky, test.sticky) << test.error;
  }
}

TEST(OutcomeOfCudaError, StickyErrorsAreSoInEveryCall) {
  for (const int error :
       {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_ASSERT,
        CUDA_ERROR_ILLEGAL_INSTRUCTION, CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_LAUNCH_TIMEOUT}) {
    for (const CallKind kind : {CallKind::kMachinery, CallKind::kLoad, CallKind::kLaunch}) {
      const ErrorMeaning meaning = MeaningOf(error, kind);
      EXPECT_EQ(meaning.outcome, v1::OUTCOME_RUN_CRASH) << error;
      EXPECT_TRUE(meaning.sticky) << error;
    }
  }
}

constexpr const char* kLog = R"(scale.cu(3): warning #177-D: variable "x" was declared but never referenced
ptxas info    : 0 bytes gmem, 16 bytes cmem[3]
ptxas info    : Compiling entry function '_ZN1q1kILi3EEEvPf' for 'sm_90a'
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : Function properties for _ZN1q1kILi3EEEvPf
ptxas         .     800 bytes stack frame, 24 bytes spill stores, 40 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 800 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Function properties for helper
ptxas         .     16 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Compile time = 24.625 ms
ptxas info    : Compiling entry function 'e' for 'sm_90a'
ptxas info    : Function properties for e
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 356 bytes cmem[0]
)";

TEST(PtxasLog, GivesEachEntrysNeeds) {
  const std::map<std::string, PtxasUse> uses = ParsePtxasLog(kLog);
  ASSERT_EQ(uses.size(), 2u);
  const PtxasUse& first = uses.at("_ZN1q1kILi3EEEvPf");
  EXPECT_EQ(first.registers, 168);
  EXPECT_EQ(first.spill_bytes, 64);
  EXPECT_EQ(first.stack_bytes, 800);
  EXPECT_EQ(first.static_shared_bytes, 1024);
  const PtxasUse& second = uses.at("e");
  EXPECT_EQ(second.registers, 8);
  EXPECT_EQ(second.spill_bytes, 0);
  EXPECT_EQ(second.static_shared_bytes, 0);
}

TEST(PtxasLog, KeepsWarnings) {
  const std::string kept = WithoutResourceLines(kLog);
  EXPECT_THAT(kept, testing::HasSubstr("#177-D"));
  EXPECT_THAT(kept, testing::HasSubstr("(C7510)"));
  EXPECT_THAT(kept, testing::Not(testing::HasSubstr("registers")));
}

TEST(PtxasLog, SurvivesNonsense) {
  for (const char* log :
       {"", "\n\n", "ptxas info    : Compiling entry function '", "Used  registers", "Used 99999999999 registers",
        "ptxas info : Compiling entry function 'x' for\nUsed 99999999999999 registers, bytes smem"}) {
    for (const auto& [name, use] : ParsePtxasLog(log)) EXPECT_EQ(use.registers, 0) << name;
    EXPECT_EQ(FirstErrorLine(log), "");
  }
}

TEST(PtxasLog, FindsTheFirstError) {
  EXPECT_EQ(FirstErrorLine("a.cu(1): warning: x\na.cu(2): error: y\na.cu(3): error: z\n"), "a.cu(2): error: y");
  EXPECT_EQ(FirstErrorLine("ptxas error   : too much\n"), "ptxas error   : too much");
  EXPECT_EQ(FirstErrorLine("x error: " + std::string(5000, 'y')).size(), 1024u);
}

TEST(PeakRates, AreTheVendorsOfKnownDevices) {
  // 132 multiprocessors at the 1830 MHz at which the data sheet's 989 TFLOP/s hold.
  EXPECT_NEAR(PeakFlopsByUnit(90, 132, 1830).at("tensor_bf16"), 989e12, 2e12);
  EXPECT_NEAR(PeakFlopsByUnit(80, 108, 1410).at("tensor_f16"), 312e12, 1e12);
  EXPECT_NEAR(PeakFlopsByUnit(75, 40, 1590).at("fp32"), 8.1e12, 0.1e12);
  EXPECT_EQ(PeakFlopsByUnit(75, 40, 1590).count("tensor_bf16"), 0u);
  EXPECT_TRUE(PeakFlopsByUnit(61, 20, 1500).empty());
  EXPECT_TRUE(PeakFlopsByUnit(90, 132, 0).empty());
  EXPECT_NEAR(PeakBytesPerSecond(3201, 6144), 4.9e12, 0.1e12);
}

TEST(Uuid, IsWrittenAsTheDriverWritesIt) {
  CUuuid uuid;
  for (int i = 0; i < 16; ++i) uuid.bytes[i] = static_cast<char>(0xf0 + i);
  EXPECT_EQ(UuidText(uuid, false), "GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
  EXPECT_EQ(UuidText(uuid, true), "MIG-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
}

}  // namespace
}  // namespace tunefarm::cuda
