// Upkeep: what the daemon does for its own bounds and records, on a thread of its own: retention, the floors of free
// space, and writing misses down.
//
// Threads: all methods from the main thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/base/executor.h"
#include "server/daemon/config.h"
#include "server/jobs/job_service.h"
#include "server/jobs/miss_writer.h"
#include "server/jobs/retention.h"
#include "server/jobs/space_floor.h"
#include "server/store/store.h"

namespace tunefarm {

class Upkeep {
 public:
  // Both outlive it. Checks the space once, so that nothing starts without it, and then goes on by itself.
  Upkeep(const DaemonConfig& config, Store* store, JobService* jobs, Clock* clock);
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
