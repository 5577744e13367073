// ControlLink: the control half of AgentLink, as calls of agents and of those who drive jobs. Which agents there are is
// AgentRegistry's, what they hold Claims', how units become claims ClaimDesk's.
//
// Nothing here matters that the store does not hold: an agent that is not known, because this daemon was restarted
// or because the agent talked to another one last, is looked up in the store and taken over with its epoch and its
// claims, as long as its lease runs. Where the database is replaced (Store::Replacements) all agents are.
//
// Thread-safe. Hooks are called on the caller's thread with no lock held; they must not block.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/agent/agent_link.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/data_files/data_file_store.h"
#include "server/farm/agent_registry.h"
#include "server/farm/claim_desk.h"
#include "server/farm/claim_filters.h"
#include "server/farm/claims.h"
#include "server/farm/compile_desk.h"
#include "server/farm/device_directory.h"
#include "server/farm/link_hooks.h"
#include "server/farm/poison_index.h"
#include "server/records/kernel_registry.h"
#include "server/store/job_rows.h"
#include "server/store/store.h"

namespace tunefarm {

class ControlLink : public AgentLink {
 public:
  using Hooks = LinkHooks;
  using Options = AgentRegistry::Options;
  using AgentView = AgentRegistry::View;

  // The oldest version of the conversation that is understood, and the one spoken here.
  static constexpr int kProtocolOldest = 2;
  static constexpr int kProtocol = 3;

  // All outlive the link. `data_files` may be null: there are none.
  ControlLink(Store* store, Clock* clock, KernelRegistry* kernels, PoisonIndex* poison, DeviceDirectory* devices,
              Hooks hooks, Options options, DataFileStore* data_files = nullptr);

  absl::StatusOr<tunefarm::agent::v1::RegisterResponse> Register(
      const tunefarm::agent::v1::RegisterRequest& request) override;
  absl::StatusOr<tunefarm::agent::v1::SynchronizeResponse> Synchronize(
      const tunefarm::agent::v1::SynchronizeRequest& request) override;
  // True where there may be works that an agent does not know of: more than one agent is served here, other daemons may
  // share the store, or the store had works of a running study before a unit of it was handed out here. The ClaimWork
  // with `done`, for an agent in this process, calls `done` before it returns.
  bool shares_work() const override;
  void ClaimWork(const tunefarm::agent::v1::ClaimWorkRequest& request,
                 const std::function<void(absl::StatusOr<tunefarm::agent::v1::ClaimWorkResponse>)>& done) override {
    done(ClaimWork(request));
  }
  // Writes to the store. InvalidArgument: too many claims. The store's errors.
  absl::StatusOr<tunefarm::agent::v1::ClaimWorkResponse> ClaimWork(
      const tunefarm::agent::v1::ClaimWorkRequest& request);
  absl::StatusOr<tunefarm::agent::v1::ReportTrialsResponse> ReportTrials(
      const tunefarm::agent::v1::ReportTrialsRequest& request) override;
  absl::StatusOr<tunefarm::agent::v1::FetchKernelResponse> FetchKernel(
      const tunefarm::agent::v1::FetchKernelRequest& request) override;
  // See CompileDesk. Of agents on other machines only. TakeCompiles: Unavailable until the agent has synchronized here,
  // FailedPrecondition when its epoch is over. Keys: InvalidArgument.
  absl::StatusOr<tunefarm::agent::v1::TakeCompilesResponse> TakeCompiles(
      const tunefarm::agent::v1::TakeCompilesRequest& request);
  absl::StatusOr<tunefarm::agent::v1::OfferBinaryResponse> OfferBinary(
      const tunefarm::agent::v1::OfferBinaryRequest& request);
  absl::StatusOr<tunefarm::agent::v1::FetchBinaryResponse> FetchBinary(
      const tunefarm::agent::v1::FetchBinaryRequest& request);
  // A part of a data file. NotFound (DATA_FILE_NOT_FOUND) for one that is not on this daemon.
  absl::StatusOr<tunefarm::agent::v1::FetchDataFileResponse> FetchDataFile(
      const tunefarm::agent::v1::FetchDataFileRequest& request);
  // Whether there are agents without devices that compile for those of others.
  bool compiles_for_others() const { return compiles_.is_used(); }
  CompileDesk::Counts compiles() const { return compiles_.counts(); }
  // The units, just stored, wait for devices of the class.
  void WillRun(const JobRow& job, const StudyRow& study, const DeviceClass& device_class,
               const std::vector<UnitRow>& units, const std::vector<int64_t>& unit_ids) {
    compiles_.AddUnits(job, study, device_class, units, unit_ids);
  }
  void SetWake(std::function<void()> wake) override { agents_.SetWake(std::move(wake)); }

  const std::string& control_id() const { return agents_.options().control_id; }

