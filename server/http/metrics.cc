#include "server/http/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "server/version.h"

namespace tunefarm {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

class MetricsText {
 public:
  // A family with one value, or more of the family just begun.
  MetricsText& Counter(const char* name, const char* help, double value, Labels labels = {}) {
    Metric(name, help, MetricType::Counter, std::move(labels)).counter.value = value;
    return *this;
  }
  MetricsText& Gauge(const char* name, const char* help, double value, Labels labels = {}) {
    Metric(name, help, MetricType::Gauge, std::move(labels)).gauge.value = value;
    return *this;
  }
  void Commits(const char* name, const char* help, const CommitStats& stats) {
    ClientMetric::Histogram& histogram = Metric(name, help, MetricType::Histogram, {}).histogram;
    uint64_t sum = 0;
    for (size_t i = 0; i < stats.by_latency.size(); ++i) {
      sum += static_cast<uint64_t>(stats.by_latency[i]);
      const bool is_last = i == CommitStats::kBoundsMs.size();
      histogram.bucket.push_back(
          {sum, is_last ? std::numeric_limits<double>::infinity() : CommitStats::kBoundsMs[i] / 1e3});
    }
    histogram.sample_count = sum;
    histogram.sample_sum = stats.total_ms / 1e3;
  }
  std::string Text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  ClientMetric& Metric(const char* name, const char* help, MetricType type, Labels labels) {
    if (families_.empty() || families_.back().name != name) families_.push_back({name, help, type, {}});
    families_.back().metric.emplace_back();
    families_.back().metric.back().label = std::move(labels);
    return families_.back().metric.back();
  }

