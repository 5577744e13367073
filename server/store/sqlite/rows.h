#pragma once

// Column lists and the rows they read into, in one place so that they cannot drift apart. Each Read… expects its
// columns from column 0 of the statement's current row.

#include <string>

#include "server/store/sqlite/statement.h"
#include "server/store/store.h"

namespace tunefarm::sqlite {

#define TUNEFARM_KERNEL_COLUMNS "kernel_id, program_digest, display_name, definition, created_at_ms"
KernelRow ReadKernel(const Statement& row);

#define TUNEFARM_JOB_COLUMNS                                                                                      \
  "job_id, uid, kernel_id, (SELECT p.spec FROM job_spec p WHERE p.job_id = job.job_id), state, priority, error, " \
  "created_at_ms, started_at_ms, ended_at_ms"
JobRow ReadJob(const Statement& row);

#define TUNEFARM_STUDY_COLUMNS                                                                          \
  "study_id, number, problem_key, problem, class_id, device_uuid, space_summary, state, next_ordinal, " \
  "device_busy_ms, toolkit"
StudyRow ReadStudy(const Statement& row);

#define TUNEFARM_AGENT_COLUMNS "agent_id, host, detail, epoch, draining, registered_at_ms, lease_until_ms"
// now_ms: of leases.
AgentRow ReadAgent(const Statement& row, int64_t now_ms);

#define TUNEFARM_UNIT_COLUMNS                                                                                         \
  "u.unit_id, u.study_id, u.kind, u.state, u.first_ordinal, u.trial_count, u.rounds, u.payload, u.token, u.attempt, " \
  "u.losses, u.suspects_end, u.handed_end"
inline constexpr int kUnitColumns = 13;
UnitRow ReadUnit(const Statement& row);

// Without log and samples.
#define TUNEFARM_TRIAL_COLUMNS                                                                                    \
  "t.study_id, t.ordinal, t.attempt, t.outcome, t.purpose, t.config, t.median_ns, t.device_uuid, t.ended_at_ms, " \
  "t.detail"
inline constexpr int kTrialColumns = 10;
TrialRow ReadTrial(const Statement& row);

#define TUNEFARM_BEST_COLUMNS                                                                                    \
  "program_digest, problem_key, class_id, kernel_name, kernel_id, config, detail, median_ns, job_id, study_id, " \
  "ordinal, revision, promoted_at_ms, pinned, note"
inline constexpr int kBestColumns = 15;
BestRow ReadBest(const Statement& row);

// The best's columns first.
#define TUNEFARM_BEST_CHANGE_COLUMNS                                                                             \
  "program_digest, problem_key, class_id, kernel_name, kernel_id, config, detail, median_ns, job_id, study_id, " \
  "ordinal, best_revision, promoted_at_ms, pinned, note, revision, kind, reason, changed_at_ms"
BestChangeRow ReadBestChange(const Statement& row);

// "[1,2,3]", for json_each: how a list is bound to one parameter.
template <typename Numbers>
std::string JsonList(const Numbers& numbers) {
  std::string text = "[";
  for (const auto number : numbers) {
    if (text.size() > 1) text += ',';
    text += std::to_string(static_cast<int>(number));
  }
  return text + "]";
}

}  // namespace tunefarm::sqlite