  // --- agents on other machines ---
  // FailedPrecondition (AGENT_TOO_OLD) for one that speaks a version that is not understood here.
  absl::StatusOr<tunefarm::agent::v1::RegisterResponse> RegisterRemote(
      const tunefarm::agent::v1::RegisterRequest& request);
  absl::StatusOr<tunefarm::agent::v1::ReportUnitsResponse> ReportUnits(
      const tunefarm::agent::v1::ReportUnitsRequest& request);
  absl::StatusOr<tunefarm::agent::v1::DeregisterResponse> Deregister(
      const tunefarm::agent::v1::DeregisterRequest& request);
  // `done` is called once, at once or when the agent is woken or ExpireWait is called with the ticket that this
  // answers; 0: it has been called.
  uint64_t Wait(const tunefarm::agent::v1::WaitRequest& request,
                std::function<void(tunefarm::agent::v1::WaitResponse)> done) {
    return agents_.Wait(request, std::move(done));
  }
  void ExpireWait(const std::string& agent_id, uint64_t ticket) { agents_.ExpireWait(agent_id, ticket); }
  // Takes in what the store says of all agents: those that other control daemons serve, and those that are gone. With
  // `reap`, agents whose lease has run out lose their epoch first, and their units go back to the queue.
  absl::Status RefreshAgents(bool reap) { return agents_.Refresh(reap); }
  std::map<std::string, AgentView> Agents() const { return agents_.Views(); }
  // Its device is to return to service, where the evaluator took it out.
  void ReleaseDevice(const std::string& agent_id, const std::string& device_uuid) {
    agents_.ReleaseDevice(agent_id, device_uuid);
  }

  // There may be something new for agents that want work.
  void Wake() { agents_.Wake(); }
  // So many units wait for devices of a class: as many agents that want work are told, each in its turn. The others
  // would ask in vain.
  void WakeFor(const std::string& class_id, size_t units) { agents_.WakeFor(class_id, units); }
  // There may be something new for every agent.
  void WakeAll() { agents_.WakeAll(); }
  // Takes the job's units back and keeps their claims; Resume hands them out again, if they are held.
  void Hold(int64_t job_id);
  void Resume(int64_t job_id);
  // Takes the job's units back for good, or only those of its search; they become DONE with the trials they have.
  void Cancel(int64_t job_id);
  void StopSearch(int64_t job_id);
  // The same for the search of one of its studies; nothing if that was done before.
  void StopStudySearch(int64_t job_id, int64_t study_id);
  // While held, agents get nothing new; what they have stays with them.
  void HoldClaims(bool held);
  bool HasAgent() const { return !closed_.load() && agents_.size() > 0; }
  // Jobs of which agents hold units, by id.
  std::vector<int64_t> JobsInHand() const { return claims_.Jobs(); }
  // The job has ended: nothing of it is remembered.
  void Forget(int64_t job_id) { claims_.Forget(job_id); }
  // The database was restored to an older state: nothing that was known of agents, their claims and jobs counts any
  // more. All of it is taken over from the store again, for each agent when it is heard next. Calls no hooks.
  void BeginAgain();
  // Returns all units to the store's queue and refuses agents from now on.
  void Close();

 private:
  // Whether the agent's epoch is current; takes it over if need be, renews its lease when it is due.
  absl::StatusOr<bool> Greet(const tunefarm::agent::v1::SynchronizeRequest& request);
  // Makes the agent known, with its claims, if its epoch is the store's current one: false if it is not. `units`: as it
  // lists them, for the devices they are on.
  absl::StatusOr<bool> TakeOver(const std::string& agent_id, int64_t epoch,
                                const google::protobuf::RepeatedPtrField<tunefarm::agent::v1::UnitInHand>& units)
      LOCKS_EXCLUDED(taking_over_);
  // The same for a call that does not list units; nothing if the agent is known, under this epoch or a later one.
  absl::Status MakeKnown(const std::string& agent_id, int64_t epoch) LOCKS_EXCLUDED(taking_over_);
  absl::StatusOr<bool> ReadAgent(const std::string& agent_id, int64_t epoch,
                                 const google::protobuf::RepeatedPtrField<tunefarm::agent::v1::UnitInHand>& units)
      EXCLUSIVE_LOCKS_REQUIRED(taking_over_);
  // As Claims::Find, with agents and claims that are not known here read from the store.
  absl::StatusOr<std::optional<Claim>> FindClaim(const tunefarm::agent::v1::ReportTrialsRequest& request);
  absl::Status CheckOpen() const;
  int64_t FollowStore() { return claims_.Follow(store_->Replacements()); }

  Store* const store_;
  Clock* const clock_;
  KernelRegistry* const kernels_;
  const Hooks hooks_;
  DataFileStore* const data_files_;
  std::atomic<bool> closed_{false};
  std::atomic<bool> claims_held_{false};
  CompileDesk compiles_;
  ClaimFilters filters_;
  Claims claims_;
  AgentRegistry agents_;
  ClaimDesk desk_;
  // One agent is taken over after another, with the store's calls, so that no older reading of its claims follows a
  // newer one. Guards nothing else.
  Mutex taking_over_;
};

}  // namespace tunefarm
