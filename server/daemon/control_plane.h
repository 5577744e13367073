// ControlPlane: the objects of the control half - jobs, catalog, devices, agents - and how they are connected. It has
// no transport and no devices of its own: a daemon, or a test, gives it a store and executors, and takes from it the
// objects and the classes of public calls that it uses.
//
// In this order:
//   the constructor, which writes and starts nothing;
//   SetDevices, with the devices of this machine, if it has any;
//   Start, which loads the catalog, the agents and what people ordered of devices, takes the node's lease, and adopts
//     jobs: the first calls and agents may come when it has returned;
//   Stop, which ends what recurs, stops driving, gives the lease back, refuses agents and ends all watches: calls are
//     still answered;
//   the destructor, when no call is open and the executors have stopped.
//
// Threads: the constructor, SetDevices, Start and Stop on one thread; the other methods, and what the accessors answer,
// on any.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/api/cache_api.h"
#include "server/api/catalog_api.h"
#include "server/api/data_file_api.h"
#include "server/api/farm_api.h"
#include "server/api/kernel_api.h"
#include "server/api/lookup_api.h"
#include "server/api/open_calls.h"
#include "server/api/package_api.h"
#include "server/api/study_api.h"
#include "server/api/tuning_api.h"
#include "server/base/executor.h"
#include "server/base/file_set.h"
#include "server/base/random.h"
#include "server/catalog/best_changes.h"
#include "server/catalog/catalog.h"
#include "server/catalog/catalog_watch.h"
#include "server/catalog/misses.h"
#include "server/data_files/data_file_store.h"
#include "server/data_files/remote_cache.h"
#include "server/farm/control_link.h"
#include "server/farm/device_directory.h"
#include "server/farm/device_orders.h"
#include "server/farm/farm_agents.h"
#include "server/farm/poison_index.h"
#include "server/jobs/event_hub.h"
#include "server/jobs/node_follower.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/trial_tally.h"
#include "server/nodes/node.h"
#include "server/nodes/node_watch.h"
#include "server/records/kernel_registry.h"
#include "server/store/store.h"

namespace tunefarm {

struct ControlPlaneOptions {
  // All outlive the control plane. The executors and the task runner have stopped or drained before it ends, the runner
  // first: its tasks post to `control`.
  Store* store = nullptr;
  Executor* control = nullptr;       // steps of studies
  Executor* job_watchers = nullptr;  // watchers of jobs: what they are told first is read from the store
  Executor* watchers = nullptr;      // watchers of the catalog
  Executor* lease = nullptr;         // keeps the node's lease
  TaskRunner* tasks = nullptr;       // reads histories, builds spaces, asks strategies
  EntropySource* entropy = nullptr;
  DataFileStore* data_files = nullptr;  // null: definitions cannot name data files
  RemoteCache* remote_cache = nullptr;  // null: no entries of caches are kept
  FileSetBook* headers = nullptr;       // of the binaries that were made on this machine; may be null

  WorkerAbilities abilities;
  JobLimits limits;
  int catalog_watchers_max = 1000;  // more are refused: ResourceExhausted (TOO_MANY_WATCHERS)
  // Of agents on other machines; they are looked after every third of it. 0: there are none.
  int64_t agent_lease_ms = 0;
  // Of the agent in this process, which may be taken over by other daemons; 0: it ends with the process.
  int64_t own_agent_lease_ms = 0;
  bool has_own_agent = true;  // this daemon cannot work without one
  // Devices of one class whose sentinels are further apart take no work; 0: they are not compared (sentinels.h).
  double sentinel_tolerance = 0;
  NodeOptions node;        // PermanentNode where no other daemon may open the store
  std::string local_copy;  // a file for a copy of the catalog, to begin with when the store is away; empty: none
  // Puts a device of this machine back into service where its evaluator took it out. From Start on, on any thread of
  // the executors and of calls. Empty: there is no evaluator.
  std::function<void(const std::string& device_uuid)> release_device;
  // Compiles configs that nobody will run. On any thread of calls. Empty: there are no compile workers.
  CompileConfigs compile_configs;
};

class ControlPlane {
 public:
  explicit ControlPlane(const ControlPlaneOptions& options);
  // Writes nothing and calls nobody: Stop first for an orderly end.
  ~ControlPlane() = default;
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  // The machine's devices, recorded in the store; also whenever they change. They are recorded later where the store is
  // away. The errors of DeviceDirectory::Set, and the store's.
  absl::Status SetDevices(const std::vector<v1::Device>& devices);
  // DataLoss when the store holds what this program cannot read. A daemon that finds the store away begins with its
  // local copy of the catalog, if it has one, and does the rest when the store answers.
  absl::Status Start();
  // May be called again. Watches end with Unavailable; jobs stay as they are in the store.
  void Stop();

  // What the evaluator of this machine finds out about one of its devices; those who wait for it are told. As the
  // methods of DeviceDirectory.
  void SetDeviceQuarantine(const std::string& uuid, const std::string& reason);
  void SetDeviceWaiting(const std::string& uuid, const std::string& reason);
  void SetDeviceSentinels(const v1::Device& measured);

  // Waits up to `timeout` for the control executor to take a task, and asks whether the daemon's agent has registered.
  // Unavailable with the reason.
  absl::Status CheckAlive(Duration timeout);

  // The public calls.
  OpenCalls& calls() { return calls_; }
  KernelApi& kernel_api() { return kernel_api_; }
  PackageApi& package_api() { return package_api_; }
  DataFileApi& data_file_api() { return data_file_api_; }
  CacheApi& cache_api() { return cache_api_; }
  StudyApi& study_api() { return study_api_; }
  TuningApi& tuning_api() { return tuning_api_; }
  LookupApi& lookup_api() { return lookup_api_; }
  CatalogApi& catalog_api() { return catalog_api_; }
  FarmApi& farm_api() { return farm_api_; }

  Catalog& catalog() { return catalog_; }
  CatalogWatch& catalog_watch() { return *catalog_watch_; }
  Misses& misses() { return misses_; }
  DeviceDirectory& devices() { return devices_; }
  ControlLink& link() { return link_; }  // the control half of AgentLink, for agents here and on other machines
  Scheduler& scheduler() { return *scheduler_; }
  EventHub& events() { return *events_; }
  TrialTally& tally() { return tally_; }
  NodeWatch& node_watch() { return *node_watch_; }

 private:
  ControlLink::Hooks LinkHooks();
  // A person has released a device; agent_id empty: it is one of this machine.
  void Released(const std::string& agent_id, const std::string& device_uuid);

  const ControlPlaneOptions options_;
  Clock* const clock_;

  // In the order of making: each is given those above it, and for calls back (hooks) some below it.
  Node node_;
  Catalog catalog_;
  Misses misses_;
  KernelRegistry kernels_;
  DeviceDirectory devices_;
  PoisonIndex poison_;
  TrialTally tally_;
  const std::shared_ptr<EventHub> events_;
  const std::shared_ptr<CatalogWatch> catalog_watch_;
  BestChanges bests_;
  ControlLink link_;
  const std::shared_ptr<Scheduler> scheduler_;
  DeviceOrders orders_;
  FarmAgents agents_;
  NodeFollower follower_;
  const std::shared_ptr<NodeWatch> node_watch_;

  OpenCalls calls_;
  KernelApi kernel_api_;
  PackageApi package_api_;
  DataFileApi data_file_api_;
  CacheApi cache_api_;
  StudyApi study_api_;
  TuningApi tuning_api_;
  LookupApi lookup_api_;
  CatalogApi catalog_api_;
  FarmApi farm_api_;
};

}  // namespace tunefarm
