#include "server/daemon/control_plane.h"

#include <chrono>
#include <utility>

#include "server/base/check.h"
#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/base/mutex.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/job_view.h"

namespace tunefarm {
namespace {

constexpr int kEventsPerJobMax = 4096;   // kept for watchers that resume
constexpr int kJobsWithEventsMax = 256;  // ended jobs whose events are still kept

// What tells this daemon's events from those of others (event_hub.h); not 0.
int64_t SaltOf(const NodeOptions& node) { return 1 + static_cast<int64_t>(Xxh3(node.id) % (uint64_t{1} << 32)); }

}  // namespace

ControlPlane::ControlPlane(const ControlPlaneOptions& options)
    : options_(options),
      clock_(options_.control->clock()),
      node_(options_.store, clock_, options_.node),
      misses_(options_.store, &catalog_),
      kernels_(options_.store),
      poison_(options_.store, clock_),
      events_(std::make_shared<EventHub>(
          options_.job_watchers, kEventsPerJobMax, kJobsWithEventsMax,
          [this](int64_t job_id) { return FindJob(options_.store, &kernels_, *scheduler_, job_id); },
          SaltOf(options_.node))),
      catalog_watch_(std::make_shared<CatalogWatch>(options_.watchers, &catalog_, options_.catalog_watchers_max)),
      bests_(options_.store, &catalog_, misses_.table(), catalog_watch_.get(), clock_),
      link_(options_.store, clock_, &kernels_, &poison_, &devices_, LinkHooks(),
            {NewUuid(options_.entropy), options_.agent_lease_ms, options_.own_agent_lease_ms}, options_.data_files),
      scheduler_(std::make_shared<Scheduler>(Scheduler::Dependencies{.store = options_.store,
                                                                     .executor = options_.control,
                                                                     .tasks = options_.tasks,
                                                                     .kernels = &kernels_,
                                                                     .devices = &devices_,
                                                                     .catalog = &catalog_,
                                                                     .events = events_.get(),
                                                                     .bests = &bests_,
                                                                     .link = &link_,
                                                                     .node = &node_})),
      orders_(options_.store, &devices_, clock_,
              [this](const std::string& agent_id, const std::string& device_uuid) { Released(agent_id, device_uuid); }),
      agents_(options_.store, &link_, &devices_, &orders_, options_.control, options_.agent_lease_ms),
      follower_({.store = options_.store,
                 .clock = clock_,
                 .entropy = options_.entropy,
                 .devices = &devices_,
                 .catalog = &catalog_,
                 .kernels = &kernels_,
                 .watch = catalog_watch_.get(),
                 .bests = &bests_,
                 .events = events_.get(),
                 .scheduler = scheduler_.get(),
                 .local_copy = options_.local_copy,
                 .node = &node_}),
      node_watch_(std::make_shared<NodeWatch>(
          &node_, options_.control, options_.lease,
          NodeWatch::Questions{.follow = [this] { return scheduler_->Follow(); },
                               .refresh = [this] { return follower_.Refresh(); },
                               .is_busy = [this] { return scheduler_->is_busy(); },
                               .on_lease = [this] { follower_.SaveCopy(node_watch_->AgeMs()); }})),
      calls_(clock_),
      kernel_api_(options_.store, &kernels_, &devices_, options_.limits.kernels, clock_, options_.compile_configs,
                  options_.data_files),
      package_api_(&kernels_, &devices_, &catalog_, clock_, options_.compile_configs),
      data_file_api_(options_.data_files),
      cache_api_(options_.remote_cache),
      study_api_(options_.store, &kernels_, clock_),
      tuning_api_({.store = options_.store,
                   .kernels = &kernels_,
                   .devices = &devices_,
                   .scheduler = scheduler_.get(),
                   .events = events_.get(),
                   .node_watch = node_watch_.get(),
                   .calls = &calls_,
                   .studies = &study_api_,
                   .entropy = options_.entropy,
                   .clock = clock_,
                   .data_files = options_.data_files},
                  options_.abilities, options_.limits),
      lookup_api_({.kernels = &kernels_,
                   .devices = &devices_,
                   .catalog = &catalog_,
                   .clock = clock_,
                   .misses = misses_.table(),
                   .headers = options_.headers},
                  options_.store, node_watch_.get(), &tally_),
      catalog_api_(&catalog_, options_.store, catalog_watch_.get(), &bests_, &misses_, &calls_),
      farm_api_(&agents_, &devices_, &orders_, scheduler_.get()) {
  TUNEFARM_CHECK(options_.tasks != nullptr);
  devices_.SetSentinelTolerance(options_.sentinel_tolerance, clock_->WallMs());
}

ControlLink::Hooks ControlPlane::LinkHooks() {
  return {.reported =
              [this](int64_t study_id, int64_t unit_id, std::vector<v1::Trial> trials, bool done) {
                tally_.Add(trials);
                scheduler_->Reported(study_id, unit_id, std::move(trials), done);
              },
          .claimed = [this](int64_t job_id) { scheduler_->Claimed(job_id); },
          .gone = [this](int64_t job_id) { scheduler_->Gone(job_id); },
          .brought =
              [this](const AgentDevices& agent) {
                RETURN_IF_ERROR(orders_.LoadFirst());
                return follower_.RecordDevices(agent.devices);
              },
          .devices_changed = [this] { scheduler_->AgentsChanged(); }};
}

void ControlPlane::Released(const std::string& agent_id, const std::string& device_uuid) {
  if (!agent_id.empty()) {
    link_.ReleaseDevice(agent_id, device_uuid);
  } else if (options_.release_device) {
    options_.release_device(device_uuid);
  }
  link_.WakeAll();
}

absl::Status ControlPlane::SetDevices(const std::vector<v1::Device>& devices) {
  RETURN_IF_ERROR(devices_.Set(devices));
  const absl::Status recorded = follower_.RecordDevices();
  if (!absl::IsUnavailable(recorded)) return recorded;
  follower_.RecordDevicesLater();
  return absl::OkStatus();
}

absl::Status ControlPlane::Start() {
  const absl::Status loaded = follower_.Load();
  if (loaded.ok()) {
    RETURN_IF_ERROR(agents_.Load());
  } else {
    if (!absl::IsUnavailable(loaded)) return loaded;
    const absl::StatusOr<Duration> age = follower_.LoadCopy();
    if (!age.ok()) {
      LogWarn("jobs", "there is no copy of the catalog to begin with: {}", MessageOf(age.status()));
      return loaded;
    }
    node_watch_->SetAge(*age);
  }
  const absl::Status begun = node_watch_->Start();
  if (!begun.ok() && !absl::IsUnavailable(begun)) return begun;
  agents_.Start();
  return absl::OkStatus();
}

void ControlPlane::Stop() {
  agents_.Stop();
  node_watch_->Stop();
  scheduler_->Stop();
  node_.Leave();
  link_.Close();
  events_->Close(Unavailable("the daemon is stopping"));
  catalog_watch_->Close(Unavailable("the daemon is stopping"));
}

void ControlPlane::SetDeviceQuarantine(const std::string& uuid, const std::string& reason) {
  if (!devices_.SetQuarantine(uuid, reason, clock_->WallMs())) return;
  link_.Wake();
  scheduler_->TellWaiting();
}

void ControlPlane::SetDeviceWaiting(const std::string& uuid, const std::string& reason) {
  devices_.SetWaiting(uuid, reason, clock_->WallMs());
  scheduler_->TellWaiting();
}

void ControlPlane::SetDeviceSentinels(const v1::Device& measured) {
  devices_.SetSentinels(measured, clock_->WallMs());
  scheduler_->TellWaiting();
}

absl::Status ControlPlane::CheckAlive(Duration timeout) {
  // Shared: the task may come after this call has given up.
  const auto taken = std::make_shared<Notification>();
  options_.control->Post([taken] { taken->Notify(); });
  if (!taken->WaitFor(timeout)) {
    return Unavailable("the control executor has taken no task for {} ms",
                       std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count());
  }
  if (options_.has_own_agent && !link_.HasAgent()) return Unavailable("no agent has registered");
  return absl::OkStatus();
}

}  // namespace tunefarm
