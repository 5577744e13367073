#include "server/http/metrics.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/job_rows.h"
#include "server/store/store_maintenance.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Metrics, EveryNumberStandsUnderItsNameAndLabels) {
  EvaluatorStats evaluator;
  evaluator.runners_started = 3;
  evaluator.runner_crashes = 1;
  evaluator.last_takeover_us = 12'500;
  evaluator.cache_bytes = 4096;
  evaluator.compile_us = 1'500'000;
  RetentionStats retention;
  retention.jobs_deleted = 2;
  MetricsSnapshot snapshot;
  snapshot.evaluator = &evaluator;
  snapshot.retention = &retention;
  snapshot.queue.jobs[static_cast<size_t>(JobState::kPaused)] = 4;
  snapshot.queue.ready_units = 7;
  snapshot.trials.by_outcome[tunefarm::v1::OUTCOME_WRONG_RESULT] = 5;
  snapshot.trials.busy_ms_by_device["GPU-\"1\""] = 2500;
  snapshot.job_watchers = 6;
  snapshot.catalog_watchers = 9;
  snapshot.trials.answers[tunefarm::v1::MATCH_NEAREST_SHAPE] = 8;
  snapshot.missed_problems = 9;
  snapshot.devices["READY"] = 1;
  snapshot.data_files = {3, 4096, 1, 2};
  snapshot.data_file_bytes_max = 8192;
  snapshot.remote_cache = {4, 16384, 5, 6, 7, 8};
  snapshot.remote_cache_bytes_max = 32768;
  snapshot.commits.by_latency[0] = 1;                              // up to 0.5 ms
  snapshot.commits.by_latency[CommitStats::kBoundsMs.size()] = 2;  // over 2 s
  snapshot.commits.total_ms = 6000;
  const std::string page = RenderMetrics(snapshot);
  for (const char* line : {
           "tunefarm_runners_started_total 3\n",
           "tunefarm_runner_crashes_total 1\n",
           "tunefarm_runner_last_takeover_seconds 0.0125\n",
           "tunefarm_binary_cache_bytes 4096\n",
           "tunefarm_compile_seconds_total 1.5\n",
           "tunefarm_retention_deleted_total{what=\"jobs\"} 2\n",
           "tunefarm_jobs{state=\"paused\"} 4\n",
           "tunefarm_jobs{state=\"running\"} 0\n",
           "tunefarm_work_units{state=\"ready\"} 7\n",
           "tunefarm_trials_total{outcome=\"wrong_result\"} 5\n",
           "tunefarm_trials_total{outcome=\"ok\"} 0\n",
           "tunefarm_device_busy_seconds_total{device=\"GPU-\\\"1\\\"\"} 2.5\n",
           "tunefarm_watch_streams 6\n",
           "tunefarm_catalog_watch_streams 9\n",
           "tunefarm_lookup_answers_total{match=\"nearest_shape\"} 8\n",
           "tunefarm_lookup_answers_total{match=\"exact\"} 0\n",
           "tunefarm_missed_problems 9\n",
           "tunefarm_devices{state=\"ready\"} 1\n",
           "tunefarm_data_files 3\n",
           "tunefarm_data_file_bytes 4096\n",
           "tunefarm_data_file_max_bytes 8192\n",
           "tunefarm_data_file_uploads 1\n",
           "tunefarm_data_files_removed_total 2\n",
           "tunefarm_remote_cache_entries 4\n",
           "tunefarm_remote_cache_bytes 16384\n",
           "tunefarm_remote_cache_max_bytes 32768\n",
           "tunefarm_remote_cache_hits_total 5\n",
           "tunefarm_remote_cache_misses_total 6\n",
           "tunefarm_remote_cache_removed_total 7\n",
           "tunefarm_remote_cache_damaged_total 8\n",
           "tunefarm_store_commit_seconds_bucket{le=\"0.0005\"} 1\n",
           "tunefarm_store_commit_seconds_bucket{le=\"2\"} 1\n",
           "tunefarm_store_commit_seconds_bucket{le=\"+Inf\"} 3\n",
           "tunefarm_store_commit_seconds_sum 6\n",
           "tunefarm_store_commit_seconds_count 3\n",
       }) {
    EXPECT_THAT(page, HasSubstr(line));
  }
}

TEST(Metrics, WhatIsNotThereIsLeftOut) {
  const std::string page = RenderMetrics(MetricsSnapshot());
  EXPECT_THAT(page, Not(HasSubstr("tunefarm_runners_started_total")));
  EXPECT_THAT(page, Not(HasSubstr("tunefarm_retention_deleted_total")));
  EXPECT_THAT(page, HasSubstr("tunefarm_stored_trials 0\n"));
}

}  // namespace
}  // namespace tunefarm
