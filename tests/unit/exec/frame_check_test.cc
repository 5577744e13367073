#include "server/exec/frame_check.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "server/exec/frame_limits.h"

namespace tunefarm {
namespace {

using namespace tunefarm::v1;          // NOLINT(google-build-using-namespace)
using namespace tunefarm::worker::v1;  // NOLINT(google-build-using-namespace)

Result GoodRun() {
  Result result;
  result.set_outcome(OUTCOME_OK);
  result.set_phase(PHASE_MEASURE);
  result.mutable_measurement()->set_median_ns(5);
  result.mutable_measurement()->set_samples(1);
  return result;
}

TEST(FrameCheck, AcceptsGoodFrames) {
  EXPECT_EQ(CheckResult(GoodRun(), WorkerRole::kRun, 0, true), "");
  Result compiled;
  compiled.set_outcome(OUTCOME_OK);
  compiled.set_has_artifact(true);
  EXPECT_EQ(CheckResult(compiled, WorkerRole::kCompile, 1, false), "");
  Hello hello;
  hello.set_version(kFrameProtocolVersion);
  hello.set_role("run");
  hello.set_backend("cuda");
  EXPECT_EQ(CheckHello(hello, WorkerRole::kRun, "cuda"), "");
  EXPECT_NE(CheckHello(hello, WorkerRole::kRun, "host"), "");
  EXPECT_NE(CheckHello(hello, WorkerRole::kCompile, "cuda"), "");
}

TEST(FrameCheck, RefusesEachBadField) {
  const std::function<void(Result*)> spoilers[] = {
      [](Result* r) { r->set_outcome(static_cast<Outcome>(77)); },
      [](Result* r) { r->set_outcome(OUTCOME_UNSPECIFIED); },
      [](Result* r) { r->set_outcome(OUTCOME_POISONED); },
      [](Result* r) { r->set_phase(static_cast<Phase>(77)); },
      [](Result* r) { r->set_message(std::string(kFrameMessageBytesMax + 1, 'x')); },
      [](Result* r) { r->set_log(std::string(kFrameLogBytesMax + 1024, 'x')); },
      [](Result* r) { r->set_has_artifact(true); },
      [](Result* r) { r->set_compile_ms(-1); },
      [](Result* r) { r->mutable_measurement()->set_median_ns(std::numeric_limits<double>::infinity()); },
      [](Result* r) { r->mutable_measurement()->set_median_ns(0); },
      [](Result* r) { r->mutable_measurement()->set_samples(-1); },
      [](Result* r) { r->mutable_measurement()->set_discarded_samples(-1); },
      [](Result* r) { r->mutable_measurement()->set_input_copies(-1); },
      [](Result* r) { r->mutable_measurement()->set_power_watts(std::numeric_limits<double>::quiet_NaN()); },
      [](Result* r) { r->mutable_measurement()->set_device_busy_ms(-1); },
      [](Result* r) { r->mutable_measurement()->mutable_energy()->set_millijoules(-1); },
      [](Result* r) {
        r->mutable_measurement()->mutable_energy()->set_ci_high_millijoules(std::numeric_limits<double>::infinity());
      },
      [](Result* r) { r->mutable_measurement()->mutable_energy()->set_batches(-1); },
      [](Result* r) {
        r->mutable_measurement()->mutable_energy()->set_missing_because(std::string(kFrameMessageBytesMax + 1, 'x'));
      },
      [](Result* r) { r->set_device_busy_ms(std::numeric_limits<double>::infinity()); },
      [](Result* r) { r->mutable_measurement()->add_sample_ns(-1); },
      [](Result* r) {
        for (int i = 0; i < 4097; ++i) r->mutable_measurement()->add_sample_ns(1);
      },
      [](Result* r) { r->mutable_measurement()->add_yardstick_ns(1); },
      [](Result* r) {
        r->mutable_measurement()->add_sample_ns(1);
        r->mutable_measurement()->add_yardstick_ns(std::numeric_limits<float>::quiet_NaN());
      },
      [](Result* r) {
        for (int i = 0; i < 65; ++i) r->mutable_measurement()->add_blocks();
      },
      [](Result* r) { r->mutable_measurement()->add_blocks()->set_samples(-1); },
      [](Result* r) { r->mutable_measurement()->add_blocks()->set_power_watts(-1); },
      [](Result* r) { r->mutable_measurement()->add_blocks()->set_throttle_reason(std::string(300, 'x')); },
      [](Result* r) { r->mutable_measurement()->set_duty_cycle(1.5); },
      [](Result* r) { r->mutable_measurement()->set_clock_normalized_ns(-1); },
      [](Result* r) { r->mutable_measurement()->set_discard_reason(std::string(300, 'x')); },
      [](Result* r) { r->mutable_resources()->set_registers(-1); },
      [](Result* r) {
        for (int i = 0; i < 9; ++i) r->mutable_verification()->add_first_mismatches();
      },
  };
  for (size_t i = 0; i < std::size(spoilers); ++i) {
    Result result = GoodRun();
    spoilers[i](&result);
    EXPECT_NE(CheckResult(result, WorkerRole::kRun, 0, true), "") << i;
  }
  EXPECT_NE(CheckResult(GoodRun(), WorkerRole::kRun, 1, true), "") << "a descriptor that belongs to nothing";
  Result compiled;
  compiled.set_outcome(OUTCOME_OK);
  EXPECT_NE(CheckResult(compiled, WorkerRole::kCompile, 0, false), "") << "no binary";
  Result told = compiled;
  told.set_has_artifact(true);
  told.add_compile_options(std::string(kFrameOptionsBytesMax, 'o'));
  EXPECT_EQ(CheckResult(told, WorkerRole::kCompile, 1, false), "it named 32769 bytes of options");
  compiled.set_outcome(OUTCOME_WRONG_RESULT);
  EXPECT_NE(CheckResult(compiled, WorkerRole::kCompile, 0, false), "") << "a compiler that verifies";
}

TEST(FrameCheck, Prepared) {
  Prepared prepared;
  EXPECT_NE(CheckPrepared(prepared, WorkerRole::kRun), "") << "failed without a reason";
  prepared.set_outcome(OUTCOME_OUT_OF_MEMORY);
  EXPECT_EQ(CheckPrepared(prepared, WorkerRole::kRun), "");
  prepared.set_outcome(OUTCOME_OK);
  EXPECT_NE(CheckPrepared(prepared, WorkerRole::kRun), "");
  prepared.set_ok(true);
  EXPECT_EQ(CheckPrepared(prepared, WorkerRole::kRun), "");
  EXPECT_NE(CheckPrepared(prepared, WorkerRole::kRun, 1), "") << "a descriptor that belongs to nothing";
  prepared.set_has_expected_outputs(true);
  EXPECT_NE(CheckPrepared(prepared, WorkerRole::kRun, 0), "");
  EXPECT_EQ(CheckPrepared(prepared, WorkerRole::kRun, 1), "");
  EXPECT_NE(CheckPrepared(prepared, WorkerRole::kCompile, 1), "");
  prepared.set_footprint_bytes(-1);
  EXPECT_NE(CheckPrepared(prepared, WorkerRole::kRun, 1), "");
}

TEST(FrameCheck, HealthReport) {
  HealthReport report;
  EXPECT_EQ(CheckHealthReport(report), "");
  report.set_ok(true);
  EXPECT_NE(CheckHealthReport(report), "") << "sound without a time";
  report.set_nanoseconds(1000);
  report.set_foreign_processes(-1);
  EXPECT_EQ(CheckHealthReport(report), "");
  report.set_foreign_processes(-2);
  EXPECT_NE(CheckHealthReport(report), "");
  report.set_foreign_processes(0);
  report.set_nanoseconds(-1);
  EXPECT_NE(CheckHealthReport(report), "");
}

}  // namespace
}  // namespace tunefarm