  std::vector<MetricFamily> families_;
};

void AddJobs(const MetricsSnapshot& s, MetricsText* page) {
  static constexpr std::array<const char*, 8> kStates = {"",           "queued",    "running", "paused",
                                                         "cancelling", "succeeded", "failed",  "cancelled"};
  for (size_t i = 1; i < kStates.size(); ++i) {
    page->Gauge("tunefarm_jobs", "Jobs in the database, by state.", static_cast<double>(s.queue.jobs[i]),
                {{"state", kStates[i]}});
  }
  const char* const kUnits = "Work units that are waiting for a device, and that an agent has.";
  page->Gauge("tunefarm_work_units", kUnits, static_cast<double>(s.queue.ready_units), {{"state", "ready"}});
  page->Gauge("tunefarm_work_units", kUnits, static_cast<double>(s.queue.claimed_units), {{"state", "claimed"}});
  page->Gauge("tunefarm_suspended", "1 while jobs are paused for lack of free space.", s.is_suspended ? 1 : 0);
  page->Gauge("tunefarm_watch_streams", "Clients that watch a job.", s.job_watchers);
  page->Gauge("tunefarm_catalog_watch_streams", "Clients that watch the catalog.", s.catalog_watchers);
  page->Gauge("tunefarm_open_calls", "Calls under way.", s.open_calls);
  page->Counter("tunefarm_calls_refused_total", "Calls and handshakes refused for the caller's identity or rate.",
                static_cast<double>(s.calls_refused));
  page->Counter("tunefarm_audit_lines_total", "Lines of the audit log.", static_cast<double>(s.audit_written));
  page->Counter("tunefarm_audit_left_out_total", "Refusals that were not written, since one peer caused too many.",
                static_cast<double>(s.audit_left_out));
  page->Counter("tunefarm_audit_lost_total", "Lines of the audit log that could not be written.",
                static_cast<double>(s.audit_lost));
  page->Counter("tunefarm_lookups_total", "Problems looked up in the catalog.", static_cast<double>(s.trials.lookups));
  for (int i = tunefarm::v1::Match_MIN + 1; i <= tunefarm::v1::Match_MAX; ++i) {
    const std::string name = tunefarm::v1::Match_Name(static_cast<tunefarm::v1::Match>(i));
    page->Counter("tunefarm_lookup_answers_total", "Answers to look-ups, by how well they matched.",
                  static_cast<double>(s.trials.answers[static_cast<size_t>(i)]),
                  {{"match", absl::AsciiStrToLower(name.substr(std::string_view("MATCH_").size()))}});
  }
  page->Gauge("tunefarm_missed_problems", "Problems in the list of misses.", static_cast<double>(s.missed_problems));
  page->Gauge("tunefarm_unwritten_misses",
              "Problems in the list of misses whose latest count is not in the database yet.",
              static_cast<double>(s.misses_unwritten));
  page->Counter("tunefarm_misses_not_counted_total",
                "Look-ups that were not counted, since the list of misses was full.",
                static_cast<double>(s.misses_not_counted));
  page->Counter("tunefarm_configs_taken_total", "Configs given to agents that compile for others.",
                static_cast<double>(s.compiles.taken));
  page->Counter("tunefarm_binaries_offered_total", "Binaries that agents have compiled for others.",
                static_cast<double>(s.compiles.offered));
  page->Counter("tunefarm_binaries_found_total", "Requests for a binary that another agent had compiled.",
                static_cast<double>(s.compiles.found));
}

void AddTrials(const TrialCounts& trials, MetricsText* page) {
  for (int i = tunefarm::v1::Outcome_MIN + 1; i <= tunefarm::v1::Outcome_MAX; ++i) {
    if (!tunefarm::v1::Outcome_IsValid(i)) continue;
    const auto outcome = static_cast<tunefarm::v1::Outcome>(i);
    const auto found = trials.by_outcome.find(outcome);
    const std::string name = tunefarm::v1::Outcome_Name(outcome);
    page->Counter("tunefarm_trials_total", "Trials that ended, by outcome.",
                  found == trials.by_outcome.end() ? 0 : static_cast<double>(found->second),
                  {{"outcome", absl::AsciiStrToLower(name.substr(std::string_view("OUTCOME_").size()))}});
  }
  page->Counter("tunefarm_trials_reused_total", "Trials answered by the measurement of an equal one.",
                static_cast<double>(trials.reused));
  for (const auto& [uuid, ms] : trials.busy_ms_by_device) {
    page->Counter("tunefarm_device_busy_seconds_total", "Device time spent on trials.", ms / 1e3, {{"device", uuid}});
  }
}

void AddEvaluator(const EvaluatorStats& stats, MetricsText* page) {
  const auto read = [](const std::atomic<int64_t>& value) { return static_cast<double>(value.load()); };
  const char* const kCompiles = "Configs compiled, without those whose binary was in the cache.";
  page->Counter("tunefarm_compiles_total", kCompiles, read(stats.compiles_ok), {{"result", "ok"}});
  page->Counter("tunefarm_compiles_total", kCompiles, read(stats.compiles_failed), {{"result", "failed"}});
  page->Counter("tunefarm_compile_seconds_total", "Time that compile workers worked, summed.",
                read(stats.compile_us) / 1e6);
  page->Counter("tunefarm_runners_started_total", "Run workers started.", read(stats.runners_started));
  page->Counter("tunefarm_runner_crashes_total", "Run workers that crashed, hung or damaged their context.",
                read(stats.runner_crashes));
  page->Counter("tunefarm_runner_takeovers_total", "Crashes after which a standby took over.", read(stats.takeovers));
  page->Gauge("tunefarm_runner_last_takeover_seconds", "Time from the detection of the last crash to the next launch.",
              read(stats.last_takeover_us) / 1e6);
  page->Gauge("tunefarm_binary_cache_bytes", "Compiled binaries on disk.", read(stats.cache_bytes));
  page->Gauge("tunefarm_binary_cache_max_bytes", "Limit for compiled binaries on disk; 0: the cache is off.",
              read(stats.cache_bytes_max));
  page->Counter("tunefarm_binary_cache_hits_total", "Binaries found in the cache.", read(stats.cache_hits));
  page->Counter("tunefarm_binary_cache_misses_total", "Binaries not found in the cache.", read(stats.cache_misses));
  page->Counter("tunefarm_binary_cache_evictions_total", "Binaries removed to make room.", read(stats.cache_evictions));
  page->Counter("tunefarm_binary_cache_corrupt_total", "Damaged binaries found and removed.",
                read(stats.cache_corrupt));
}

void AddStore(const MetricsSnapshot& s, MetricsText* page) {
  page->Commits("tunefarm_store_commit_seconds", "Transactions with their sync to disk.", s.commits);
  page->Counter("tunefarm_store_commit_failures_total", "Transactions that could not be stored.",
                static_cast<double>(s.commits.failed));
  page->Counter("tunefarm_store_writes_total", "Writes that the transactions carried.",
                static_cast<double>(s.commits.operations));
  page->Gauge("tunefarm_store_queue_length", "Writes that wait for the next transaction.",
              static_cast<double>(s.commits.waiting));
  page->Gauge("tunefarm_database_bytes", "Size of the database file.", static_cast<double>(s.store.database_bytes));
  page->Gauge("tunefarm_database_used_bytes", "Size of the database without its free pages.",
              static_cast<double>(s.store.used_bytes));
  page->Gauge("tunefarm_database_max_bytes", "Limit for the size of the database; 0: none.",
              static_cast<double>(s.database_bytes_max));
  page->Gauge("tunefarm_stored_trials", "Trials in the database.", static_cast<double>(s.store.stored_trials));
  page->Gauge("tunefarm_disk_free_bytes", "Free space in the data directory's file system.",
              static_cast<double>(s.free_disk_bytes));
  page->Gauge("tunefarm_disk_floor_bytes", "Free space below which jobs pause; 0: never.",
              static_cast<double>(s.free_disk_bytes_min));
  page->Gauge("tunefarm_data_files", "Data files that users have uploaded.", static_cast<double>(s.data_files.files));
  page->Gauge("tunefarm_data_file_bytes", "Size of these files.", static_cast<double>(s.data_files.bytes));
  page->Gauge("tunefarm_data_file_max_bytes", "Limit for the size of data files and uploads under way.",
              static_cast<double>(s.data_file_bytes_max));
  page->Gauge("tunefarm_data_file_uploads", "Uploads of data files that were begun and are not complete.",
              static_cast<double>(s.data_files.uploads));
  page->Counter("tunefarm_data_files_removed_total", "Data files removed to make room for others.",
                static_cast<double>(s.data_files.removed));
  page->Gauge("tunefarm_remote_cache_entries", "Entries of caches that other programs keep here.",
              static_cast<double>(s.remote_cache.entries));
  page->Gauge("tunefarm_remote_cache_bytes", "Size of these entries on the disk.",
              static_cast<double>(s.remote_cache.bytes));
  page->Gauge("tunefarm_remote_cache_max_bytes", "Limit for the size of these entries; 0: none are kept.",
              static_cast<double>(s.remote_cache_bytes_max));
  page->Counter("tunefarm_remote_cache_hits_total", "Entries that were found.",
                static_cast<double>(s.remote_cache.hits));
  page->Counter("tunefarm_remote_cache_misses_total", "Looks for an entry that was not there.",
                static_cast<double>(s.remote_cache.misses));
  page->Counter("tunefarm_remote_cache_removed_total", "Entries removed to make room for others.",
                static_cast<double>(s.remote_cache.removed));
  page->Counter("tunefarm_remote_cache_damaged_total", "Entries removed because their files were damaged.",
                static_cast<double>(s.remote_cache.damaged));
  if (s.retention == nullptr) return;
  const char* const kDeleted = "Removed by retention.";
  const auto deleted = [&](const char* what, const std::atomic<int64_t>& count) {
    page->Counter("tunefarm_retention_deleted_total", kDeleted, static_cast<double>(count.load()), {{"what", what}});
  };
  deleted("jobs", s.retention->jobs_deleted);
  deleted("trial_data", s.retention->trial_data_deleted);
  deleted("kernels", s.retention->kernels_deleted);
}

void AddProcess(const MetricsSnapshot& s, MetricsText* page) {
  page->Gauge("tunefarm_build_info", "Always 1.", 1, {{"version", TUNEFARM_VERSION}, {"revision", TUNEFARM_REVISION}});
  page->Gauge("tunefarm_worker_processes", "Worker processes that run.", s.workers);
  for (const auto& [state, count] : s.devices) {
    page->Gauge("tunefarm_devices", "Devices of this machine, by state.", static_cast<double>(count),
                {{"state", absl::AsciiStrToLower(state)}});
  }
  page->Gauge("process_resident_memory_bytes", "Resident memory of the daemon.", static_cast<double>(s.resident_bytes));
  page->Gauge("process_open_fds", "Open descriptors of the daemon.", s.open_files);
  page->Gauge("process_start_time_seconds", "When the daemon started, seconds since 1970.",
              static_cast<double>(s.started_at_ms) / 1e3);
}

}  // namespace

std::string RenderMetrics(const MetricsSnapshot& snapshot) {
  MetricsText page;
  AddJobs(snapshot, &page);
  AddTrials(snapshot.trials, &page);
  if (snapshot.evaluator != nullptr) AddEvaluator(*snapshot.evaluator, &page);
  AddStore(snapshot, &page);
  AddProcess(snapshot, &page);
  return page.Text();
}

}  // namespace tunefarm
