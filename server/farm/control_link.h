// ControlLink: the control half of AgentLink. It hands out units that the store gives to an agent, takes results in,
// and takes units back when a job is paused, cancelled or out of time.
//
// What an agent holds is kept here as claims. A claim that the agent does not list in its next Synchronize was dropped
// or never arrived; unless its job was stopped it is handed out again with the same token, so a lost answer loses
// nothing.
//
// Nothing here matters that the store does not hold: an agent that is not known, because this daemon was started anew
// or because the agent talked to another one last, is looked up in the store and taken over with its epoch and its
// claims, as long as its lease runs (control_link_takeover.cc).
//
// Thread-safe. Hooks are called on the caller's thread with no lock held; they must not block.
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
#include "server/agent/agent_link.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/farm/agent_wakes.h"
#include "server/farm/claim.h"
#include "server/farm/claim_table.h"
#include "server/farm/compile_desk.h"
#include "server/farm/device_directory.h"
#include "server/farm/other_studies.h"
#include "server/farm/poison_index.h"
#include "server/records/kernel_registry.h"
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
    // An agent on another machine brings devices; may be empty.
    std::function<absl::Status(const AgentDevices& agent)> brought = nullptr;
    // Devices of agents have gone, or say something else of themselves; may be empty.
    std::function<void()> devices_changed = nullptr;
  };
  struct Options {
    std::string control_id;           // of this process; never the same twice
    int64_t agent_lease_ms = 30'000;  // of agents on other machines
    // Of the agent in this process, where other daemons share the store and may outlive it; 0: it ends with the
    // process.
    int64_t own_agent_lease_ms = 0;
  };

  // The oldest version of the conversation that is understood, and the one spoken here.
  static constexpr int kProtocolOldest = 1;
  static constexpr int kProtocol = 1;

  // All outlive the link.
  ControlLink(Store* store, Clock* clock, KernelRegistry* kernels, PoisonIndex* poison, DeviceDirectory* devices,
              Hooks hooks, Options options);

  absl::StatusOr<tunefarm::agent::v1::RegisterResponse> Register(
      const tunefarm::agent::v1::RegisterRequest& request) override;
  absl::StatusOr<tunefarm::agent::v1::SynchronizeResponse> Synchronize(
      const tunefarm::agent::v1::SynchronizeRequest& request) override;
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
  // Whether there are agents without devices that compile for those of others.
  bool compiles_for_others() const { return compiles_.is_used(); }
  CompileDesk::Counts compiles() const { return compiles_.counts(); }
  // The units, just stored, wait for devices of the class.
  void WillRun(const JobRow& job, const StudyRow& study, const DeviceClass& device_class,
               const std::vector<UnitRow>& units, const std::vector<int64_t>& unit_ids);
  void SetWake(std::function<void()> wake) override;

  const std::string& control_id() const { return options_.control_id; }

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
                std::function<void(tunefarm::agent::v1::WaitResponse)> done);
  void ExpireWait(const std::string& agent_id, uint64_t ticket);
  // Takes in what the store says of all agents: those that other control daemons serve, and those that are gone. With
  // `reap`, agents whose lease has run out lose their epoch first, and their units go back to the queue.
  absl::Status RefreshAgents(bool reap);

  // What is known of an agent on another machine that this daemon serves, beside what the store says.
  struct AgentView {
    int64_t clock_skew_ms = 0;  // its wall clock less ours, when it was heard last
    Duration silent = Duration::zero();
    int units = 0;
  };
  std::map<std::string, AgentView> Agents() const;
  // Its device is to be put back into service, where the evaluator took it out.
  void ReleaseDevice(const std::string& agent_id, const std::string& device_uuid);

  // There may be something new for agents that want work.
  void Wake();
  // So many units wait for devices of a class: as many agents that want work are told, each in its turn. The others
  // would ask in vain.
  void WakeFor(const std::string& class_id, size_t units);
  // There may be something new for every agent.
  void WakeAll();
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
  bool HasAgent() const;
  // Jobs of which agents hold units, by id.
  std::vector<int64_t> JobsInHand() const;
  // The job has ended: nothing of it is remembered.
  void Forget(int64_t job_id);
  // The database was put back to an older state: nothing that was known of agents, their claims and jobs counts any
  // more. All of it is taken over from the store again, for each agent when it is heard next. Calls no hooks.
  void BeginAgain();
  // Returns all units to the store's queue and refuses agents from now on.
  void Close();

 private:
  using Mode = ClaimMode;
  struct AgentState {
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
  // What a device still wants.
  struct Demand {
    int units = 0, trials = 0;  // trials 0: units alone count
    void Take(const tunefarm::agent::v1::Assignment& unit) {
      --units;
      if (trials == 0) return;
      trials -= unit.trials_size();
      if (trials <= 0) units = trials = 0;
    }
  };
  struct JobMode {
    bool held = false, cancelled = false, search_stopped = false;
    std::set<int64_t> stopped_studies;  // whose search is over
  };
  // CLAIMED in the store, but what the claim needs could not be read; tried again at the next demand.
  struct Unmade {
    std::string agent_id, device_uuid;
    ClaimedUnit claimed;
    int64_t replacements = 0;  // Claim::replacements
  };

  // control_link_agents.cc:
  static std::set<std::string> ClassesOf(const tunefarm::agent::v1::RegisterRequest& about);
  // Of an agent that registers, or is taken over.
  AgentState StateOf(const tunefarm::agent::v1::RegisterRequest& about) const;
  // The agent's devices are known here from now on.
  absl::Status NoteDevices(const AgentState& state);
  // How long results gather at the agents of a farm of so many: all together report some 250 times a second.
  static int GatherMs(size_t agents);
  static absl::Status CheckRegistration(const tunefarm::agent::v1::RegisterRequest& request);
  // Whether the agent's epoch is current; takes it over if need be, renews its lease when it is due.
  absl::StatusOr<bool> Greet(const tunefarm::agent::v1::SynchronizeRequest& request);
  void NoteChangedDevices(const tunefarm::agent::v1::SynchronizeRequest& request);
  // What an agent has said of its devices to another daemon.
  void NoteElsewhere(const tunefarm::agent::v1::RegisterRequest& about);
  // Answers Store::Replacements. Where it has grown, forgets what was known of the database before; what is said of
  // jobs is not heard then until BeginAgain, as it may come from that database too.
  int64_t FollowReplacements() LOCKS_EXCLUDED(mutex_);
  void ForgetAll() EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Its epoch is over: what is remembered of it goes.
  void Lose(const std::string& agent_id);
  // Whether the agent's workers may run the job's units: isolation and language. Else why not.
  absl::Status CheckMayRun(const std::string& agent_id, const Claim& claim, const tunefarm::v1::Job& spec) const;
  // Back to the queue with a unit that its agent may not run; the agent is given nothing for a while, so that others
  // come first.
  void GiveUp(const Claim& claim, const absl::Status& why);

  // control_link_takeover.cc:
  // Makes the agent known, with its claims, if its epoch is the store's current one: false if it is not. `units`: as it
  // lists them, for the devices they are on.
  absl::StatusOr<bool> TakeOver(const std::string& agent_id, int64_t epoch,
                                const google::protobuf::RepeatedPtrField<tunefarm::agent::v1::UnitInHand>& units);
  // What was claimed and nobody was told of: through another daemon, after this one had taken the agent over, by a call
  // that the agent had given up there and that went on; or here, where the database did not say in time that it had
  // stored the claim. The agent lists none of it, and nobody else would ever hand it out.
  absl::Status TakeOverLateClaims(const std::string& agent_id, int64_t epoch);
  // The agent's claims in the store, but for some. `device_of`: where they run, by unit, as the agent lists them.
  absl::StatusOr<std::vector<Claim>> ReadClaims(const AgentState& agent, const std::string& agent_id,
                                                int64_t replacements, const std::map<int64_t, std::string>& device_of,
                                                const std::set<int64_t>& except);
  void PutTakenOver(Claim claim, bool delivered) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Where a claim of the agent runs, for all that is known of it.
  absl::StatusOr<std::string> DeviceOfClaim(const AgentState& agent, const ClaimedUnit& claimed);
  // A claim that is reported on and not known here; none: it is not the agent's.
  absl::StatusOr<std::optional<Claim>> FindClaim(const tunefarm::agent::v1::ReportTrialsRequest& request);

  // Another unit of the agent, in its hands, that keeps a unit from being handed to it: `alone`: any; else one that its
  // agent must have alone.
  bool HasOther(const std::string& agent_id, int64_t unit_id, bool alone) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Mode ModeOf(int64_t job_id, int64_t study_id, UnitKind kind) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ApplyModes(int64_t job_id) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stores POISONED for the trials of a claim that are known to crash.
  absl::Status FilterPoisoned(Claim* claim, const tunefarm::v1::Job& spec);
  // Stores POISONED for the trials of a claim with which too many agents were lost, and remembers their configs.
  absl::Status FilterLost(Claim* claim, const tunefarm::v1::Job& spec);
  // Stores, for the trials of a claim whose config was measured before, what was measured.
  absl::Status FilterMeasured(Claim* claim);
  // Stores LOST for what is left of a final that another device has begun (Study measures all of it again). An error:
  // it must not be handed out.
  absl::Status FilterBegunFinal(Claim* claim, const std::vector<std::string>& present_devices);
  // Stores trials of a claim that need not run; the claim is left with `kept`.
  absl::Status StoreWithoutRun(Claim* claim, std::vector<tunefarm::v1::Trial> trials,
                               tunefarm::agent::v1::Assignment kept);
  absl::Status ClaimFor(const tunefarm::agent::v1::SynchronizeRequest& request, const std::string& device_uuid,
                        const Demand& demand, tunefarm::agent::v1::SynchronizeResponse* response);
  absl::Status ClaimUntilDelivered(const tunefarm::agent::v1::SynchronizeRequest& request,
                                   const std::string& device_uuid, const Demand& demand,
                                   tunefarm::agent::v1::SynchronizeResponse* response);
  // False if the unit was not handed out and another may be claimed in its place.
  bool HandOut(const tunefarm::agent::v1::SynchronizeRequest& request, const Unmade& unit,
               tunefarm::agent::v1::SynchronizeResponse* response);
  std::vector<Unmade> TakeUnmade(const std::string& agent_id, const std::string& device_uuid);
  // What becomes of the unit with them.
  enum class After { kGoesOn, kDone, kReturned };
  absl::StatusOr<ReportVerdict> StoreTrials(const Claim& claim, const std::vector<tunefarm::v1::Trial>& trials,
                                            After after);
  // The claim that a report is about, with the trials of it that are reported; is_part if it has others.
  static Claim ReportedPart(const Claim& claim, const tunefarm::agent::v1::ReportTrialsRequest& request);
  // The trials of a report as they are stored, and no others than the claim's.
  std::vector<tunefarm::v1::Trial> OwnTrials(Claim* claim, const tunefarm::agent::v1::ReportTrialsRequest& request);
  void NotePoison(const Claim& claim, const std::vector<tunefarm::v1::Trial>& trials);
  // What is handed out again, taken back, or gone from the agent, by what it lists.
  void CompareWithList(const tunefarm::agent::v1::SynchronizeRequest& request, std::map<std::string, Demand>* wanted,
                       std::set<int64_t>* left_jobs, tunefarm::agent::v1::SynchronizeResponse* response)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends dropped claims that no agent has, outside the lock.
  void FinishDropped();

  Store* const store_;
  Clock* const clock_;
  KernelRegistry* const kernels_;
  PoisonIndex* const poison_;
  OtherStudies other_studies_;
  DeviceDirectory* const devices_;
  const Hooks hooks_;
  const Options options_;

  mutable Mutex mutex_;
  bool closed_ GUARDED_BY(mutex_) = false;
  bool claims_held_ GUARDED_BY(mutex_) = false;
  int64_t replacements_ GUARDED_BY(mutex_);            // Store::Replacements, under which all else here was read
  bool jobs_are_outdated_ GUARDED_BY(mutex_) = false;  // since it grew there was no BeginAgain
  std::map<std::string, AgentState> agents_ GUARDED_BY(mutex_);  // by agent id
  ClaimTable claims_ GUARDED_BY(mutex_);
  std::map<int64_t, JobMode> jobs_ GUARDED_BY(mutex_);
  std::vector<Unmade> unmade_ GUARDED_BY(mutex_);  // at most a demand's worth per device
  // A claim is under way from before the store gives units out until they are in claims_. Jobs that end meanwhile are
  // remembered until none is.
  int claiming_ GUARDED_BY(mutex_) = 0;
  std::multiset<std::string> claiming_for_ GUARDED_BY(mutex_);  // agents
  std::set<int64_t> ended_while_claiming_ GUARDED_BY(mutex_);

  std::string woken_last_ GUARDED_BY(mutex_);  // agent
  CompileDesk compiles_;
  std::atomic<int> gather_ms_{0};  // of agents on other machines: SynchronizeResponse.gather_ms

  Mutex taking_over_;  // one agent after another
  AgentWakes wakes_;   // of agents on other machines
  Mutex wake_mutex_;   // of the agent in this process; held while the function runs, so that SetWake waits for it
  std::function<void()> wake_ GUARDED_BY(wake_mutex_);
};

}  // namespace tunefarm
