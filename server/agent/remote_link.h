// RemoteLink: an agent's way to control daemons on other machines. What takes a round trip happens behind the agent's
// back, so that its executor never waits for the network:
// - Synchronize answers at once with the answer to an earlier request, or with an empty one; when an answer has come
//   that brings something, the agent is woken and takes it with its next Synchronize. One request is under way at a
//   time, and an answer is taken before the next one is made, so that requests list what answers brought. What says
//   nothing that control does not know is sent as often as the lease needs it. Kernels of
//   new assignments are fetched before the answer is shown.
// - ReportTrials answers ACCEPTED at once. Results are gathered, those of one unit in one report, until the agent asks
//   for work or has none left, there are as many as a unit has, or the first of them is a second old, or as old as
//   control says. Then they are sent, many units in one call; while control is away
//   they go into the spool, at once and on disk, and from there to control when it is back, also in the agent's next
//   life. Units with reports that control has not taken are listed as in flight, so that nobody runs them again. Of one
//   that control calls STALE nothing more is said: the next Synchronize revokes the unit.
// - ClaimWork is one call on a thread of `calls`, of at most kAgentClaimPatience. While it is in flight, further ones
//   fail at once (Unavailable). A daemon that fails it stays the one in use.
// - A call of its own waits at control for what wakes the agent.
// Only Register, and a FetchKernel that was not foreseen, wait for control.
//
// Threads: all methods may be called from any thread. `calls`, `reports` and `waits` are three executors whose threads
// block in calls; they outlive the link or are stopped before it ends, after Cancel.
//
// Errors: ReportTrials Unavailable when the spool is full; Register and fetches those of ControlChannel.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/agent/agent_link.h"
#include "server/agent/control_list.h"
#include "server/agent/report_spool.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/base/thread.h"

namespace tunefarm {

struct RemoteLinkOptions {
  ControlList* controls = nullptr;  // outlives the link
  ReportSpool* spool = nullptr;     // likewise; used by the link alone
  Executor* calls = nullptr;
  Executor* reports = nullptr;
  Executor* waits = nullptr;
};

class RemoteLink : public AgentLink {
 public:
  explicit RemoteLink(const RemoteLinkOptions& options);
  // Nothing of it may run any more: Cancel, then stop the executors.
  ~RemoteLink() override;

  // First sends what an earlier process of this data directory left in the spool.
  absl::StatusOr<tunefarm::agent::v1::RegisterResponse> Register(
      const tunefarm::agent::v1::RegisterRequest& request) override;
  absl::StatusOr<tunefarm::agent::v1::SynchronizeResponse> Synchronize(
      const tunefarm::agent::v1::SynchronizeRequest& request) override;
  absl::StatusOr<tunefarm::agent::v1::ReportTrialsResponse> ReportTrials(
      const tunefarm::agent::v1::ReportTrialsRequest& request) override;
  absl::StatusOr<tunefarm::agent::v1::FetchKernelResponse> FetchKernel(
      const tunefarm::agent::v1::FetchKernelRequest& request) override;
  void SetWake(std::function<void()> wake) override;
  // As the last Synchronize said; false after a ClaimWork that the daemon does not know, until the next Synchronize.
  bool shares_work() const override;
  void ClaimWork(const tunefarm::agent::v1::ClaimWorkRequest& request,
                 const std::function<void(absl::StatusOr<tunefarm::agent::v1::ClaimWorkResponse>)>& done) override;
  Duration round_trip() const override;

  // What others compile (CompileDesk). Each is one call, and blocks. Unavailable: there is no control, or no epoch yet.
  absl::StatusOr<tunefarm::agent::v1::TakeCompilesResponse> TakeCompiles(int configs);
  absl::Status OfferBinary(const std::string& key, std::string binary);
  absl::StatusOr<std::string> FetchBinary(const std::string& key);
  // Whether control said last that there may be binaries to fetch.
  bool has_binaries() const { return has_binaries_.load(); }

