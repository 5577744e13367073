// ArrivingUnits: units that are DONE in the store and whose results are on their way to the scheduler. What is found in
// the store meanwhile is not taken for news. Thread-safe.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "server/base/mutex.h"

namespace tunefarm {

class ArrivingUnits {
 public:
  void Add(int64_t unit_id) {
    MutexLock lock(&mutex_);
    units_.insert(unit_id);
  }
  void Remove(int64_t unit_id) {
    MutexLock lock(&mutex_);
    units_.erase(unit_id);
  }
  bool Has(int64_t unit_id) const {
    MutexLock lock(&mutex_);
    return units_.count(unit_id) > 0;
  }
  std::vector<int64_t> List() const {
    MutexLock lock(&mutex_);
    return {units_.begin(), units_.end()};
  }

 private:
  mutable Mutex mutex_;
  std::set<int64_t> units_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
