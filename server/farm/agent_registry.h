// AgentRegistry: the agents that this daemon serves: how they register, keep their leases, are waked, and go.
//
// Nothing here matters that the store does not hold: an agent that is not known, because this daemon was restarted
// or because the agent talked to another one last, is read from the store, as long as its lease runs.
//
// Thread-safe. Calls that return a status read or write the store and block meanwhile. Hooks are called on the caller's
// thread with no lock held.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/farm/agent_wakes.h"
#include "server/farm/claims.h"
#include "server/farm/device_directory.h"
#include "server/farm/link_hooks.h"
#include "server/store/agent_store.h"
#include "server/store/store.h"
#include "tunefarm/agent/v1/agent.pb.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {

class AgentRegistry {
 public:
  struct Options {
    std::string control_id;           // of this process; never the same twice
    int64_t agent_lease_ms = 30'000;  // of agents on other machines
    // Of the agent in this process, where other daemons share the store and may outlive it; 0: it ends with the
    // process.
    int64_t own_agent_lease_ms = 0;
  };
  // What is known of an agent on another machine that this daemon serves, beside what the store says.
  struct View {
    int64_t clock_skew_ms = 0;  // its wall clock less ours, when it was heard last
    Duration silent = Duration::zero();
    int units = 0;
  };
  struct Agent {
    int64_t epoch = 0;
    bool is_remote = false;  // it is on another machine
    bool draining = false;
    bool hungry = false;            // it wants more than it got
    std::set<std::string> classes;  // of its devices
    int64_t lease_ms = 0;           // 0: it ends with this process
    MonotonicTime renewed{};        // its lease
    MonotonicTime heard{};
    MonotonicTime rests_until{};  // it was offered what it may not run
    int64_t clock_skew_ms = 0;
    tunefarm::agent::v1::RegisterRequest about;  // as stored
    std::set<std::string> released;              // devices; until it has been told
  };
  enum class Renewal { kOver, kNotDue, kRenewed };  // kOver: of its epoch

  // All outlive it. Claims of agents that are gone are erased.
  AgentRegistry(Store* store, Clock* clock, DeviceDirectory* devices, Claims* claims, const LinkHooks* hooks,
                Options options);

  const Options& options() const { return options_; }

  // --- registration ---
  // InvalidArgument (AGENT_INVALID) for what cannot be stored; FailedPrecondition (DEVICE_TAKEN).
  absl::StatusOr<tunefarm::agent::v1::RegisterResponse> Register(const tunefarm::agent::v1::RegisterRequest& request)
      LOCKS_EXCLUDED(mutex_);
  // It has ended in order. Nothing if its epoch has ended before.
  absl::Status Deregister(const tunefarm::agent::v1::DeregisterRequest& request) LOCKS_EXCLUDED(mutex_);
  // Its epoch is over: what is remembered of it goes, and its claims.
  void Lose(const std::string& agent_id) LOCKS_EXCLUDED(mutex_);
  // The agent as the store has it, with its devices known from now on; none, and lost: the epoch is not the store's.
  absl::StatusOr<std::optional<Agent>> Read(const std::string& agent_id, int64_t epoch) LOCKS_EXCLUDED(mutex_);
  // It is served here from now on.
  void Put(Agent agent) LOCKS_EXCLUDED(mutex_);
  // None is.
  void Clear() LOCKS_EXCLUDED(mutex_);
  // See ControlLink::RefreshAgents.
  absl::Status Refresh(bool reap) LOCKS_EXCLUDED(mutex_);

  // --- questions ---
  bool Has(const std::string& agent_id) const LOCKS_EXCLUDED(mutex_);
  std::optional<Agent> Find(const std::string& agent_id) const LOCKS_EXCLUDED(mutex_);
  size_t size() const LOCKS_EXCLUDED(mutex_);
  // Agents in this process.
  std::vector<std::string> Own() const LOCKS_EXCLUDED(mutex_);
  std::map<std::string, View> Views() const LOCKS_EXCLUDED(mutex_);
  // How long results gather at the agents of a farm of so many: all together report some 250 times a second.
  int gather_ms() const { return gather_ms_.load(std::memory_order_relaxed); }
  // Whether its trials say of which headers their binaries were made (Trial.headers): those of older versions seem to
  // have none.
  bool SaysHeaders(const std::string& agent_id) const LOCKS_EXCLUDED(mutex_);
  static bool SaysHeaders(const tunefarm::agent::v1::RegisterRequest& about);
  // Why the agent's workers may not run the job's units: isolation, language or Triton's release.
  absl::Status CheckMayRun(const std::string& agent_id, const Claim& claim, const tunefarm::v1::Job& spec) const
      LOCKS_EXCLUDED(mutex_);

