#include "server/store/shared/studies.h"

#include <algorithm>
#include <set>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/postgres/facets.h"
#include "server/store/read_rows.h"
#include "server/store/transitions.h"

namespace tunefarm::postgres {
namespace {

// What a step needs to know of its study, whose row it holds until its end.
struct DrivenStudy {
  std::string class_id;
  std::string device_selector;
  int64_t next_ordinal = 0;
  int64_t last_event = 0;
  double device_busy_ms = 0;
  int64_t step = 0;
  int64_t job_id = 0;
  int64_t priority = 0;
  JobState job_state = JobState::kQueued;
};

absl::StatusOr<DrivenStudy> LoadDriven(Session& session, const DriveStep& step) {
  // The job first, and shared: its studies may take steps at the same time, and nobody adopts it meanwhile.
  ASSIGN_OR_RETURN(const Rows job,
                   session.Query("SELECT j.job_id, j.priority, j.driver_epoch, j.state FROM job j WHERE j.job_id = "
                                 "(SELECT s.job_id FROM study s WHERE s.study_id = $1) FOR SHARE",
                                 step.study_id));
  ASSIGN_OR_RETURN(
      const Rows study,
      session.Query("SELECT class_id, device_selector, state FROM study WHERE study_id = $1 FOR NO KEY UPDATE",
                    step.study_id));
  if (job.empty() || study.empty()) return NotFound("study {} does not exist", step.study_id);
  RETURN_IF_ERROR(CheckDriver(job[0].Int(0), step.driver_epoch, job[0].Int(2)));
  RETURN_IF_ERROR(CheckStep(step.study_id, static_cast<StudyState>(study[0].Int(2)), step.state));
  // After the lock was taken: a statement sees what was there when it began.
  ASSIGN_OR_RETURN(
      const Rows now,
      session.Query("SELECT next_ordinal, last_event, device_busy_ms, step FROM study_now WHERE study_id = $1",
                    step.study_id));
  return DrivenStudy{study[0].Bytes(0), study[0].Bytes(1), now[0].Int(0),
                     now[0].Int(1),     now[0].Real(2),    now[0].Int(3),
                     job[0].Int(0),     job[0].Int(1),     static_cast<JobState>(job[0].Int(3))};
}

absl::Status AppendEvents(Session& session, const DriveStep& step, StudyEvent::Kind kind,
                          const std::vector<int64_t>& unit_ids, DrivenStudy* study) {
  const int64_t before = study->last_event;
  study->last_event += static_cast<int64_t>(unit_ids.size());
  return session.Run(
      "INSERT INTO study_event (study_id, sequence, kind, unit_id, at_ms) SELECT $1, $2 + e.place, $3, e.unit_id, "
      "$4 FROM unnest($5) WITH ORDINALITY AS e(unit_id, place)",
      step.study_id, before, static_cast<int>(kind), step.now_ms, unit_ids);
}

absl::Status Tell(Session& session, const DriveStep& step, DrivenStudy* study) {
  if (step.told_unit_ids.empty()) return absl::OkStatus();
  // By their ids, whatever plans are made for: the study's other indexes hold all that it ever had.
  ASSIGN_OR_RETURN(const Rows told, session.Query("UPDATE work_unit u SET state = 4 WHERE u.unit_id = ANY($2) AND "
                                                  "u.study_id + 0 = $1 AND u.state + 0 = 3 RETURNING u.unit_id",
                                                  step.study_id, step.told_unit_ids));
  std::set<int64_t> left;
  for (int i = 0; i < told.size(); ++i) left.insert(told[i].Int(0));
  for (const int64_t unit_id : step.told_unit_ids) {
    if (left.erase(unit_id) == 1) continue;
    return FailedPrecondition("unit {} is not a DONE unit of study {}: it cannot be told", unit_id, step.study_id);
  }
  return AppendEvents(session, step, StudyEvent::Kind::kTell, step.told_unit_ids, study);
}

// Answers the ids of the new units, in order, and the claim order of the first.
absl::StatusOr<std::vector<int64_t>> Propose(Session& session, const DriveStep& step, DrivenStudy* study,
                                             int64_t* first_seq) {
  if (step.new_units.empty()) return std::vector<int64_t>();
  std::vector<int64_t> kinds, first_ordinals, counts, rounds;
  Blobs payloads;
  for (const UnitRow& unit : step.new_units) {
    // An ordinal names one trial for ever: results are kept under it.
    if (unit.first_ordinal < study->next_ordinal) {
      return FailedPrecondition("study {} has handed out ordinals up to {}; a new unit cannot start at {}",
                                step.study_id, study->next_ordinal - 1, unit.first_ordinal);
    }
    study->next_ordinal = unit.first_ordinal + std::max(unit.trial_count, 0);
    kinds.push_back(static_cast<int64_t>(unit.kind));
    first_ordinals.push_back(unit.first_ordinal);
    counts.push_back(unit.trial_count);
    rounds.push_back(unit.rounds);
    payloads.values.push_back(unit.payload);
  }
  ASSIGN_OR_RETURN(
      const Rows rows,
      session.Query("INSERT INTO work_unit (study_id, claim_seq, kind, state, first_ordinal, trial_count, rounds, "
                    "payload) SELECT $1, nextval('claim_seq'), n.kind, 1, n.first_ordinal, n.trial_count, n.rounds, "
                    "n.payload FROM (SELECT * FROM unnest($2, $3, $4, $5, $6) WITH ORDINALITY AS p(kind, "
                    "first_ordinal, trial_count, rounds, payload, place) ORDER BY place) n "
                    "RETURNING unit_id, first_ordinal, claim_seq",
                    step.study_id, kinds, first_ordinals, counts, rounds, payloads));
  std::vector<std::pair<int64_t, int64_t>> by_ordinal;
  *first_seq = rows[0].Int(2);
  for (int i = 0; i < rows.size(); ++i) {
    by_ordinal.emplace_back(rows[i].Int(1), rows[i].Int(0));
    *first_seq = std::min(*first_seq, rows[i].Int(2));
  }
  std::sort(by_ordinal.begin(), by_ordinal.end());
  std::vector<int64_t> unit_ids;
  for (const auto& [ordinal, unit_id] : by_ordinal) unit_ids.push_back(unit_id);
  RETURN_IF_ERROR(AppendEvents(session, step, StudyEvent::Kind::kPropose, unit_ids, study));
  return unit_ids;
}

// The row before goes by its key: what is dead and not removed yet is not walked over.
absl::Status StoreStep(Session& session, const DriveStep& step, const DrivenStudy& study) {
  return session.Run(
      "WITH before AS (DELETE FROM study_step WHERE study_id = $1 AND step = $2) INSERT INTO study_step (study_id, "
      "step, next_ordinal, last_event, device_busy_ms) VALUES ($1, $2 + 1, $3, $4, $5)",
      step.study_id, study.step, std::max(step.next_ordinal, study.next_ordinal), study.last_event,
      std::max(step.device_busy_ms, study.device_busy_ms));
}

struct Driven {
  DriveResult result;
  std::string class_id;
  ReadyStudy study;
  int64_t first_seq = 0;  // of its new units; 0: none that can be claimed
};

absl::StatusOr<Driven> TakeStep(Session& session, const DriveStep& step) {
  ASSIGN_OR_RETURN(DrivenStudy study, LoadDriven(session, step));
  if (!step.priors.empty()) {
    if (study.last_event > 0) {
      return FailedPrecondition("study {} has begun: what it starts from cannot change any more", step.study_id);
    }
    RETURN_IF_ERROR(StorePriors(session, step.study_id, step.priors));
  }
  if (step.device_selector.has_value()) {
    study.device_selector = *step.device_selector;
    RETURN_IF_ERROR(
        session.Run("UPDATE study SET device_selector = $1 WHERE study_id = $2", study.device_selector, step.study_id));
  }
  Driven driven;
  RETURN_IF_ERROR(Tell(session, step, &study));
  ASSIGN_OR_RETURN(driven.result.unit_ids, Propose(session, step, &study, &driven.first_seq));
  RETURN_IF_ERROR(StoreStep(session, step, study));
  if (step.state.has_value()) {
    RETURN_IF_ERROR(
        session.Run("UPDATE study SET state = $1 WHERE study_id = $2", static_cast<int>(*step.state), step.study_id));
  }
  if (step.detail.has_value()) {
    RETURN_IF_ERROR(session.Run("UPDATE study SET detail = $1 WHERE study_id = $2", Blob{*step.detail}, step.study_id));
  }
  if (step.state == StudyState::kEnded) {
    RETURN_IF_ERROR(session.Run("DELETE FROM work_unit WHERE state = 1 AND study_id = $1", step.study_id));
    RETURN_IF_ERROR(session.Run("DELETE FROM study_prior WHERE study_id = $1", step.study_id));
    driven.first_seq = 0;
  }
  if (study.job_state != JobState::kQueued && study.job_state != JobState::kRunning) driven.first_seq = 0;
  driven.class_id = study.class_id;
  driven.study = {step.study_id, study.job_id, static_cast<int>(study.priority), study.device_selector,
                  study.job_state == JobState::kQueued};
  return driven;
}

class PostgresStudies final : public Facet<SharedStudies> {
 public:
  explicit PostgresStudies(const Shared& shared) : Facet(shared, shared.backend) {}

