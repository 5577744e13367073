// JobService: everything the public API does, without transport: kernels, spaces, jobs, trials, devices, look-ups. It
// owns the driver, which moves jobs on, and the control half of the conversation with agents.
//
// Threads: all methods may be called from any thread; those that write block until the write is durable. Lookups never
// wait for tuning. Nothing here may be called from a Watch callback.
//
// Errors: InvalidArgument, NotFound, FailedPrecondition, ResourceExhausted with one sentence for the user and a reason
// (ReasonOf): KERNEL_NOT_FOUND, JOB_NOT_FOUND, TRIAL_NOT_FOUND, DEVICE_NOT_FOUND, NAME_INVALID, JOB_INVALID,
// BUDGET_INVALID, POLICY_INVALID, PROBLEM_COUNT, SPACE_EMPTY, STRATEGY_INVALID, PROBLEM_TOO_LARGE, REQUEST_ID_REUSED,
// JOB_STATE, PAGE_TOKEN_INVALID, TOO_MANY_JOBS, ISOLATION_NOT_REACHED, LOW_SPACE, those of best_changes.h and
// catalog_watch.h, and those of the definition.
// Unavailable when the store cannot be written (nothing was changed, repeat the call).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/agent/agent_link.h"
#include "server/base/executor.h"
#include "server/base/random.h"
#include "server/catalog/catalog_watch.h"
#include "server/farm/compile_desk.h"
#include "server/farm/isolation.h"
#include "server/jobs/event_hub.h"
#include "server/jobs/trial_tally.h"
#include "server/nodes/node.h"
#include "server/store/store.h"
#include "tunefarm/v1/catalog_service.pb.h"
#include "tunefarm/v1/device.pb.h"
#include "tunefarm/v1/device_service.pb.h"
#include "tunefarm/v1/farm_service.pb.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/kernel.pb.h"
#include "tunefarm/v1/kernel_service.pb.h"
#include "tunefarm/v1/lookup_service.pb.h"
#include "tunefarm/v1/trial.pb.h"
#include "tunefarm/v1/tuning_service.pb.h"

namespace tunefarm {

class ControlLink;

struct JobServiceOptions {
  Store* store = nullptr;            // outlives the service
  Executor* control = nullptr;       // the driver's; outlives the service and has stopped or drained before it dies
  EntropySource* entropy = nullptr;  // outlives the service
  int active_jobs_max = 10'000;      // more are refused: ResourceExhausted, TOO_MANY_JOBS
  int events_per_job_max = 4096;     // kept for watchers that resume
  int jobs_with_events_max = 256;    // ended jobs whose events are still kept
  Executor* watchers = nullptr;      // tells watchers of the catalog; as `control`, which it is where it is null
  int catalog_watchers_max = 1000;   // more are refused: ResourceExhausted, TOO_MANY_WATCHERS
  // Of agents on other machines; they are looked after every third of it. 0: there are none.
  int64_t agent_lease_ms = 0;
  // Of the agent in this process, which may be taken over by other daemons; 0: it ends with the process.
  int64_t own_agent_lease_ms = 0;
  bool has_own_agent = true;  // this daemon cannot work without one
  // Devices of one class whose sentinels are further apart take no work; 0: they are not compared (sentinels.h).
  double sentinel_tolerance = 0;
  NodeOptions node;           // PermanentNode where no other daemon may open the store
  Executor* lease = nullptr;  // keeps the node's lease; as `watchers` where it is null
  std::string local_copy;     // a file for a copy of the catalog, to begin with when the store is away; empty: none
};

template <typename T>
struct Listing {
  std::vector<T> items;
  std::string next_page_token;  // empty on the last page
};

struct JobServiceStats {
  int64_t active_jobs = 0;
  int64_t stored_trials = 0;
  int schema_version = 0;
  int64_t database_bytes = 0;
  int64_t catalog_revision = 0;
  // Why the store does not answer (empty: it does), and how old the catalog in memory may be (0 where no other daemon
  // changes the store). While the store does not answer, what is above is 0 but for the revision.
  std::string database_away;
  int64_t catalog_age_ms = 0;
};

// For the metrics.
struct JobServiceCounts {
  TrialCounts trials;  // since the start
  QueueCounts queue;
  int watchers = 0;  // of jobs
  int catalog_watchers = 0;
  int64_t missed_problems = 0;
  int64_t misses_not_counted = 0;  // questions
  int64_t misses_unwritten = 0;    // problems
  CompileDesk::Counts compiles;
};

class JobService {
 public:
  explicit JobService(const JobServiceOptions& options);
  // Writes nothing and calls nobody: Stop first for an orderly end. Callbacks and agents are gone by then.
  ~JobService();
  JobService(const JobService&) = delete;
  JobService& operator=(const JobService&) = delete;

