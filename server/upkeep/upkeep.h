// Upkeep: what the daemon does for its own bounds and records, on a thread of its own: retention, the floors of free
// space, and writing of misses.
//
// Threads: all methods from the main thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/base/executor.h"
#include "server/catalog/misses.h"
#include "server/jobs/scheduler.h"
#include "server/store/store.h"
#include "server/upkeep/miss_writer.h"
#include "server/upkeep/retention.h"
#include "server/upkeep/space_floor.h"

namespace tunefarm {

struct UpkeepOptions {
  std::string data_directory;
  int64_t min_free_disk_bytes = 0;
  int64_t max_database_bytes = 0;  // 0: no bound
  int keep_logs_days = 0;
  int keep_jobs_days = 0;
};

class Upkeep {
 public:
  // All outlive it. Checks the space once, so that nothing starts without it, and then goes on by itself.
  Upkeep(const UpkeepOptions& options, Store* store, Scheduler* scheduler, Misses* misses, Clock* clock);
  // Ends what is under way at its next step.
  ~Upkeep();

  const RetentionStats& retention() const { return retention_->stats(); }

 private:
  ThreadExecutor executor_;
  std::shared_ptr<SpaceFloor> floor_;
  std::shared_ptr<Retention> retention_;
  std::shared_ptr<MissWriter> miss_writer_;
};

}  // namespace tunefarm
