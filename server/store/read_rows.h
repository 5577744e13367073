// Column lists and the rows they read into, the same on all stores and in one place so that they cannot drift apart.
// Each Read… expects its columns from column 0 of `row`.
#pragma once

#include "server/store/agent_store.h"
#include "server/store/best_store.h"
#include "server/store/device_store.h"
#include "server/store/job_rows.h"
#include "server/store/kernel_store.h"
#include "server/store/lease_store.h"
#include "server/store/lookup_store.h"
#include "server/store/poison_store.h"
#include "server/store/shared/sql.h"
#include "server/store/token_store.h"

namespace tunefarm {

#define TUNEFARM_KERNEL_COLUMNS "kernel_id, program_digest, display_name, definition, created_at_ms, owner"
inline KernelRow ReadKernel(const SqlRow& row) {
  KernelRow kernel;
  kernel.kernel_id = row.Bytes(0);
  kernel.program_digest = row.Bytes(1);
  kernel.display_name = row.Bytes(2);
  kernel.definition = row.Bytes(3);
  kernel.created_at_ms = row.Int(4);
  kernel.owner = row.Bytes(5);
  return kernel;
}

#define TUNEFARM_JOB_COLUMNS                                                                               \
  "job_id, uid, kernel_id, (SELECT p.spec FROM job_spec p WHERE p.job_id = job.job_id), state, priority, " \
  "state_reason, "                                                                                         \
  "created_at_ms, started_at_ms, ended_at_ms"
inline JobRow ReadJob(const SqlRow& row) {
  JobRow job;
  job.job_id = row.Int(0);
  job.uid = row.Bytes(1);
  job.kernel_id = row.Bytes(2);
  job.spec = row.Bytes(3);
  job.state = static_cast<JobState>(row.Int(4));
  job.priority = static_cast<int>(row.Int(5));
  job.state_reason = row.Bytes(6);
  job.created_at_ms = row.Int(7);
  job.started_at_ms = row.Int(8);
  job.ended_at_ms = row.Int(9);
  return job;
}

#define TUNEFARM_STUDY_COLUMNS                                                                       \
  "study_id, number, problem_key, problem, class_id, device_selector, detail, state, next_ordinal, " \
  "device_busy_ms, toolkit"
inline StudyRow ReadStudy(const SqlRow& row) {
  StudyRow study;
  study.study_id = row.Int(0);
  study.number = static_cast<int>(row.Int(1));
  study.problem_key = row.Bytes(2);
  study.problem = row.Bytes(3);
  study.class_id = row.Bytes(4);
  study.device_selector = row.Bytes(5);
  study.detail = row.Bytes(6);
  study.state = static_cast<StudyState>(row.Int(7));
  study.next_ordinal = row.Int(8);
  study.device_busy_ms = row.Real(9);
  study.toolkit = row.Bytes(10);
  return study;
}

#define TUNEFARM_UNIT_COLUMNS                                                                                         \
  "u.unit_id, u.study_id, u.kind, u.state, u.first_ordinal, u.trial_count, u.rounds, u.payload, u.token, u.attempt, " \
  "u.losses, u.suspects_end, u.handed_end"
inline constexpr int kUnitColumns = 13;
inline UnitRow ReadUnit(const SqlRow& row) {
  UnitRow unit;
  unit.unit_id = row.Int(0);
  unit.study_id = row.Int(1);
  unit.kind = static_cast<UnitKind>(row.Int(2));
  unit.state = static_cast<UnitState>(row.Int(3));
  unit.first_ordinal = row.Int(4);
  unit.trial_count = static_cast<int>(row.Int(5));
  unit.rounds = static_cast<int>(row.Int(6));
  unit.payload = row.Bytes(7);
  unit.token = row.Int(8);
  unit.attempt = static_cast<int>(row.Int(9));
  unit.losses = static_cast<int>(row.Int(10));
  unit.suspects_end = row.Int(11);
  unit.handed_end = row.Int(12);
  return unit;
}

// Without log and samples.
#define TUNEFARM_TRIAL_COLUMNS                                                                                    \
  "t.study_id, t.ordinal, t.attempt, t.outcome, t.purpose, t.config, t.median_ns, t.device_uuid, t.ended_at_ms, " \
  "t.detail"
inline constexpr int kTrialColumns = 10;
inline TrialRow ReadTrial(const SqlRow& row) {
  TrialRow trial;
  trial.study_id = row.Int(0);
  trial.ordinal = row.Int(1);
  trial.attempt = static_cast<int>(row.Int(2));
  trial.outcome = static_cast<int>(row.Int(3));
  trial.purpose = static_cast<int>(row.Int(4));
  trial.config = row.Bytes(5);
  trial.median_ns = row.Real(6);
  trial.device_uuid = row.Bytes(7);
  trial.ended_at_ms = row.Int(8);
  trial.detail = row.Bytes(9);
  return trial;
}

#define TUNEFARM_BEST_COLUMNS                                                                                    \
  "program_digest, problem_key, class_id, kernel_name, kernel_id, config, detail, median_ns, job_id, study_id, " \
  "ordinal, revision, promoted_at_ms, pinned, note"
inline constexpr int kBestColumns = 15;
inline BestRow ReadBest(const SqlRow& row) {
  BestRow best;
  best.program_digest = row.Bytes(0);
  best.problem_key = row.Bytes(1);
  best.class_id = row.Bytes(2);
  best.kernel_name = row.Bytes(3);
  best.kernel_id = row.Bytes(4);
  best.config = row.Bytes(5);
  best.detail = row.Bytes(6);
  best.median_ns = row.Real(7);
  best.job_id = row.Int(8);
  best.study_id = row.Int(9);
  best.ordinal = row.Int(10);
  best.revision = row.Int(11);
  best.promoted_at_ms = row.Int(12);
  best.pinned = row.Int(13) != 0;
  best.note = row.Bytes(14);
  return best;
}

// The best's columns first.
#define TUNEFARM_BEST_CHANGE_COLUMNS                                                                             \
  "program_digest, problem_key, class_id, kernel_name, kernel_id, config, detail, median_ns, job_id, study_id, " \
  "ordinal, best_revision, promoted_at_ms, pinned, note, revision, kind, reason, changed_at_ms"
inline BestChangeRow ReadBestChange(const SqlRow& row) {
  BestChangeRow change;
  change.best = ReadBest(row);
  change.revision = row.Int(kBestColumns);
  change.kind = static_cast<BestChangeKind>(row.Int(kBestColumns + 1));
  change.reason = row.Bytes(kBestColumns + 2);
  change.changed_at_ms = row.Int(kBestColumns + 3);
  return change;
}

#define TUNEFARM_MISS_COLUMNS                                                                    \
  "kernel_name, problem_key, class_id, class_name, program_digest, problem, asked, last_match, " \
  "last_distance, first_asked_at_ms, last_asked_at_ms"
inline MissRow ReadMiss(const SqlRow& row) {
  MissRow miss;
  miss.kernel_name = row.Bytes(0);
  miss.problem_key = row.Bytes(1);
  miss.class_id = row.Bytes(2);
  miss.class_name = row.Bytes(3);
  miss.program_digest = row.Bytes(4);
  miss.problem = row.Bytes(5);
  miss.asked = row.Int(6);
  miss.match = static_cast<int>(row.Int(7));
  miss.distance = row.Real(8);
  miss.first_asked_at_ms = row.Int(9);
  miss.last_asked_at_ms = row.Int(10);
  return miss;
}

#define TUNEFARM_POISON_COLUMNS "program_digest, class_id, config, problem_key, toolkit, outcome, crashes"
inline PoisonRow ReadPoison(const SqlRow& row) {
  PoisonRow poison;
  poison.program_digest = row.Bytes(0);
  poison.class_id = row.Bytes(1);
  poison.config = row.Bytes(2);
  poison.problem_key = row.Bytes(3);
  poison.toolkit = row.Bytes(4);
  poison.outcome = static_cast<int>(row.Int(5));
  poison.crashes = static_cast<int>(row.Int(6));
  return poison;
}

#define TUNEFARM_DEVICE_ORDER_COLUMNS "device_uuid, held_out, accepted_sentinels_ms, set_at_ms, revision"
inline DeviceOrderRow ReadDeviceOrder(const SqlRow& row) {
  return {row.Bytes(0), row.Bytes(1), row.Int(2), row.Int(3), row.Int(4)};
}

#define TUNEFARM_AGREED_RUN_COLUMNS "run_id, owner, catalog_revision, begun_at_ms, last_used_at_ms"
inline AgreedRunRow ReadAgreedRun(const SqlRow& row) {
  return {row.Bytes(0), row.Bytes(1), row.Int(2), row.Int(3), row.Int(4)};
}

#define TUNEFARM_TOKEN_COLUMNS "name, digest, roles, created_at_ms, expires_at_ms, last_used_at_ms, revoked_at_ms"
inline TokenRow ReadToken(const SqlRow& row) {
  TokenRow token;
  token.name = row.Bytes(0);
  token.digest = row.Bytes(1);
  token.roles = row.Bytes(2);
  token.created_at_ms = row.Int(3);
  token.expires_at_ms = row.Int(4);
  token.last_used_at_ms = row.Int(5);
  token.revoked_at_ms = row.Int(6);
  return token;
}

// The last column of this and of the next one: the milliseconds left of the lease, which each database counts its own
// way.
#define TUNEFARM_AGENT_COLUMNS "agent_id, host, detail, epoch, draining, registered_at_ms, "
inline AgentRow ReadAgent(const SqlRow& row) {
  AgentRow agent;
  agent.agent_id = row.Bytes(0);
  agent.host = row.Bytes(1);
  agent.detail = row.Bytes(2);
  agent.epoch = row.Int(3);
  agent.draining = row.Int(4) != 0;
  agent.registered_at_ms = row.Int(5);
  if (!row.IsNull(6)) agent.lease_left_ms = row.Int(6);
  return agent;
}

#define TUNEFARM_LEASE_COLUMNS "name, holder, detail, epoch, "
inline LeaseRow ReadLease(const SqlRow& row) {
  return {row.Bytes(0), row.Bytes(1), row.Bytes(2), row.Int(3), row.Int(4)};
}

}  // namespace tunefarm