  // What workers reach and must reach. Before Start only, which pauses jobs of an earlier run that demand more.
  void SetIsolation(Isolation isolation);

  // Jobs of kernels in Python are taken; else Submit refuses them (FailedPrecondition PYTHON_DISABLED). Before Start
  // only.
  void AllowPython();
  // What puts a device of this machine back into service where its evaluator took it out. Before Start only; from any
  // thread of the executors.
  void SetReleaseDevice(std::function<void(const std::string& device_uuid)> release);

  // The machine's devices, recorded in the store; call it before Start and whenever they change. They are
  // recorded later where the store is away.
  absl::Status SetDevices(const std::vector<tunefarm::v1::Device>& devices);

  // What was measured on one of them since.
  void SetDeviceSentinels(const tunefarm::v1::Device& measured);

  // Loads the catalog and adopts the jobs that nobody drives; they are loaded on the control executor. DataLoss when
  // the store holds what this program cannot read. A daemon that finds the store away begins with its local copy of the
  // catalog, if it has one, and does the rest when the store answers.
  absl::Status Start();

  // After Start, where this daemon's own agent is the only one: pauses the jobs that demand what its workers do not
  // have (isolation, Python). The store's errors.
  absl::Status PauseWhatCannotRun();
  // Ends every Watch with Unavailable and stops driving. Jobs stay as they are in the store. May be called again.
  void Stop();

  // The control half of AgentLink, in process. Lives as long as the service; one agent at a time sets the wake
  // function.
  AgentLink* agent_link();
  // The same for agents on other machines.
  ControlLink* control_link();

  // --- kernels ---
  // Answers without source contents.
  absl::StatusOr<tunefarm::v1::Kernel> CreateKernel(const tunefarm::v1::Kernel& kernel, bool validate_only);
  // By "kernels/{id}" or display name (the newest).
  absl::StatusOr<tunefarm::v1::Kernel> GetKernel(std::string_view name, bool include_sources);
  absl::StatusOr<Listing<tunefarm::v1::Kernel>> ListKernels(int page_size, const std::string& page_token);
  absl::StatusOr<tunefarm::v1::CountSpaceResponse> CountSpace(const tunefarm::v1::CountSpaceRequest& request);

  // --- jobs ---
  // Checks everything up front, then stores it in one transaction. With a definition, job.kernel must be empty.
  // validate_only answers with the job as it would be, without a name. submitted_by: see Job.
  absl::StatusOr<tunefarm::v1::Job> Submit(const tunefarm::v1::Job& job,
                                           const std::optional<tunefarm::v1::Kernel>& definition,
                                           const std::string& request_id, bool validate_only,
                                           const std::string& submitted_by = "");
  absl::StatusOr<tunefarm::v1::Job> GetJob(std::string_view name);
  // Newest first, without studies.
  absl::StatusOr<Listing<tunefarm::v1::Job>> ListJobs(const std::vector<tunefarm::v1::JobState>& states, int page_size,
                                                      const std::string& page_token);
  absl::StatusOr<tunefarm::v1::Job> Cancel(std::string_view name);
  absl::StatusOr<tunefarm::v1::Job> Pause(std::string_view name);
  absl::StatusOr<tunefarm::v1::Job> Resume(std::string_view name);
  absl::Status Delete(std::string_view name);

  // Calls `sink` with a snapshot, then with every event, one call at a time on the control executor, and at last `end`
  // once: OK when the job has ended, Unavailable when the service stops. after_event_id: last event seen; 0 from now.
  // After a gap a snapshot comes first. Neither may block. NotFound if there is no such job.
  absl::StatusOr<std::unique_ptr<WatchSubscription>> Watch(std::string_view name, int64_t after_event_id,
                                                           std::function<void(const tunefarm::v1::JobEvent&)> sink,
                                                           std::function<void(absl::Status)> end);

