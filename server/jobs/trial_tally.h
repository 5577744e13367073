// TrialTally: what was reported and looked up since the daemon started, for the metrics. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "server/base/mutex.h"
#include "tunefarm/v1/best_config.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

struct TrialCounts {
  std::map<tunefarm::v1::Outcome, int64_t> by_outcome;
  std::map<std::string, double> busy_ms_by_device;  // by UUID
  int64_t reused = 0;
  int64_t lookups = 0;
  std::array<int64_t, tunefarm::v1::Match_ARRAYSIZE> answers{};  // to look-ups that were well formed, by Match
};

class TrialTally {
 public:
  void Add(const std::vector<tunefarm::v1::Trial>& trials) LOCKS_EXCLUDED(mutex_);
  // One that found no answer to give, since it was not well formed.
  void AddBadLookup() LOCKS_EXCLUDED(mutex_);
  // By how well they were answered, each a Match.
  void AddLookups(std::span<const int> matches) LOCKS_EXCLUDED(mutex_);
  TrialCounts counts() const LOCKS_EXCLUDED(mutex_);

 private:
  mutable Mutex mutex_;
  TrialCounts counts_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
