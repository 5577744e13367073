// The page /metrics: what the daemon counts, in the text format of Prometheus. Names and meanings stand in one table,
// metrics.cc. Pure: the server of the page takes the snapshot.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "server/data_files/data_file_store.h"
#include "server/data_files/remote_cache.h"
#include "server/exec/evaluator_stats.h"
#include "server/farm/compile_desk.h"
#include "server/jobs/trial_tally.h"
#include "server/store/store_maintenance.h"
#include "server/upkeep/retention.h"

namespace tunefarm {

struct MetricsSnapshot {
  QueueCounts queue;
  TrialCounts trials;  // since the start
  int job_watchers = 0;
  int catalog_watchers = 0;
  int64_t missed_problems = 0;
  int64_t misses_not_counted = 0;  // questions
  int64_t misses_unwritten = 0;    // problems
  CompileDesk::Counts compiles;
  StoreStatus store;
  CommitStats commits;
  int64_t database_bytes_max = 0;             // 0: no bound
  const EvaluatorStats* evaluator = nullptr;  // may be null
  const RetentionStats* retention = nullptr;  // may be null
  std::map<std::string, int64_t> devices;     // by state, "READY"
  int64_t free_disk_bytes = 0, free_disk_bytes_min = 0;
  DataFileStore::Counts data_files;
  int64_t data_file_bytes_max = 0;
  RemoteCache::Counts remote_cache;
  int64_t remote_cache_bytes_max = 0;
  bool is_suspended = false;
  int open_calls = 0;
  int64_t calls_refused = 0, audit_written = 0, audit_left_out = 0, audit_lost = 0;
  int64_t resident_bytes = 0;
  int open_files = 0;
  int workers = 0;
  int64_t started_at_ms = 0;
};

std::string RenderMetrics(const MetricsSnapshot& snapshot);

}  // namespace tunefarm