  // After the agent has drained: sends what is left, then ends the epoch, and waits for both at most so long. What
  // could not be sent is in the spool.
  void Finish(Duration patience);
  // Ends all calls; nothing is sent any more.
  void Cancel();

  struct Counts {
    int64_t reports_sent = 0, reports_spooled = 0;
    int64_t bytes_in_spool = 0;
    bool connected = false;
    std::string control;  // the address in use
  };
  Counts counts() const;

 private:
  static constexpr Duration kCallDeadline = std::chrono::seconds(20);
  // A call that failed for control's own reasons is repeated after it.
  static constexpr Duration kRepeatDelay = std::chrono::milliseconds(200);
  // How long results may wait for others, where control does not say.
  static constexpr Duration kGather = std::chrono::seconds(1);
  static constexpr Duration kGatherMax = std::chrono::seconds(10);

  using SynchronizeRequest = tunefarm::agent::v1::SynchronizeRequest;
  using ReportTrialsRequest = tunefarm::agent::v1::ReportTrialsRequest;

  // What waits to be sent: one report or several of one unit.
  struct Pending {
    ReportTrialsRequest report;
    int64_t reports = 1;
    uint64_t bytes = 0;
    MonotonicTime since{};  // its first result is known
  };
  // Of a unit with reports that control has not taken.
  struct Unsent {
    int64_t token = 0;
    std::string device_uuid;
    int64_t reports = 0;
  };

  MonotonicTime Now() const { return reports_->clock()->Now(); }
  // Whether control knows all that the request says, has answered it lately, and has nothing to say.
  bool SaysNothingNew(const SynchronizeRequest& request) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartSynchronize() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `units`: UnitsOf the request as the agent made it.
  void SynchronizeNow(SynchronizeRequest request, std::string units) LOCKS_EXCLUDED(mutex_);
  void FetchKernelsOf(const tunefarm::agent::v1::SynchronizeResponse& response) LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::string> FetchKernelNow(const std::string& kernel_id) LOCKS_EXCLUDED(mutex_);
  // Adds it to what waits, without what control does not want. False: nothing has to be sent for it yet.
  bool Gather(const ReportTrialsRequest& report) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The report of the same unit that it may be added to; null: none.
  Pending* GatheredOf(const ReportTrialsRequest& report) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first that is not on its way; null: there is none.
  const Pending* FirstWaiting() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // There are some, and they wait no longer.
  bool IsDue() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetInUse(size_t reports) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendGathered() LOCKS_EXCLUDED(mutex_);
  // Sends it when the first of it has waited long enough.
  void SendGatheredIn(Duration delay) LOCKS_EXCLUDED(mutex_);
  void PopPending() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendSoon(Duration delay = Duration::zero()) LOCKS_EXCLUDED(mutex_);
  // What waits in memory goes to disk. On the reports executor, as the next three.
  void Spool() LOCKS_EXCLUDED(mutex_, spool_mutex_);
  // Sends one call's worth; true when there is more and control takes it.
  bool SendSome() LOCKS_EXCLUDED(mutex_, spool_mutex_);
  bool SendSpooled() EXCLUSIVE_LOCKS_REQUIRED(spool_mutex_);
  // was_all: nothing waited that one call could not take.
  bool SendPending(bool* was_all) LOCKS_EXCLUDED(mutex_);
  // How many of the first reports have come to their end.
  absl::StatusOr<size_t> Send(const tunefarm::agent::v1::ReportUnitsRequest& request);
  void Ended(const ReportTrialsRequest& report, int64_t reports) LOCKS_EXCLUDED(mutex_);
  void StartWait() LOCKS_EXCLUDED(mutex_);
  void WaitOnce(uint64_t registration) LOCKS_EXCLUDED(mutex_);
  void WakeAgent() LOCKS_EXCLUDED(wake_mutex_);