  absl::StatusOr<DriveResult> Drive(const DriveStep& step) override {
    RETURN_IF_ERROR(CheckStepSize(step));
    ASSIGN_OR_RETURN(Driven driven,
                     pool_->Call(&Pool::Write, [&](Session& session) { return TakeStep(session, step); }));
    if (driven.first_seq > 0) board_->Add(driven.class_id, driven.study, driven.first_seq);
    return std::move(driven.result);
  }

  absl::StatusOr<std::vector<KnownStudyRow>> StudiesOfProgram(std::string_view program_digest, int limit) override {
    return pool_->Call(&Pool::Read, [&](Session& session) {
      return session.ReadAll(
          ReadKnownStudy,
          "SELECT s.study_id, s.job_id, s.problem_key, s.problem, s.class_id, s.toolkit, s.next_ordinal FROM "
          "(SELECT o.study_id FROM kernel k JOIN job j ON j.kernel_id = k.kernel_id JOIN study_now o ON o.job_id = "
          "j.job_id WHERE k.program_digest = $1 AND o.next_ordinal > 0 ORDER BY o.study_id DESC LIMIT $2) n JOIN "
          "study_now s ON s.study_id = n.study_id ORDER BY s.study_id DESC",
          program_digest, std::max(limit, 0));
    });
  }

