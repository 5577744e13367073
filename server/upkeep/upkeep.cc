#include "server/upkeep/upkeep.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/store_maintenance.h"
#include "server/upkeep/disk_reserve.h"

namespace tunefarm {
namespace {

SpaceSource DiskSource(const UpkeepOptions& options) {
  SpaceSource source;
  source.floor_bytes = options.min_free_disk_bytes;
  source.free_bytes = [path = options.data_directory] { return FreeDiskBytes(path); };
  source.explain = [path = options.data_directory](int64_t free, int64_t floor) {
    return fmt::format("{} free where {} is, the floor is {}: free space, or lower min_free_disk_bytes",
                       FormatBytes(static_cast<uint64_t>(free)), path, FormatBytes(static_cast<uint64_t>(floor)));
  };
  return source;
}

// What the database may still grow by.
absl::StatusOr<int64_t> DatabaseRoom(const UpkeepOptions& options, Store* store) {
  std::error_code error;
  const auto file_bytes =
      static_cast<int64_t>(std::filesystem::file_size(options.data_directory + "/tunefarm.db", error));
  // A small file needs no closer look; only the database knows how much of a large one is free.
  if (!error && file_bytes < options.max_database_bytes / 2) return options.max_database_bytes - file_bytes;
  ASSIGN_OR_RETURN(const StoreStatus status, store->maintenance()->Status());
  return options.max_database_bytes - status.used_bytes;
}

SpaceSource DatabaseSource(const UpkeepOptions& options, Store* store) {
  SpaceSource source;
  // Retention works from a tenth on; this is for when it finds nothing more to take.
  source.floor_bytes = options.max_database_bytes / 50;
  source.free_bytes = [options, store] { return DatabaseRoom(options, store); };
  source.explain = [max = options.max_database_bytes](int64_t free, int64_t) {
    return fmt::format(
        "the database has {} left of its bound of {}: delete jobs (tunefarm jobs delete) or raise "
        "max_database_bytes",
        FormatBytes(static_cast<uint64_t>(std::max<int64_t>(0, free))), FormatBytes(static_cast<uint64_t>(max)));
  };
  return source;
}

}  // namespace

Upkeep::Upkeep(const UpkeepOptions& options, Store* store, Scheduler* scheduler, Misses* misses, Clock* clock)
    : executor_("upkeep", clock) {
  SpaceFloorOptions floor;
  floor.sources = {DiskSource(options)};
  if (options.max_database_bytes > 0) floor.sources.push_back(DatabaseSource(options, store));
  floor.low = [scheduler](const std::string& reason) { scheduler->Suspend(reason); };
  floor.enough = [scheduler, path = options.data_directory] {
    KeepDiskReserve(path);
    scheduler->Unsuspend();
  };
  floor.executor = &executor_;
  floor_ = std::make_shared<SpaceFloor>(std::move(floor));
  floor_->Check();
  floor_->Start();
  RetentionPolicy policy;
  policy.keep_logs_days = options.keep_logs_days;
  policy.keep_jobs_days = options.keep_jobs_days;
  policy.database_bytes_max = options.max_database_bytes;
  retention_ = std::make_shared<Retention>(store, &executor_, policy);
  retention_->Start();
  miss_writer_ = std::make_shared<MissWriter>(&executor_, [misses] { return misses->Write(); });
  miss_writer_->Start();
}

Upkeep::~Upkeep() {
  floor_->Stop();
  retention_->Stop();
  miss_writer_->Stop();
}

}  // namespace tunefarm
