// Whether a study can find earlier measurements at all: a trial is taken over only from another study of the same
// program, problem and device class, and most studies have none. Asked before each claim's keys are looked up, which
// in a farm of short trials would be half of the database's work (tests/bench/farm_load).
//
// Answers are of what the store said at most kKept ago: a study that began meanwhile, whose first results another one
// could have taken over, is seen that much later, and costs measurements that are done twice.
//
// Thread-safe. The store and the clock outlive it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/store/store.h"

namespace tunefarm {

class OtherStudies {
 public:
  static constexpr Duration kKept = std::chrono::seconds(5);
  static constexpr size_t kProgramsMax = 64;

  // `studies_max`: so many are read of a program, and where there are as many, Exist says yes.
  OtherStudies(Store* store, Clock* clock, int studies_max = 1'000)
      : store_(store), clock_(clock), studies_max_(studies_max) {}

  // Whether a study beside this one has handed out trials for the problem on devices of the class. The store's errors.
  absl::StatusOr<bool> Exist(int64_t study_id, const std::string& program_digest, const std::string& problem_key,
                             const std::string& class_id) LOCKS_EXCLUDED(mutex_);

 private:
  struct Program {
    bool is_whole = false;  // all its studies are here
    std::set<int64_t> studies;
    std::map<std::pair<std::string, std::string>, std::set<int64_t>> by_problem;  // and class
    MonotonicTime read{};
  };
  // As the store has it, no older than kKept, and with the study if it has handed out trials.
  absl::StatusOr<const Program*> Load(const std::string& program_digest, int64_t study_id)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Store* const store_;
  Clock* const clock_;
  const int studies_max_;
  Mutex mutex_;
  std::map<std::string, Program> programs_ GUARDED_BY(mutex_);  // by digest
};

}  // namespace tunefarm
