#include "server/jobs/trial_tally.h"

#include "server/jobs/stopping_rule.h"

namespace tunefarm {

void TrialTally::Add(const std::vector<tunefarm::v1::Trial>& trials) {
  MutexLock lock(&mutex_);
  for (const tunefarm::v1::Trial& trial : trials) {
    ++counts_.by_outcome[trial.outcome()];
    if (trial.reused()) {
      ++counts_.reused;
      continue;
    }
    const double busy_ms = DeviceBusyMs(trial);
    if (busy_ms > 0 && !trial.device_uuid().empty()) counts_.busy_ms_by_device[trial.device_uuid()] += busy_ms;
  }
}

void TrialTally::AddLookups(int64_t count) {
  MutexLock lock(&mutex_);
  counts_.lookups += count;
}

TrialCounts TrialTally::counts() const {
  MutexLock lock(&mutex_);
  return counts_;
}

}  // namespace tunefarm
