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

void TrialTally::AddBadLookup() {
  MutexLock lock(&mutex_);
  ++counts_.lookups;
}

void TrialTally::AddLookups(std::span<const int> matches) {
  MutexLock lock(&mutex_);
  counts_.lookups += static_cast<int64_t>(matches.size());
  for (const int match : matches) ++counts_.answers[static_cast<size_t>(match)];
}

TrialCounts TrialTally::counts() const {
  MutexLock lock(&mutex_);
  return counts_;
}

}  // namespace tunefarm