  // --- a call of Synchronize ---
  // Takes in what it says of its devices and its clock, and renews its lease when that is due.
  absl::StatusOr<Renewal> Renew(const tunefarm::agent::v1::SynchronizeRequest& request) LOCKS_EXCLUDED(mutex_);
  // Whether the agent may be given units now. Adds the devices that it is to release. Unavailable: it is not known.
  absl::StatusOr<bool> Ask(const tunefarm::agent::v1::SynchronizeRequest& request,
                           tunefarm::agent::v1::SynchronizeResponse* response) LOCKS_EXCLUDED(mutex_);
  // It has got all that it asked for.
  void Sate(const std::string& agent_id) LOCKS_EXCLUDED(mutex_);
  // It was offered what it may not run, and is given nothing for a while, so that others come first.
  void Rest(const std::string& agent_id) LOCKS_EXCLUDED(mutex_);
  void ReleaseDevice(const std::string& agent_id, const std::string& device_uuid) LOCKS_EXCLUDED(mutex_);

  // --- wakes: see ControlLink ---
  void SetWake(std::function<void()> wake) LOCKS_EXCLUDED(wake_mutex_);
  void Wake() LOCKS_EXCLUDED(mutex_, wake_mutex_);
  void WakeFor(const std::string& class_id, size_t units) LOCKS_EXCLUDED(mutex_, wake_mutex_);
  void WakeThese(const std::set<std::string>& agent_ids) LOCKS_EXCLUDED(mutex_, wake_mutex_);
  void WakeAll() LOCKS_EXCLUDED(wake_mutex_);
  uint64_t Wait(const tunefarm::agent::v1::WaitRequest& request,
                std::function<void(tunefarm::agent::v1::WaitResponse)> done);
  void ExpireWait(const std::string& agent_id, uint64_t ticket) { wakes_.Expire(agent_id, ticket); }
  // A call that waits is waked, now and whenever it waits again.
  void CloseWaits() { wakes_.Close(); }

 private:
  // Of an agent that registers, or is read.
  Agent AgentOf(const tunefarm::agent::v1::RegisterRequest& about) const;
  // The agent's devices are known here from now on.
  absl::Status NoteDevices(const Agent& agent);
  // The devices of an agent on another machine: first in the store, then in the directory.
  absl::Status Bring(const tunefarm::agent::v1::RegisterRequest& about);
  void NoteChangedDevices(const tunefarm::agent::v1::SynchronizeRequest& request) LOCKS_EXCLUDED(mutex_);
  // Takes in one that the store lists; `is_shown`: its devices are.
  absl::Status NoteListed(const AgentRow& row, bool is_shown) LOCKS_EXCLUDED(mutex_);
  // False: it is not known.
  template <typename F>
  bool Change(const std::string& agent_id, F change) LOCKS_EXCLUDED(mutex_);
  void WakeOwn() LOCKS_EXCLUDED(wake_mutex_);

  Store* const store_;
  Clock* const clock_;
  DeviceDirectory* const devices_;
  Claims* const claims_;
  const LinkHooks* const hooks_;
  const Options options_;

  mutable Mutex mutex_;
  std::map<std::string, Agent> agents_ GUARDED_BY(mutex_);  // by id
  std::string woken_last_ GUARDED_BY(mutex_);               // agent
  std::atomic<int> gather_ms_{0};

  AgentWakes wakes_;  // of agents on other machines
  Mutex wake_mutex_;  // of the agent in this process; held while the function runs, so that SetWake waits for it
  std::function<void()> wake_ GUARDED_BY(wake_mutex_);
};

}  // namespace tunefarm