 private:
  absl::StatusOr<std::vector<UnitRow>> ReadUnits(Sql& sql, const std::vector<int64_t>& unit_ids) override {
    return sql.ReadAll(ReadUnit,
                       "SELECT " TUNEFARM_UNIT_COLUMNS " FROM work_unit u WHERE u.unit_id = ANY($1) ORDER BY u.unit_id",
                       unit_ids);
  }

  absl::StatusOr<std::vector<UnitRow>> ReadDone(Sql& sql, int64_t study_id, int units_max,
                                                const std::vector<int64_t>& known_unit_ids) override {
    return sql.ReadAll(
        ReadUnit,
        "SELECT " TUNEFARM_UNIT_COLUMNS
        " FROM work_unit u WHERE u.study_id = $1 AND u.state = 3 AND u.unit_id <> ALL($3) ORDER BY u.unit_id LIMIT $2",
        study_id, units_max, known_unit_ids);
  }

  absl::StatusOr<std::vector<TrialRow>> ReadTrials(Sql& sql, int64_t study_id,
                                                   const std::vector<const UnitRow*>& units) override {
    if (units.empty()) return std::vector<TrialRow>();
    std::vector<int64_t> unit_ids;
    for (const UnitRow* const unit : units) unit_ids.push_back(unit->unit_id);
    return sql.ReadAll(
        ReadTrial,
        "SELECT " TUNEFARM_TRIAL_COLUMNS
        " FROM work_unit u JOIN trial_result t ON t.study_id = $1 AND t.ordinal >= "
        "u.first_ordinal AND t.ordinal < u.first_ordinal + u.trial_count WHERE u.unit_id = ANY($2) ORDER BY t.ordinal",
        study_id, unit_ids);
  }
};

}  // namespace

std::unique_ptr<StudyStore> NewStudyStore(const Shared& shared) { return std::make_unique<PostgresStudies>(shared); }

}  // namespace tunefarm::postgres
