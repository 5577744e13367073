// CompileDesk: what agents without devices compile for those that have some. Units that wait for a device leave their
// configs here; such an agent takes some, compiles them, and offers the binaries, which the agent that claims the unit
// finds here before it compiles. All of it only saves time: what is lost here, or was never here (another control
// daemon has it), is compiled by the agent that needs it.
//
// Thread-safe; no call blocks.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/base/clock.h"
#include "server/base/hash.h"
#include "server/base/mutex.h"
#include "server/device/device_class.h"
#include "server/store/job_rows.h"
#include "tunefarm/agent/v1/agent.pb.h"

namespace tunefarm {

class CompileDesk {
 public:
  // Of configs that wait; those of later units are left out.
  static constexpr size_t kConfigsMax = 65'536;
  static constexpr uint64_t kBinaryBytesMax = 16ull << 20;
  // Of all binaries; those used longest ago go first.
  static constexpr uint64_t kBinariesBytesMax = 256ull << 20;
  // So long after the last Take somebody is taken to compile for others.
  static constexpr Duration kUseLasts = std::chrono::seconds(30);

  struct Unit {
    int64_t unit_id = 0, job_id = 0, study_id = 0;
    int priority = 0;
    tunefarm::agent::v1::CompileTask task;
  };

  struct Counts {
    int64_t taken = 0;    // configs
    int64_t offered = 0;  // binaries
    int64_t found = 0;
  };

  explicit CompileDesk(Clock* clock) : clock_(clock) {}

  // Whether it pays to Add, and for agents with devices to ask for binaries.
  bool is_used() const LOCKS_EXCLUDED(mutex_);

  void Add(Unit unit) LOCKS_EXCLUDED(mutex_);
  // Those of the units, just stored under these ids, that are to be searched; nothing if it does not pay.
  void AddUnits(const JobRow& job, const StudyRow& study, const DeviceClass& device_class,
                const std::vector<UnitRow>& units, const std::vector<int64_t>& unit_ids) LOCKS_EXCLUDED(mutex_);
  // A device has it, or its job is over.
  void Remove(int64_t unit_id) LOCKS_EXCLUDED(mutex_);
  // Of the highest priority first, then as they came; at most so many configs, the last unit cut where they end.
  std::vector<Unit> Take(int configs) LOCKS_EXCLUDED(mutex_);

  // ResourceExhausted: it is larger than kBinaryBytesMax.
  absl::Status Offer(const Digest& key, std::string binary) LOCKS_EXCLUDED(mutex_);
  // Empty: nobody has offered it.
  std::string Find(const Digest& key) LOCKS_EXCLUDED(mutex_);

  // Since the start.
  Counts counts() const LOCKS_EXCLUDED(mutex_);

 private:
  using Place = std::pair<int64_t, int64_t>;  // less priority, unit

  Clock* const clock_;
  mutable Mutex mutex_;
  MonotonicTime used_until_ GUARDED_BY(mutex_){};
  std::map<Place, Unit> waiting_ GUARDED_BY(mutex_);
  std::unordered_map<int64_t, Place> places_ GUARDED_BY(mutex_);  // by unit
  size_t configs_ GUARDED_BY(mutex_) = 0;
  Counts counts_ GUARDED_BY(mutex_);
  std::list<std::pair<Digest, std::string>> binaries_ GUARDED_BY(mutex_);  // the one used last at the front
  std::unordered_map<Digest, std::list<std::pair<Digest, std::string>>::iterator> index_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tunefarm
