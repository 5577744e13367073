// What the parts of JobService share. For its own files only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/catalog/best_changes.h"
#include "server/catalog/catalog.h"
#include "server/catalog/misses.h"
#include "server/farm/control_link.h"
#include "server/farm/device_directory.h"
#include "server/farm/device_orders.h"
#include "server/farm/farm_agents.h"
#include "server/farm/poison_index.h"
#include "server/jobs/event_hub.h"
#include "server/jobs/job_service.h"
#include "server/jobs/job_view.h"
#include "server/jobs/node_follower.h"
#include "server/jobs/scheduler.h"
#include "server/lookup/lookups.h"
#include "server/nodes/node_watch.h"
#include "server/records/kernel_registry.h"
#include "server/records/resource_names.h"

namespace tunefarm {

// The store's NotFound, with the name that the client used.
inline absl::Status WithJobName(const absl::Status& status, std::string_view name) {
  if (!absl::IsNotFound(status)) return status;
  return WithReason(NotFound("there is no job '{}'; it may have been deleted", name), "JOB_NOT_FOUND");
}

struct JobService::Impl {
  explicit Impl(const JobServiceOptions& given)
      : options(given),
        node(given.store, given.control->clock(), given.node),
        misses(given.store, &catalog),
        kernels(given.store),
        poison(given.store, given.control->clock()),
        events(std::make_shared<EventHub>(
            given.control, given.events_per_job_max, given.jobs_with_events_max,
            [this](int64_t job_id) { return Find(job_id); }, SaltOf(given.node))),
        watch(std::make_shared<CatalogWatch>(given.watchers != nullptr ? given.watchers : given.control, &catalog,
                                             given.catalog_watchers_max)),
        bests(given.store, &catalog, misses.table(), watch.get(), given.control->clock()),
        link(given.store, given.control->clock(), &kernels, &poison, &devices, LinkHooks(),
             {NewUuid(given.entropy), given.agent_lease_ms, given.own_agent_lease_ms}),
        driver(std::make_shared<Scheduler>(Scheduler::Dependencies{given.store, given.control, &kernels, &devices,
                                                                   &catalog, events.get(), &bests, &link, &node})),
        follower({given.store, given.control->clock(), given.entropy, &devices, &catalog, &kernels, watch.get(), &bests,
                  events.get(), driver.get(), given.local_copy, &node}) {
    Executor* const lease = given.lease != nullptr      ? given.lease
                            : given.watchers != nullptr ? given.watchers
                                                        : given.control;
    node_watch = std::make_shared<NodeWatch>(
        &node, given.control, lease,
        NodeWatch::Questions{[this] { return driver->Follow(); }, [this] { return follower.Refresh(); },
                             [this] { return driver->is_busy(); }, [this] { follower.SaveCopy(node_watch->AgeMs()); }});
  }

  static int64_t SaltOf(const NodeOptions& node) {
    return 1 + static_cast<int64_t>(Xxh3(node.id) % (uint64_t{1} << 32));
  }

  ControlLink::Hooks LinkHooks() {
    ControlLink::Hooks hooks;
    hooks.reported = [this](int64_t study_id, int64_t unit_id, std::vector<tunefarm::v1::Trial> trials, bool done) {
      tally.Add(trials);
      driver->Reported(study_id, unit_id, std::move(trials), done);
    };
    hooks.claimed = [this](int64_t job_id) { driver->Claimed(job_id); };
    hooks.gone = [this](int64_t job_id) { driver->Gone(job_id); };
    hooks.brought = [this](const AgentDevices& agent) {
      RETURN_IF_ERROR(orders.LoadFirst());
      return follower.RecordDevices(agent.devices);
    };
    hooks.devices_changed = [this] { driver->AgentsChanged(); };
    return hooks;
  }

  void Released(const std::string& agent_id, const std::string& device_uuid) {
    if (!agent_id.empty()) {
      link.ReleaseDevice(agent_id, device_uuid);
    } else if (release_own) {
      release_own(device_uuid);
    }
    link.WakeAll();
  }

  absl::StatusOr<tunefarm::v1::Job> Find(int64_t job_id) {
    if (auto active = driver->Find(job_id)) return *std::move(active);
    const auto row = options.store->GetJob(job_id);
    if (!row.ok()) return WithJobName(row.status(), JobName(job_id));
    return StoredJob(options.store, &kernels, *row);
  }

  LookupContext lookup_context() { return {&kernels, &devices, &catalog, options.control->clock(), misses.table()}; }
  int64_t now_ms() const { return options.control->clock()->WallMs(); }

  absl::Status CheckLanguage(const KernelPlan& plan) const {
    if (plan.language() != tunefarm::v1::LANGUAGE_PYTHON || runs_python) return absl::OkStatus();
    return WithReason(
        FailedPrecondition(
            "kernel '{}' is written in Python, which this daemon does not run: name an interpreter in its "
            "configuration (python_interpreter = \"/usr/bin/python3\") and start it anew; tunefarm "
            "doctor says why one that is named is not taken",
            plan.display_name()),
        "PYTHON_DISABLED");
  }

  // Of a stored job.
  absl::Status CheckMayRun(const tunefarm::v1::Job& job) {
    RETURN_IF_ERROR(CheckIsolation(isolation, job.required_isolation()));
    if (runs_python) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::shared_ptr<const KernelPlan> plan, kernels.Get(job.kernel()));
    return CheckLanguage(*plan);
  }

  const JobServiceOptions options;
  bool runs_python = false;  // constant once jobs are taken
  Isolation isolation;       // constant once jobs are taken
  Node node;
  DeviceDirectory devices;
  Catalog catalog;
  Misses misses;
  KernelRegistry kernels;
  PoisonIndex poison;
  TrialTally tally;
  std::shared_ptr<EventHub> events;
  std::shared_ptr<CatalogWatch> watch;
  BestChanges bests;
  ControlLink link;
  std::shared_ptr<Scheduler> driver;
  std::function<void(const std::string& device_uuid)> release_own;  // constant once it has started
  DeviceOrders orders{options.store, &devices, options.control->clock(),
                      [this](const std::string& agent_id, const std::string& uuid) { Released(agent_id, uuid); }};
  FarmAgents farm{options.store, &link, &devices, &orders, options.control, options.agent_lease_ms};
  NodeFollower follower;
  std::shared_ptr<NodeWatch> node_watch;
};

}  // namespace tunefarm
