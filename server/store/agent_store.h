// AgentStore: agents, their epochs and their leases, which run by the database's own clock: clocks of agents and of
// other daemons do not matter. Threads and errors: as Store (store.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tunefarm {

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

class AgentStore {
 public:
  virtual ~AgentStore() = default;

  // A fresh epoch for a new agent process. What an earlier process of the same id held goes back to the queue.
  virtual absl::StatusOr<int64_t> RegisterAgent(const AgentRegistration& agent) = 0;
  // Its lease runs lease_ms (at least 1) from now, also one that had run out and was not reaped yet; `detail` replaces
  // what was registered. FailedPrecondition (AGENT_EPOCH) if the epoch has ended.
  virtual absl::StatusOr<AgentRow> RenewAgent(std::string_view agent_id, int64_t epoch, int64_t lease_ms,
                                              const std::optional<std::string>& detail) = 0;
  // None: it never registered, or its epoch has ended.
  virtual absl::StatusOr<std::optional<AgentRow>> FindAgent(std::string_view agent_id) = 0;
  // Those whose epoch has not ended, by id.
  virtual absl::StatusOr<std::vector<AgentRow>> ListAgents() = 0;
  // ClaimUnits gives a draining agent nothing. NotFound as FindAgent answers none.
  virtual absl::Status SetAgentDraining(std::string_view agent_id, bool draining) = 0;
  // Returns an agent's units to READY, behind a new claim order, and ends its epoch. Units of ended studies are
  // removed. `was_lost`: it did not leave in order, and one of its units may be why.
  virtual absl::Status ReleaseAgent(std::string_view agent_id, int64_t now_ms, bool was_lost = false) = 0;
  // The same for all agents without a lease but those named: what a restarted daemon does first. Returns how many units
  // were returned.
  virtual absl::StatusOr<int64_t> ReleaseOtherAgents(const std::vector<std::string>& keep, int64_t now_ms) = 0;
  // The same for all agents whose lease has run out, which were lost; answers their ids.
  virtual absl::StatusOr<std::vector<std::string>> ReapAgents(int64_t now_ms) = 0;
};

}  // namespace tunefarm
