#pragma once

// Column lists and the rows they read into, in one place so that they cannot drift apart. Each Read… expects its
// columns from column 0 of the statement's current row.

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "server/base/hash.h"
#include "server/store/postgres/session.h"
#include "server/store/store.h"

namespace tunefarm::postgres {

#define TUNEFARM_PG_KERNEL_COLUMNS "kernel_id, program_digest, display_name, definition, created_at_ms"
KernelRow ReadKernel(const Row& row);

#define TUNEFARM_PG_JOB_COLUMNS                                                                                   \
  "job_id, uid, kernel_id, (SELECT p.spec FROM job_spec p WHERE p.job_id = job.job_id), state, priority, error, " \
  "created_at_ms, started_at_ms, ended_at_ms"
JobRow ReadJob(const Row& row);

#define TUNEFARM_PG_STUDY_COLUMNS                                                                       \
  "study_id, number, problem_key, problem, class_id, device_uuid, space_summary, state, next_ordinal, " \
  "device_busy_ms, toolkit"
StudyRow ReadStudy(const Row& row);

#define TUNEFARM_PG_AGENT_COLUMNS                               \
  "agent_id, host, detail, epoch, draining, registered_at_ms, " \
  "(extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint"
AgentRow ReadAgent(const Row& row);

#define TUNEFARM_PG_UNIT_COLUMNS                                                                                      \
  "u.unit_id, u.study_id, u.kind, u.state, u.first_ordinal, u.trial_count, u.rounds, u.payload, u.token, u.attempt, " \
  "u.losses, u.suspects_end, u.handed_end"
inline constexpr int kUnitColumns = 13;
UnitRow ReadUnit(const Row& row);

// Without log and samples.
#define TUNEFARM_PG_TRIAL_COLUMNS                                                                                 \
  "t.study_id, t.ordinal, t.attempt, t.outcome, t.purpose, t.config, t.median_ns, t.device_uuid, t.ended_at_ms, " \
  "t.detail"
inline constexpr int kTrialColumns = 10;
TrialRow ReadTrial(const Row& row);

#define TUNEFARM_PG_BEST_COLUMNS                                                                                 \
  "program_digest, problem_key, class_id, kernel_name, kernel_id, config, detail, median_ns, job_id, study_id, " \
  "ordinal, revision, promoted_at_ms, pinned, note"
inline constexpr int kBestColumns = 15;
BestRow ReadBest(const Row& row);

// The best's columns first.
#define TUNEFARM_PG_BEST_CHANGE_COLUMNS                                                                          \
  "program_digest, problem_key, class_id, kernel_name, kernel_id, config, detail, median_ns, job_id, study_id, " \
  "ordinal, best_revision, promoted_at_ms, pinned, note, revision, kind, reason, changed_at_ms"
BestChangeRow ReadBestChange(const Row& row);

// Stands for a key whose parts may be longer than an index entry: the SHA-256 of each with its length before it.
Digest KeyOf(const std::vector<std::string>& parts);
Digest KeyOf(std::initializer_list<std::string_view> parts);
inline Digest KeyOf(const BestKey& key) { return KeyOf({key.program_digest, key.problem_key, key.class_id}); }
inline Digest KeyOf(const BestRow& best) { return KeyOf({best.program_digest, best.problem_key, best.class_id}); }

// The states or outcomes of a filter, sorted: how they are bound, and how a page token names them.
template <typename Numbers>
std::vector<int64_t> Sorted(const Numbers& numbers) {
  std::vector<int64_t> sorted;
  for (const auto number : numbers) sorted.push_back(static_cast<int64_t>(number));
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}
std::string ListOf(const std::vector<int64_t>& numbers);

// Reads every row with one of the functions above.
template <typename T>
std::vector<T> ReadAll(const Rows& rows, T (*read)(const Row&)) {
  std::vector<T> values;
  values.reserve(static_cast<size_t>(rows.size()));
  for (int i = 0; i < rows.size(); ++i) values.push_back(read(rows[i]));
  return values;
}

}  // namespace tunefarm::postgres
