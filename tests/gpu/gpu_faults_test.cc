// What configs do wrong, and the outcome that each must get.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/gpu/kernel_bench.h"

extern char** environ;

namespace tunefarm {
namespace {

using tunefarm::worker::v1::Result;

constexpr const char* kDefinition = R"pb(
  display_name: "tiny"
  language: LANGUAGE_CUDA
  sources { path: "tiny.cu" }
  dims {
    name: "N"
    default_value { int_value: 100001 }
  }
  parameters {
    name: "MODE"
    values {
      strings: [
        "good",
        "wrong",
        "oob",
        "oob_before",
        "input_write",
        "unwritten",
        "nan_output",
        "stateful",
        "too_much_shared",
        "too_many_threads",
        "compile_error",
        "huge_scratch",
        "illegal_address",
        "misaligned",
        "trap"
      ]
    }
  }
  arguments {
    name: "x"
    buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN }
  }
  arguments {
    name: "y"
    buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT }
  }
  arguments {
    name: "state"
    buffer {
      data_type: DATA_TYPE_I32
      length: "2 ** 40 if MODE == 'huge_scratch' else 4"
      access: ACCESS_SCRATCH
      init: INIT_ZERO
    }
  }
  arguments {
    name: "n"
    scalar { data_type: DATA_TYPE_I64 value: "N" }
  }
  arguments {
    name: "zero"
    scalar { data_type: DATA_TYPE_I32 value: "0" }
  }
  launches {
    kernel {
      entry: "tiny"
      grid: "ceil_div(N, 128)"
      block: "1024 + kernel.registers if MODE == 'too_many_threads' else 128"
      dynamic_shared_bytes: "2 ** 20 + kernel.static_shared_bytes if MODE == 'too_much_shared' else 0"
      arguments: [ "x", "y", "state", "n", "zero" ]
    }
  }
  reference {
    steps {
      kernel {
        entry: "reference"
        grid: "ceil_div(N, 128)"
        block: "128"
        arguments: [ "x", "y", "n" ]
      }
    }
  }
  tolerance { atol: 0 rtol: 0 }
  bytes: "8 * N"
)pb";

constexpr const char* kSource = R"cu(
#if defined(MODE_compile_error)
#error "asked for"
#endif
extern "C" __global__ void tiny(const float* x, float* y, int* state, long long n, int zero) {
  const long long i = blockIdx.x * 128ll + threadIdx.x;
#if defined(MODE_unwritten)
  if (i < n - 1) y[i] = 2.0f * x[i];
#else
  if (i < n) y[i] = 2.0f * x[i];
#endif
  if (i != n / 2) return;
#if defined(MODE_wrong)
  y[i] += 1.0f;
#elif defined(MODE_oob)
  y[n + 5 + zero] = 1.0f;
#elif defined(MODE_oob_before)
  y[-1 - zero] = 1.0f;
#elif defined(MODE_input_write)
  const_cast<float*>(x)[i] += 1.0f;
#elif defined(MODE_nan_output)
  y[i] = __int_as_float(0x7fc00000);
#elif defined(MODE_stateful)
  static __device__ int launches;
  if (++launches > 3) y[i] += 1.0f;
#elif defined(MODE_illegal_address)
  *reinterpret_cast<volatile float*>(static_cast<unsigned long long>(zero) + 0x10000) = 1.0f;
#elif defined(MODE_misaligned)
  *reinterpret_cast<volatile float*>(reinterpret_cast<char*>(y) + 2 + zero) = 1.0f;
#elif defined(MODE_trap)
  asm volatile("trap;");
#endif
}
extern "C" __global__ void reference(const float* x, float* y, long long n) {
  const long long i = blockIdx.x * 128ll + threadIdx.x;
  if (i < n) y[i] = 2.0f * x[i];
}
)cu";

class Faults : public testing::Test {
 protected:
  Faults() : bench_(kDefinition, {{"tiny.cu", kSource}}) {}
  void SetUp() override { ASSERT_TRUE(bench_.ok()) << bench_.prepared().message(); }

  // The fault gets its outcome, and what it broke is repaired: the next trial is right.
  void Expect(const std::string& mode, v1::Outcome outcome, const std::string& message) {
    const Result result = bench_.Run("MODE=" + mode);
    EXPECT_EQ(v1::Outcome_Name(result.outcome()), v1::Outcome_Name(outcome)) << mode << ": " << result.message();
    EXPECT_NE(result.message().find(message), std::string::npos) << mode << ": " << result.message();
    // Inputs that a config changed are rebuilt by a fresh worker, within its own deadline.
    EXPECT_EQ(result.worker_is_damaged(), mode == "input_write") << mode;
    const Result good = bench_.Run("MODE=good");
    EXPECT_EQ(v1::Outcome_Name(good.outcome()), "OUTCOME_OK") << "after " << mode << ": " << good.message();
  }

  KernelBench bench_;
};

TEST_F(Faults, AGoodConfigIsVerifiedAndMeasured) {
  bench_.input.keep_samples = true;
  const Result result = bench_.Run();
  ASSERT_EQ(v1::Outcome_Name(result.outcome()), "OUTCOME_OK") << result.message();
  EXPECT_EQ(result.phase(), v1::PHASE_MEASURE);
  EXPECT_EQ(result.verification().elements(), 100001u);
  EXPECT_EQ(result.verification().mismatches(), 0u);
  const v1::Measurement& time = result.measurement();
  EXPECT_GE(time.samples(), 10);
  EXPECT_EQ(time.sample_ns_size(), time.samples());
  EXPECT_GT(time.median_ns(), 100);
  EXPECT_LT(time.median_ns(), 1e6);
  EXPECT_EQ(time.method(), v1::TIMING_METHOD_CUDA_GRAPH);
  EXPECT_TRUE(time.cold_cache());
  EXPECT_GT(result.resources().registers(), 0);
  EXPECT_GT(result.resources().blocks_per_sm(), 0);
}

