#include "server/jobs/node_follower.h"

#include <fmt/core.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/job_view.h"
#include "server/nodes/local_copy.h"
#include "server/store/device_store.h"
#include "server/store/job_store.h"
#include "server/store/setting_store.h"

namespace tunefarm {
namespace {

constexpr int kWatchedAtOnce = 16;
constexpr int kNamesAtOnce = 32;

// The same for the same job, however its maps lie in memory.
uint64_t DigestOf(const tunefarm::v1::Job& job) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  {
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    job.SerializeToCodedStream(&out);
  }
  return Xxh3(bytes);
}

}  // namespace

absl::Status NodeFollower::Load() {
  RETURN_IF_ERROR(deps_.catalog->Load(deps_.store));
  ASSIGN_OR_RETURN(std::string id,
                   deps_.store->settings()->GetOrPutSetting(SettingStore::kCatalogIdSetting, NewUuid(deps_.entropy)));
  deps_.watch->Open(id);
  MutexLock lock(&mutex_);
  catalog_id_ = std::move(id);
  is_loaded_ = true;
  return absl::OkStatus();
}

absl::StatusOr<Duration> NodeFollower::LoadCopy() {
  if (deps_.local_copy.empty()) return NotFound("no copy is kept");
  ASSIGN_OR_RETURN(const tunefarm::jobs::v1::LocalCopy copy, ReadLocalCopy(deps_.local_copy));
  RETURN_IF_ERROR(RestoreLocalCopy(copy, deps_.catalog, deps_.kernels));
  deps_.watch->Open(copy.catalog_id());
  LogWarn("jobs", "the database is away: look-ups are answered from a copy of the catalog, revision {}",
          copy.revision());
  return Duration(std::chrono::milliseconds(std::max<int64_t>(0, deps_.clock->WallMs() - copy.agreed_at_ms())));
}

void NodeFollower::SaveCopy(int64_t age_ms) {
  if (deps_.local_copy.empty() || !is_loaded_) return;
  std::string now = fmt::format("{} {}", deps_.catalog->revision(), deps_.catalog->Classes().size());
  for (const auto& plan : deps_.kernels->Named()) now += plan->kernel_id();
  if (now == saved_) return;
  tunefarm::jobs::v1::LocalCopy copy = MakeLocalCopy(*deps_.catalog, deps_.kernels);
  copy.set_agreed_at_ms(deps_.clock->WallMs() - age_ms);
  {
    MutexLock lock(&mutex_);
    copy.set_catalog_id(catalog_id_);
  }
  const absl::Status written = WriteLocalCopy(deps_.local_copy, copy);
  if (!written.ok()) LogWarn("jobs", "the local copy of the catalog is not kept: {}", MessageOf(written));
  saved_ = std::move(now);  // or tried: not again until there is something new
}

absl::Status NodeFollower::RecordDevices(const std::vector<tunefarm::v1::Device>& devices) {
  for (const tunefarm::v1::Device& device : devices) {
    ASSIGN_OR_RETURN(const DeviceClass device_class, DeviceClass::FromProto(device.device_class()));
    const std::string class_id = device_class.Id();
    deps_.catalog->AddClass(class_id, device_class);
    tunefarm::v1::DeviceClass properties = device.device_class();
    properties.set_id(class_id);
    RETURN_IF_ERROR(
        deps_.store->devices()->PutDevice({device.uuid(), class_id, device.SerializeAsString(), deps_.clock->WallMs()},
                                          {class_id, device_class.display_name, properties.SerializeAsString()}));
  }
  return absl::OkStatus();
}

absl::Status NodeFollower::Refresh() {
  absl::Status status = FollowCatalog();
  if (devices_unrecorded_.exchange(false)) {  // first: a job needs the stored class of its device
    const absl::Status recorded = RecordDevices();
    if (!recorded.ok()) devices_unrecorded_ = true;
    status.Update(recorded);
  }
  status.Update(deps_.scheduler->AdoptOrphans());
  status.Update(deps_.scheduler->FollowSearches());
  status.Update(FollowClasses());
  status.Update(deps_.kernels->FollowNames(kNamesAtOnce));
  status.Update(FollowWatched());
  return status;
}

