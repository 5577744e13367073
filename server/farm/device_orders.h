// DeviceOrders: what people say of devices - out of service for a reason, or released - as the store keeps it for all
// control daemons, whichever of them was told. Each takes it in when it begins, before it takes in an agent, and
// whenever it looks after its agents.
//
// Threads: all methods may be called from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/farm/device_directory.h"
#include "server/store/store.h"

namespace tunefarm {

class DeviceOrders {
 public:
  // The device is to serve again where an evaluator took it out; `agent_id` empty: it is one of this machine.
  using Released = std::function<void(const std::string& agent_id, const std::string& device_uuid)>;

  // All but `released` outlive it.
  DeviceOrders(Store* store, DeviceDirectory* devices, Clock* clock, Released released)
      : store_(store), devices_(devices), clock_(clock), released_(std::move(released)) {}

  // Both are stored first. The store's errors, with nothing changed.
  absl::Status HoldOut(std::string_view device_uuid, std::string_view reason) LOCKS_EXCLUDED(mutex_);
  absl::Status Release(std::string_view device_uuid) LOCKS_EXCLUDED(mutex_);

  // As the store has them now. Its errors.
  absl::Status Load() LOCKS_EXCLUDED(mutex_);
  // Load, unless it has succeeded once.
  absl::Status LoadFirst() LOCKS_EXCLUDED(mutex_);

 private:
  Store* const store_;
  DeviceDirectory* const devices_;
  Clock* const clock_;
  const Released released_;
  // Held from the question to the store until the answer is taken in: an older answer never follows a newer one.
  Mutex mutex_;
  bool is_loaded_ GUARDED_BY(mutex_) = false;
  std::map<std::string, int64_t> revisions_ GUARDED_BY(mutex_);  // of the orders taken in, by device
};

}  // namespace tunefarm
