// Rows of what a farm shares through its store: agents and their leases, named leases, and who drives which job. Plain
// values; who writes them is said at Store's methods. How long a lease still runs is the database's own time: clocks of
// agents and of other daemons do not matter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tunefarm {

enum class JobState { kQueued = 1, kRunning, kPaused, kCancelling, kSucceeded, kFailed, kCancelled };
inline bool IsTerminal(JobState s) {
  return s == JobState::kSucceeded || s == JobState::kFailed || s == JobState::kCancelled;
}

struct AgentRegistration {
  std::string agent_id;
  std::string host;      // for people
  std::string detail;    // opaque: devices, version, labels; at most 1 MiB
  int64_t lease_ms = 0;  // 0: no lease, it lives until it is released
  int64_t now_ms = 0;
};
struct AgentRow {
  std::string agent_id, host, detail;
  int64_t epoch = 0;
  bool draining = false;  // it is given nothing more
  int64_t registered_at_ms = 0;
  std::optional<int64_t> lease_left_ms;  // none: no lease; 0 or less: run out, and not reaped yet
};

struct LeaseRequest {
  std::string name, holder;  // 1 to 256 bytes each
  std::string detail;        // opaque, the holder's to fill; at most 64 KiB
  int64_t lease_ms = 0;      // from now
};
struct LeaseRow {
  std::string name, holder, detail;
  int64_t epoch = 0;    // grows with every change of the holder
  int64_t left_ms = 0;  // 0 or less: run out
  // Of TakeLease: the detail that was there before, also of a lease that had run out; empty: there was none. Who takes
  // a lease again and again sees by it whether the database has forgotten the last time.
  std::string detail_before = {};
};

// What a person last said of a device.
struct DeviceOrderRow {
  std::string device_uuid;            // 1 to 256 bytes
  std::string held_out;               // why it is out of service, at most 1024 bytes; empty: released
  int64_t accepted_sentinels_ms = 0;  // released although its sentinels, measured then, deviate; 0: none are accepted
  int64_t set_at_ms = 0;
  int64_t revision = 0;  // grows with each order for the device; of what is set ignored
};
// Of released devices the newest are kept; who was held out stays so.
inline constexpr int kReleasedDevicesKept = 1024;

// A control daemon of a farm is a node. Node N lives as long as it holds the lease "node/N".
inline constexpr char kNodeLeasePrefix[] = "node/";

struct DrivenJob {
  int64_t job_id = 0;
  int64_t driver_epoch = 0;
};
struct JobStateRow {
  int64_t job_id = 0;
  JobState state = JobState::kQueued;
  std::string error;
  std::string driver;  // the node that drives it; empty: none
  int64_t driver_epoch = 0;
  int64_t claimed_units = 0;  // of a CANCELLING job: units that agents hold; of others not counted
};

}  // namespace tunefarm