absl::Status NodeFollower::FollowCatalog() {
  const int64_t replacements = deps_.node->replacements();
  if (replacements != replacements_) {
    // Its revisions are given once more, to other bests.
    RETURN_IF_ERROR(deps_.store->settings()->PutSetting(SettingStore::kCatalogIdSetting, NewUuid(deps_.entropy)));
    replacements_ = replacements;
    return ReadAgain();
  }
  if (!is_loaded_) return Load();
  // Another daemon may have found out first.
  ASSIGN_OR_RETURN(const std::string id,
                   deps_.store->settings()->GetOrPutSetting(SettingStore::kCatalogIdSetting, NewUuid(deps_.entropy)));
  bool is_another = false;
  {
    MutexLock lock(&mutex_);
    is_another = id != catalog_id_;
  }
  if (is_another) {
    LogWarn("jobs", "the catalog in the store is another one: it is read again");
    return ReadAgain();
  }
  const absl::Status followed = deps_.bests->Follow();
  if (ReasonOf(followed) != "CATALOG_REPLACED") return followed;
  LogWarn("jobs", "{}: it is read again", MessageOf(followed));
  return ReadAgain();
}

absl::Status NodeFollower::ReadAgain() {
  is_loaded_ = false;
  deps_.bests->Forget();
  return Load();
}

// Classes of devices of other daemons' agents.
absl::Status NodeFollower::FollowClasses() {
  ASSIGN_OR_RETURN(const std::vector<DeviceClassRow> rows, deps_.store->devices()->ListDeviceClasses());
  const auto known = deps_.catalog->Classes();
  for (const DeviceClassRow& row : rows) {
    const bool is_known =
        std::any_of(known.begin(), known.end(), [&](const auto& one) { return one.first == row.class_id; });
    tunefarm::v1::DeviceClass proto;
    if (is_known || !proto.ParseFromString(row.properties)) continue;
    const absl::StatusOr<DeviceClass> device_class = DeviceClass::FromProto(proto);
    if (device_class.ok()) deps_.catalog->AddClass(row.class_id, *device_class);
  }
  return absl::OkStatus();
}

// Tells those who watch jobs that others drive.
absl::Status NodeFollower::FollowWatched() {
  int asked = 0;
  std::map<int64_t, uint64_t> told;
  for (const auto& [job_id, is_watched] : deps_.events->OpenJobs()) {
    if (deps_.scheduler->Drives(job_id)) continue;
    if (!is_watched) {
      deps_.events->Forget(job_id);
      continue;
    }
    const auto before = told_.find(job_id);
    if (before != told_.end()) told.insert(*before);
    // Each its turn.
    if (job_id <= watched_after_ || asked == kWatchedAtOnce) continue;
    ++asked;
    const auto row = deps_.store->jobs()->GetJob(job_id);
    if (absl::IsNotFound(row.status())) {
      deps_.events->End(job_id);
      continue;
    }
    RETURN_IF_ERROR(row.status());
    ASSIGN_OR_RETURN(tunefarm::v1::Job job, StoredJob(deps_.store, deps_.kernels, *row));
    const uint64_t digest = DigestOf(job);
    if (before == told_.end() || before->second != digest) {
      tunefarm::v1::JobEvent event;
      *event.mutable_progress() = job.progress();
      *event.mutable_job() = std::move(job);
      deps_.events->Publish(job_id, std::move(event));
      told[job_id] = digest;
    }
    if (IsTerminal(row->state)) deps_.events->End(job_id);
    watched_after_ = job_id;
  }
  if (asked < kWatchedAtOnce) watched_after_ = 0;
  told_ = std::move(told);
  return absl::OkStatus();
}

}  // namespace tunefarm
