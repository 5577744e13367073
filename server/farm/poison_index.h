// Which configs are known to crash or hang, and for whom. A config that crashed for two problems is poisonous for all.
//
// Thread-safe. The store outlives it.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/store/store.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

// Whether an outcome says that running the config again would cost a runner or a timeout.
bool Poisons(tunefarm::v1::Outcome outcome);

// What a trial is filed under.
struct PoisonKey {
  std::string program_digest, class_id, toolkit, problem_key;
};

class PoisonIndex {
 public:
  // Both outlive it. Other daemons record crashes in the store too: what was read is read again after kKept.
  PoisonIndex(Store* store, Clock* clock) : store_(store), clock_(clock) {}

  // The store's errors.
  absl::StatusOr<bool> IsPoisoned(const PoisonKey& key, const std::string& config);
  absl::Status Record(const PoisonKey& key, const std::string& config, tunefarm::v1::Outcome outcome);

 private:
  static constexpr size_t kProgramsMax = 64;
  static constexpr Duration kKept = std::chrono::seconds(5);

  // (toolkit, config) to the problems it crashed for.
  using Crashes = std::map<std::pair<std::string, std::string>, std::set<std::string>>;
  absl::StatusOr<Crashes*> Load(const PoisonKey& key) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  struct Program {
    Crashes crashes;
    MonotonicTime read{};
  };

  Store* const store_;
  Clock* const clock_;
  Mutex mutex_;
  std::map<std::pair<std::string, std::string>, Program> programs_ GUARDED_BY(mutex_);  // by (program, class)
};

}  // namespace tunefarm
