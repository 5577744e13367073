#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {

KernelRow ReadKernel(const Statement& row) {
  KernelRow kernel;
  kernel.kernel_id = row.Bytes(0);
  kernel.program_digest = row.Bytes(1);
  kernel.display_name = row.Bytes(2);
  kernel.definition = row.Bytes(3);
  kernel.created_at_ms = row.Int(4);
  return kernel;
}

JobRow ReadJob(const Statement& row) {
  JobRow job;
  job.job_id = row.Int(0);
  job.uid = row.Bytes(1);
  job.kernel_id = row.Bytes(2);
  job.spec = row.Bytes(3);
  job.state = static_cast<JobState>(row.Int(4));
  job.priority = static_cast<int>(row.Int(5));
  job.error = row.Bytes(6);
  job.created_at_ms = row.Int(7);
  job.started_at_ms = row.Int(8);
  job.ended_at_ms = row.Int(9);
  return job;
}

StudyRow ReadStudy(const Statement& row) {
  StudyRow study;
  study.study_id = row.Int(0);
  study.number = static_cast<int>(row.Int(1));
  study.problem_key = row.Bytes(2);
  study.problem = row.Bytes(3);
  study.class_id = row.Bytes(4);
  study.device_uuid = row.Bytes(5);
  study.space_summary = row.Bytes(6);
  study.state = static_cast<StudyState>(row.Int(7));
  study.next_ordinal = row.Int(8);
  study.device_busy_ms = row.Real(9);
  study.toolkit = row.Bytes(10);
  return study;
}

AgentRow ReadAgent(const Statement& row, int64_t now_ms) {
  AgentRow agent;
  agent.agent_id = row.Bytes(0);
  agent.host = row.Bytes(1);
  agent.detail = row.Bytes(2);
  agent.epoch = row.Int(3);
  agent.draining = row.Int(4) != 0;
  agent.registered_at_ms = row.Int(5);
  if (!row.IsNull(6)) agent.lease_left_ms = row.Int(6) - now_ms;
  return agent;
}

UnitRow ReadUnit(const Statement& row) {
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

TrialRow ReadTrial(const Statement& row) {
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

BestRow ReadBest(const Statement& row) {
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

BestChangeRow ReadBestChange(const Statement& row) {
  BestChangeRow change;
  change.best = ReadBest(row);
  change.revision = row.Int(kBestColumns);
  change.kind = static_cast<BestChangeKind>(row.Int(kBestColumns + 1));
  change.reason = row.Bytes(kBestColumns + 2);
  change.changed_at_ms = row.Int(kBestColumns + 3);
  return change;
}

}  // namespace tunefarm::sqlite
