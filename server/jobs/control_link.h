// ControlLink: the control half of AgentLink. It hands out units that the store gives to an agent, takes results in,
// and takes units back when a job is paused, cancelled or out of time.
//
// What an agent holds is kept here as claims. A claim that the agent does not list in its next Synchronize was dropped
// or never arrived; unless its job was stopped it is handed out again with the same token, so a lost answer loses
// nothing.
//
// Thread-safe. Hooks are called on the caller's thread with no lock held; they must not block.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/agent/agent_link.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/jobs/claim.h"
#include "server/jobs/device_directory.h"
#include "server/jobs/kernel_registry.h"
#include "server/jobs/poison_index.h"
#include "server/store/store.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {

class ControlLink : public AgentLink {
 public:
  struct Hooks {
    // Trials were stored (maybe none), and whether that made the unit DONE.
    std::function<void(int64_t study_id, int64_t unit_id, std::vector<tunefarm::v1::Trial> trials, bool done)> reported;
    // Units of the job were handed out.
    std::function<void(int64_t job_id)> claimed;
    // A unit that was taken back, or that the agent gave back, has left the agent.
    std::function<void(int64_t job_id)> gone;
  };

  // All outlive the link.
  ControlLink(Store* store, Clock* clock, KernelRegistry* kernels, PoisonIndex* poison, DeviceDirectory* devices,
              Hooks hooks);

  absl::StatusOr<tunefarm::agent::v1::RegisterResponse> Register(
      const tunefarm::agent::v1::RegisterRequest& request) override;
  absl::StatusOr<tunefarm::agent::v1::SynchronizeResponse> Synchronize(
      const tunefarm::agent::v1::SynchronizeRequest& request) override;
  absl::StatusOr<tunefarm::agent::v1::ReportTrialsResponse> ReportTrials(
      const tunefarm::agent::v1::ReportTrialsRequest& request) override;
  absl::StatusOr<tunefarm::agent::v1::FetchKernelResponse> FetchKernel(
      const tunefarm::agent::v1::FetchKernelRequest& request) override;
  absl::StatusOr<tunefarm::agent::v1::FetchArtifactResponse> FetchArtifact(
      const tunefarm::agent::v1::FetchArtifactRequest& request) override;
  void SetWake(std::function<void()> wake) override;

  // There may be something new for the agent.
  void Wake();
  // Takes the job's units back and keeps their claims; Resume hands them out again.
  void Hold(int64_t job_id);
  void Resume(int64_t job_id);
  // Takes the job's units back for good, or only those of its search; they become DONE with the trials they have.
  void Cancel(int64_t job_id);
  void StopSearch(int64_t job_id);
  // The same for the search of one of its studies; nothing if that was done before.
  void StopStudySearch(int64_t job_id, int64_t study_id);
  // While held, agents get nothing new; what they have stays with them.
  void HoldClaims(bool held);
  bool HasAgent() const;
  // Whether an agent still has units of the job, or may be getting some right now: Hooks.gone then comes afterwards.
  bool InHand(int64_t job_id) const;
  // Jobs of which agents hold units, by id.
  std::vector<int64_t> JobsInHand() const;
  // The job has ended: nothing of it is remembered.
  void Forget(int64_t job_id);
  // Returns all units to the store's queue and refuses agents from now on.
  void Close();

 private:
  using Mode = ClaimMode;
  struct JobMode {
    bool held = false, cancelled = false, search_stopped = false;
    std::set<int64_t> stopped_studies;  // whose search is over
  };
  // CLAIMED in the store, but what the claim needs could not be read; tried again at the next demand.
  struct Unmade {
    std::string agent_id, device_uuid;
    ClaimedUnit claimed;
  };

  Mode ModeOf(int64_t job_id, int64_t study_id, UnitKind kind) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ApplyModes(int64_t job_id) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stores POISONED for the trials of a claim that are known to crash.
  absl::Status FilterPoisoned(Claim* claim, const tunefarm::v1::Job& spec);
  // Stores, for the trials of a claim whose config was measured before, what was measured.
  absl::Status FilterMeasured(Claim* claim);
  // Stores trials of a claim that need not run; the claim is left with `kept`.
  absl::Status StoreWithoutRun(Claim* claim, std::vector<tunefarm::v1::Trial> trials,
                               tunefarm::agent::v1::Assignment kept);
  absl::Status ClaimFor(const tunefarm::agent::v1::SynchronizeRequest& request, const std::string& device_uuid,
                        int units, tunefarm::agent::v1::SynchronizeResponse* response);
  absl::Status ClaimUntilDelivered(const tunefarm::agent::v1::SynchronizeRequest& request,
                                   const std::string& device_uuid, int units,
                                   tunefarm::agent::v1::SynchronizeResponse* response);
  // False if the unit was not handed out and another may be claimed in its place.
  bool HandOut(const tunefarm::agent::v1::SynchronizeRequest& request, const std::string& device_uuid,
               const ClaimedUnit& claimed, tunefarm::agent::v1::SynchronizeResponse* response);
  std::vector<ClaimedUnit> TakeUnmade(const std::string& agent_id, const std::string& device_uuid);
  // What becomes of the unit with them.
  enum class After { kGoesOn, kDone, kReturned };
  absl::StatusOr<ReportVerdict> StoreTrials(const Claim& claim, const std::vector<tunefarm::v1::Trial>& trials,
                                            After after);
  // Ends dropped claims that no agent has, outside the lock.
  void FinishDropped();

  Store* const store_;
  Clock* const clock_;
  KernelRegistry* const kernels_;
  PoisonIndex* const poison_;
  DeviceDirectory* const devices_;
  const Hooks hooks_;

  mutable Mutex mutex_;
  bool closed_ GUARDED_BY(mutex_) = false;
  bool claims_held_ GUARDED_BY(mutex_) = false;
  std::map<std::string, int64_t> epochs_ GUARDED_BY(mutex_);  // by agent id
  std::map<int64_t, Claim> claims_ GUARDED_BY(mutex_);        // by unit id
  std::map<int64_t, JobMode> jobs_ GUARDED_BY(mutex_);
  std::vector<Unmade> unmade_ GUARDED_BY(mutex_);  // at most a demand's worth per device
  // A claim is under way from before the store gives units out until they are in claims_. Jobs that end meanwhile are
  // remembered until none is.
  int claiming_ GUARDED_BY(mutex_) = 0;
  std::set<int64_t> ended_while_claiming_ GUARDED_BY(mutex_);

  Mutex wake_mutex_;  // held while the function runs, so that SetWake waits for it
  std::function<void()> wake_ GUARDED_BY(wake_mutex_);
};

}  // namespace tunefarm