TEST_F(Faults, AWarmCacheIsFasterThanAFlushedOne) {
  const Result cold = bench_.Run();
  bench_.input.policy.set_warm_cache(true);
  const Result warm = bench_.Run();
  ASSERT_EQ(v1::Outcome_Name(warm.outcome()), "OUTCOME_OK") << warm.message();
  EXPECT_GT(warm.measurement().launches_per_sample(), 1);
  EXPECT_LT(warm.measurement().median_ns(), cold.measurement().median_ns());
}

TEST_F(Faults, VerifyOnlyMeasuresNothing) {
  bench_.input.verify_only = true;
  const Result result = bench_.Run();
  EXPECT_EQ(result.outcome(), v1::OUTCOME_OK) << result.message();
  EXPECT_FALSE(result.has_measurement());
}

TEST_F(Faults, WrongResults) {
  Expect("wrong", v1::OUTCOME_WRONG_RESULT, "y[50000]");
  Expect("nan_output", v1::OUTCOME_WRONG_RESULT, "y[50000] is nan");
  Expect("unwritten", v1::OUTCOME_WRONG_RESULT, "y[100000] was never written");
}

TEST_F(Faults, AKernelThatKeepsStateIsCaughtAfterTiming) {
  Expect("stateful", v1::OUTCOME_WRONG_RESULT, "After timing");
}

TEST_F(Faults, WritesOutside) {
  Expect("oob", v1::OUTCOME_OUT_OF_BOUNDS, "buffer y was written, 20 bytes past its end");
  Expect("oob_before", v1::OUTCOME_OUT_OF_BOUNDS, "buffer y was written, 1 bytes before its start");
  Expect("input_write", v1::OUTCOME_OUT_OF_BOUNDS, "Input buffer x was changed");
}

TEST_F(Faults, LaunchesThatCannotBe) {
  Expect("too_much_shared", v1::OUTCOME_INFEASIBLE_LAUNCH, "1048576 bytes of shared memory");
  Expect("too_many_threads", v1::OUTCOME_INFEASIBLE_LAUNCH, "CUDA_ERROR_INVALID_VALUE");
  Expect("huge_scratch", v1::OUTCOME_OUT_OF_MEMORY, "work space state of 4194304 MiB");
}

TEST_F(Faults, CompileErrorsAndBadBinaries) {
  Expect("compile_error", v1::OUTCOME_COMPILE_ERROR, "asked for");
  bench_.input.artifact = "no binary";
  QuietReporter reporter;
  Result result = TheGpu(nullptr)->run->Run(bench_.input, &reporter);
  EXPECT_EQ(v1::Outcome_Name(result.outcome()), "OUTCOME_LOAD_ERROR") << result.message();
  bench_.input.artifact =
      "\x7f"
      "ELF" +
      std::string(4096, 'x');
  result = TheGpu(nullptr)->run->Run(bench_.input, &reporter);
  EXPECT_EQ(v1::Outcome_Name(result.outcome()), "OUTCOME_LOAD_ERROR") << result.message();
  (void)bench_.Run();
  bench_.input.lowered_names["tiny"] = "missing";
  result = TheGpu(nullptr)->run->Run(bench_.input, &reporter);
  EXPECT_EQ(v1::Outcome_Name(result.outcome()), "OUTCOME_LOAD_ERROR") << result.message();
}

// These lose the process: only run in a child of the tests below.
class DISABLED_Sticky : public Faults {
 protected:
  void Expect(const std::string& mode, const std::string& name) {
    const Result result = bench_.Run("MODE=" + mode);
    EXPECT_EQ(v1::Outcome_Name(result.outcome()), "OUTCOME_RUN_CRASH") << result.message();
    EXPECT_NE(result.message().find(name), std::string::npos) << result.message();
    EXPECT_TRUE(result.worker_is_damaged());
  }
};

TEST_F(DISABLED_Sticky, IllegalAddress) { Expect("illegal_address", "CUDA_ERROR_ILLEGAL_ADDRESS"); }
TEST_F(DISABLED_Sticky, Misaligned) { Expect("misaligned", "CUDA_ERROR_MISALIGNED_ADDRESS"); }
TEST_F(DISABLED_Sticky, Trap) { Expect("trap", "CUDA_ERROR_LAUNCH_FAILED"); }

void RunInChild(const std::string& test) {
  std::string self = "gpu_worker_test", filter = "--gtest_filter=DISABLED_Sticky." + test;
  std::string all = "--gtest_also_run_disabled_tests";
  char* arguments[] = {self.data(), filter.data(), all.data(), nullptr};
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environ), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << test << ": status " << status;
}

TEST(StickyErrors, IllegalAddressDamagesTheWorker) { RunInChild("IllegalAddress"); }
TEST(StickyErrors, MisalignedAddressDamagesTheWorker) { RunInChild("Misaligned"); }
TEST(StickyErrors, TrapDamagesTheWorker) { RunInChild("Trap"); }

}  // namespace
}  // namespace tunefarm