  ControlList* const controls_;
  Executor* const calls_;
  Executor* const reports_;
  Executor* const waits_;

  // Held over the sending of what the spool holds, by the reports executor and Register.
  Mutex spool_mutex_ ACQUIRED_BEFORE(mutex_);
  ReportSpool* const spool_ PT_GUARDED_BY(spool_mutex_);

  mutable Mutex mutex_;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  std::string agent_id_ GUARDED_BY(mutex_);
  int64_t epoch_ GUARDED_BY(mutex_) = 0;
  uint64_t registration_ GUARDED_BY(mutex_) = 0;  // grows with every Register that succeeded
  std::string control_ GUARDED_BY(mutex_);        // who answered last
  bool connected_ GUARDED_BY(mutex_) = false;
  MonotonicTime away_since_ GUARDED_BY(mutex_){};  // where it is not connected
  // Synchronize.
  bool under_way_ GUARDED_BY(mutex_) = false;
  std::optional<SynchronizeRequest> next_ GUARDED_BY(mutex_);
  Duration heartbeat_ GUARDED_BY(mutex_) = Duration::zero();  // how often control must hear of the agent
  bool is_asked_ GUARDED_BY(mutex_) = true;                   // control has something for it
  std::string answered_units_ GUARDED_BY(mutex_);             // of the last request that was answered
  MonotonicTime answered_at_ GUARDED_BY(mutex_){};
  std::optional<tunefarm::agent::v1::SynchronizeResponse> answer_ GUARDED_BY(mutex_);
  // Told to control until it has answered.
  std::map<std::string, tunefarm::v1::Device> changed_devices_ GUARDED_BY(mutex_);
  Duration round_trip_ GUARDED_BY(mutex_) = Duration::zero();
  Duration gather_ GUARDED_BY(mutex_) = kGather;
  bool starved_ GUARDED_BY(mutex_) = false;      // asked for work, and got none
  bool shares_work_ GUARDED_BY(mutex_) = false;  // as control said last
  bool claims_work_ GUARDED_BY(mutex_) = false;  // a ClaimWork is in flight
  std::atomic<bool> has_binaries_{false};
  // Kernels by id, the one fetched last at the back.
  std::deque<std::pair<std::string, std::string>> kernels_ GUARDED_BY(mutex_);
  // Reports.
  std::deque<Pending> pending_ GUARDED_BY(mutex_);
  size_t pending_in_use_ GUARDED_BY(mutex_) = 0;  // of them, at the front: on their way, and nothing is added to them
  int trials_in_use_ GUARDED_BY(mutex_) = 0;      // in those
  uint64_t bytes_in_use_ GUARDED_BY(mutex_) = 0;
  int pending_trials_ GUARDED_BY(mutex_) = 0;
  uint64_t pending_bytes_ GUARDED_BY(mutex_) = 0;
  bool gather_posted_ GUARDED_BY(mutex_) = false;
  std::map<int64_t, Unsent> unsent_ GUARDED_BY(mutex_);  // by unit id
  bool spool_is_full_ GUARDED_BY(mutex_) = false;
  bool spool_is_empty_ GUARDED_BY(mutex_) = true;
  uint64_t spool_bytes_ GUARDED_BY(mutex_) = 0;
  bool send_posted_ GUARDED_BY(mutex_) = false;
  int64_t sent_ GUARDED_BY(mutex_) = 0, spooled_ GUARDED_BY(mutex_) = 0;
  std::vector<std::function<void()>> when_sent_ GUARDED_BY(mutex_);
  // Wait.
  std::string wait_control_ GUARDED_BY(mutex_);
  int64_t wait_seen_ GUARDED_BY(mutex_) = 0;

  Mutex wake_mutex_;  // held while the function runs, so that SetWake waits for it
  std::function<void()> wake_ GUARDED_BY(wake_mutex_);
};

}  // namespace tunefarm
