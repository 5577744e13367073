#include "server/exec/phase_timer.h"

#include <gtest/gtest.h>

#include "server/measure/energy.h"

namespace tunefarm {
namespace {

TEST(PhaseDeadlines, MeasuringHasItsTimeBudgetsAndThatOfAnEnergy) {
  const PhaseDeadlines deadlines;
  v1::MeasurementPolicy policy;
  const int none = DeadlineOf(v1::PHASE_MEASURE, WorkerRole::kRun, deadlines, policy);
  EXPECT_EQ(none, deadlines.measure_grace_ms + 4 * deadlines.first_launch_ms);
  policy.set_time_budget_ms(700);
  EXPECT_EQ(DeadlineOf(v1::PHASE_MEASURE, WorkerRole::kRun, deadlines, policy), none + 1400);
  policy.set_measure_energy(true);
  EXPECT_EQ(DeadlineOf(v1::PHASE_MEASURE, WorkerRole::kRun, deadlines, policy), none + 1400 + kEnergyMsMax);
  EXPECT_EQ(DeadlineOf(v1::PHASE_VERIFY, WorkerRole::kRun, deadlines, policy),
            deadlines.verify_ms + deadlines.first_launch_ms);
}

}  // namespace
}  // namespace tunefarm