  // --- trials ---
  absl::StatusOr<tunefarm::v1::ListTrialsResponse> ListTrials(const tunefarm::v1::ListTrialsRequest& request);
  // With its log and samples.
  absl::StatusOr<tunefarm::v1::Trial> GetTrial(std::string_view name);

  // --- devices ---
  // GPUs first.
  std::vector<tunefarm::v1::Device> ListDevices() const;
  // "devices/{uuid}". NotFound (DEVICE_NOT_FOUND).
  absl::StatusOr<tunefarm::v1::Device> GetDevice(std::string_view name) const;
  // A person takes a device out of service, whoever's it is, until it is released: for all control daemons, and over
  // their ends. NotFound (DEVICE_NOT_FOUND); the store's errors.
  absl::StatusOr<tunefarm::v1::Device> HoldOutDevice(std::string_view name, const std::string& reason);
  // Takes back HoldOutDevice and accepts sentinels that deviate, and tells the device's agent that it is to serve
  // again.
  absl::Status ReleaseDevice(std::string_view name);
  // As DeviceDirectory; a device that comes back is offered work.
  void SetDeviceQuarantine(const std::string& uuid, const std::string& reason);
  void SetDeviceWaiting(const std::string& uuid, const std::string& reason);
  void SetDeviceHealth(const std::string& uuid, double baseline_ns, int foreign_processes);

  // --- agents: as FarmAgents ---
  absl::StatusOr<std::vector<tunefarm::v1::Agent>> ListAgents();
  absl::StatusOr<tunefarm::v1::Agent> DrainAgent(std::string_view name, bool draining);

  // --- look-ups ---
  absl::StatusOr<tunefarm::v1::LookupConfigResponse> Lookup(const tunefarm::v1::LookupConfigRequest& request);
  absl::StatusOr<tunefarm::v1::BatchLookupConfigsResponse> BatchLookup(
      const tunefarm::v1::BatchLookupConfigsRequest& request);
  absl::StatusOr<Listing<tunefarm::v1::BestConfig>> ListBest(std::string_view kernel, int page_size,
                                                             const std::string& page_token);

  // --- the catalog: its changes, and what people decide; as CatalogWatch and BestChanges ---
  absl::StatusOr<std::unique_ptr<CatalogStream>> WatchBests(const tunefarm::v1::WatchBestConfigsRequest& request,
                                                            std::function<void()> wake,
                                                            std::function<void(absl::Status)> end);
  absl::StatusOr<tunefarm::v1::BestConfig> PinBest(const tunefarm::v1::PinBestConfigRequest& request);
  absl::StatusOr<tunefarm::v1::BestConfig> UnpinBest(const tunefarm::v1::UnpinBestConfigRequest& request);
  absl::StatusOr<tunefarm::v1::BestConfig> AnnotateBest(const tunefarm::v1::AnnotateBestConfigRequest& request);
  absl::StatusOr<int64_t> RetireBest(const tunefarm::v1::RetireBestConfigRequest& request);
  absl::StatusOr<tunefarm::v1::ListBestConfigChangesResponse> ListBestChanges(
      const tunefarm::v1::ListBestConfigChangesRequest& request);

  // --- misses: look-ups that had no exact answer (misses.h) ---
  absl::StatusOr<tunefarm::v1::ListMissesResponse> ListMisses(const tunefarm::v1::ListMissesRequest& request);
  absl::StatusOr<tunefarm::v1::DeleteMissesResponse> DeleteMisses(const tunefarm::v1::DeleteMissesRequest& request);
  // Makes what was counted durable. Not done by the service itself; what fails is tried again with the next call.
  absl::Status WriteMisses();

  absl::StatusOr<JobServiceStats> Stats();
  absl::StatusOr<JobServiceCounts> Counts();

  // --- space ---
  // Space has run low: new jobs are refused (ResourceExhausted, LOW_SPACE) and running ones PAUSED with the reason,
  // until Unsuspend. Jobs that were paused on request stay so. Both may be called again.
  void Suspend(const std::string& reason);
  void Unsuspend();
  bool is_suspended() const;

  // --- health ---
  // Waits up to `timeout` for the driver's executor to take a task, and asks whether an agent has registered.
  // Unavailable with the reason.
  absl::Status CheckAlive(Duration timeout);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tunefarm
