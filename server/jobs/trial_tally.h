// TrialTally: what was reported and looked up since the daemon started, for the metrics. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/base/mutex.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

struct TrialCounts {
  std::map<tunefarm::v1::Outcome, int64_t> by_outcome;
  std::map<std::string, double> busy_ms_by_device;  // by UUID
  int64_t reused = 0;
  int64_t lookups = 0;
};

class TrialTally {
 public:
  void Add(const std::vector<tunefarm::v1::Trial>& trials) LOCKS_EXCLUDED(mutex_);
  void AddLookups(int64_t count) LOCKS_EXCLUDED(mutex_);
  TrialCounts counts() const LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  TrialCounts counts_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
