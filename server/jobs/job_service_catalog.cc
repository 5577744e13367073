// The part of JobService that answers from the catalog and about devices, and counts.

#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/job_service_impl.h"
#include "server/lookup/batch_lookup.h"

namespace tunefarm {

// ---- Devices, look-ups, counts ----

std::vector<tunefarm::v1::Device> JobService::ListDevices() const { return impl_->devices.List(); }

absl::StatusOr<tunefarm::v1::Device> JobService::GetDevice(std::string_view name) const {
  for (tunefarm::v1::Device& device : impl_->devices.List()) {
    if (device.name() == name) return std::move(device);
  }
  return WithReason(NotFound("there is no device '{}'; tunefarm devices lists them", name.substr(0, 256)),
                    "DEVICE_NOT_FOUND");
}

absl::StatusOr<tunefarm::v1::Device> JobService::HoldOutDevice(std::string_view name, const std::string& reason) {
  ASSIGN_OR_RETURN(const tunefarm::v1::Device device, GetDevice(name));
  RETURN_IF_ERROR(impl_->orders.HoldOut(device.uuid(), reason));
  impl_->driver->TellWaiting();
  return GetDevice(name);
}

absl::Status JobService::ReleaseDevice(std::string_view name) {
  ASSIGN_OR_RETURN(const tunefarm::v1::Device device, GetDevice(name));
  return impl_->orders.Release(device.uuid());
}

absl::StatusOr<std::vector<tunefarm::v1::Agent>> JobService::ListAgents() { return impl_->farm.List(); }

absl::StatusOr<tunefarm::v1::Agent> JobService::DrainAgent(std::string_view name, bool draining) {
  return impl_->farm.Drain(name, draining);
}

void JobService::SetDeviceQuarantine(const std::string& uuid, const std::string& reason) {
  if (!impl_->devices.SetQuarantine(uuid, reason, impl_->now_ms())) return;
  impl_->link.Wake();
  impl_->driver->TellWaiting();
}

void JobService::SetDeviceSentinels(const tunefarm::v1::Device& measured) {
  impl_->devices.SetSentinels(measured, impl_->now_ms());
  impl_->driver->TellWaiting();
}

void JobService::SetDeviceWaiting(const std::string& uuid, const std::string& reason) {
  impl_->devices.SetWaiting(uuid, reason, impl_->now_ms());
  impl_->driver->TellWaiting();
}

void JobService::SetDeviceHealth(const std::string& uuid, double baseline_ns, int foreign_processes) {
  impl_->devices.SetHealth(uuid, baseline_ns, foreign_processes);
}

absl::StatusOr<tunefarm::v1::LookupConfigResponse> JobService::Lookup(
    const tunefarm::v1::LookupConfigRequest& request) {
  auto response = LookupConfig(impl_->lookup_context(), request);
  if (response.ok()) {
    response->set_catalog_age_ms(impl_->node_watch->AgeMs());
    const int match = response->match();
    impl_->tally.AddLookups({&match, 1});
  } else {
    impl_->tally.AddBadLookup();
  }
  return response;
}

absl::StatusOr<tunefarm::v1::BatchLookupConfigsResponse> JobService::BatchLookup(
    const tunefarm::v1::BatchLookupConfigsRequest& request) {
  auto response = LookupConfigs(impl_->lookup_context(), request);
  if (response.ok()) {
    response->set_catalog_age_ms(impl_->node_watch->AgeMs());
    impl_->tally.AddLookups({response->matches().data(), static_cast<size_t>(response->matches_size())});
  }
  return response;
}

absl::StatusOr<Listing<tunefarm::v1::BestConfig>> JobService::ListBest(std::string_view kernel, int page_size,
                                                                       const std::string& page_token) {
  ASSIGN_OR_RETURN(const int size, PageSize(page_size));
  ASSIGN_OR_RETURN(const auto page, impl_->catalog.List(kernel, size, page_token));
  Listing<tunefarm::v1::BestConfig> listing;
  for (const auto& best : page.first) listing.items.push_back(*best);
  listing.next_page_token = page.second;
  return listing;
}

// ---- The catalog ----

absl::StatusOr<std::unique_ptr<CatalogStream>> JobService::WatchBests(
    const tunefarm::v1::WatchBestConfigsRequest& request, std::function<void()> wake,
    std::function<void(absl::Status)> end) {
  return impl_->watch->Watch(request, std::move(wake), std::move(end));
}

absl::StatusOr<tunefarm::v1::BestConfig> JobService::PinBest(const tunefarm::v1::PinBestConfigRequest& request) {
  return impl_->bests.Pin(request);
}

absl::StatusOr<tunefarm::v1::BestConfig> JobService::UnpinBest(const tunefarm::v1::UnpinBestConfigRequest& request) {
  return impl_->bests.Unpin(request);
}

absl::StatusOr<tunefarm::v1::BestConfig> JobService::AnnotateBest(
    const tunefarm::v1::AnnotateBestConfigRequest& request) {
  return impl_->bests.Annotate(request);
}

absl::StatusOr<int64_t> JobService::RetireBest(const tunefarm::v1::RetireBestConfigRequest& request) {
  return impl_->bests.Retire(request);
}

absl::StatusOr<tunefarm::v1::ListBestConfigChangesResponse> JobService::ListBestChanges(
    const tunefarm::v1::ListBestConfigChangesRequest& request) {
  return impl_->bests.List(request);
}

absl::StatusOr<tunefarm::v1::ListMissesResponse> JobService::ListMisses(
    const tunefarm::v1::ListMissesRequest& request) {
  return impl_->misses.List(request);
}

absl::StatusOr<tunefarm::v1::DeleteMissesResponse> JobService::DeleteMisses(
    const tunefarm::v1::DeleteMissesRequest& request) {
  return impl_->misses.Delete(request);
}

absl::Status JobService::WriteMisses() { return impl_->misses.Write(); }

absl::StatusOr<JobServiceStats> JobService::Stats() {
  JobServiceStats stats;
  stats.catalog_revision = impl_->catalog.revision();
  stats.catalog_age_ms = impl_->node_watch->AgeMs();
  const absl::Status away = impl_->node_watch->LastStatus();
  if (!away.ok()) stats.database_away = std::string(MessageOf(away));
  const absl::StatusOr<StoreStatus> status = impl_->options.store->Status();
  if (!status.ok()) {
    stats.database_away = std::string(MessageOf(status.status()));
    return stats;
  }
  stats.active_jobs = status->active_jobs;
  stats.stored_trials = status->stored_trials;
  stats.schema_version = status->schema_version;
  stats.database_bytes = status->database_bytes;
  return stats;
}

absl::StatusOr<JobServiceCounts> JobService::Counts() {
  JobServiceCounts counts;
  ASSIGN_OR_RETURN(counts.queue, impl_->options.store->CountQueue());
  counts.trials = impl_->tally.counts();
  counts.watchers = impl_->events->watchers();
  counts.catalog_watchers = impl_->watch->watchers();
  counts.missed_problems = impl_->misses.stored();
  counts.misses_not_counted = impl_->misses.table()->not_counted();
  counts.misses_unwritten = impl_->misses.unwritten();
  counts.compiles = impl_->link.compiles();
  return counts;
}

}  // namespace tunefarm
