#include <algorithm>
#include <set>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/postgres/facets.h"
#include "server/store/postgres/operations.h"
#include "server/store/postgres/rows.h"
#include "server/store/study_store.h"
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
  // With the lock in hand: a statement sees what was there when it began.
  ASSIGN_OR_RETURN(const Rows now, session.Query("SELECT next_ordinal, last_event, device_busy_ms, step FROM study_now "
                                                 "WHERE study_id = $1",
                                                 step.study_id));
  return DrivenStudy{study[0].Bytes(0), study[0].Bytes(1), now[0].Int(0),
                     now[0].Int(1),     now[0].Real(2),    now[0].Int(3),
                     job[0].Int(0),     job[0].Int(1),     static_cast<JobState>(job[0].Int(3))};
}

absl::Status AppendEvents(Session& session, const DriveStep& step, StudyEvent::Kind kind,
                          const std::vector<int64_t>& unit_ids, DrivenStudy* study) {
  const int64_t before = study->last_event;
  study->last_event += static_cast<int64_t>(unit_ids.size());
  return session
      .Run(
          "INSERT INTO study_event (study_id, sequence, kind, unit_id, at_ms) SELECT $1, $2 + e.place, $3, e.unit_id, "
          "$4 FROM unnest($5) WITH ORDINALITY AS e(unit_id, place)",
          step.study_id, before, static_cast<int>(kind), step.now_ms, unit_ids)
      .status();
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
  return session
      .Run(
          "WITH before AS (DELETE FROM study_step WHERE study_id = $1 AND step = $2) INSERT INTO study_step (study_id, "
          "step, next_ordinal, last_event, device_busy_ms) VALUES ($1, $2 + 1, $3, $4, $5)",
          step.study_id, study.step, std::max(step.next_ordinal, study.next_ordinal), study.last_event,
          std::max(step.device_busy_ms, study.device_busy_ms))
      .status();
}

absl::Status StorePriors(Session& session, int64_t study_id, const std::vector<PriorRow>& priors) {
  RETURN_IF_ERROR(CheckPriors(study_id, priors));
  for (size_t i = 0; i < priors.size(); ++i) {
    RETURN_IF_ERROR(
        session
            .Run("INSERT INTO study_prior (study_id, position, source_rank, payload) VALUES ($1, $2, $3, $4)", study_id,
                 static_cast<int64_t>(i), priors[i].rank, Blob{priors[i].payload})
            .status());
  }
  return absl::OkStatus();
}

// Of units of one study, by ordinal.
absl::Status LoadTrials(Session& session, int64_t study_id, const std::vector<int64_t>& unit_ids,
                        StudyHistory* history) {
  if (unit_ids.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_TRIAL_COLUMNS
                                 " FROM work_unit u JOIN trial_result t ON t.study_id = $1 AND t.ordinal >= "
                                 "u.first_ordinal AND t.ordinal < u.first_ordinal + u.trial_count WHERE u.unit_id = "
                                 "ANY($2) ORDER BY t.ordinal",
                                 study_id, unit_ids));
  history->trials = ReadAll(rows, ReadTrial<Row>);
  return absl::OkStatus();
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
        session.Run("UPDATE study SET device_selector = $1 WHERE study_id = $2", study.device_selector, step.study_id)
            .status());
  }
  Driven driven;
  RETURN_IF_ERROR(Tell(session, step, &study));
  ASSIGN_OR_RETURN(driven.result.unit_ids, Propose(session, step, &study, &driven.first_seq));
  RETURN_IF_ERROR(StoreStep(session, step, study));
  if (step.state.has_value()) {
    RETURN_IF_ERROR(
        session.Run("UPDATE study SET state = $1 WHERE study_id = $2", static_cast<int>(*step.state), step.study_id)
            .status());
  }
  if (step.detail.has_value()) {
    RETURN_IF_ERROR(
        session.Run("UPDATE study SET detail = $1 WHERE study_id = $2", Blob{*step.detail}, step.study_id).status());
  }
  if (step.state == StudyState::kEnded) {
    RETURN_IF_ERROR(session.Run("DELETE FROM work_unit WHERE state = 1 AND study_id = $1", step.study_id).status());
    RETURN_IF_ERROR(session.Run("DELETE FROM study_prior WHERE study_id = $1", step.study_id).status());
    driven.first_seq = 0;
  }
  if (study.job_state != JobState::kQueued && study.job_state != JobState::kRunning) driven.first_seq = 0;
  driven.class_id = study.class_id;
  driven.study = {step.study_id, study.job_id, static_cast<int>(study.priority), study.device_selector,
                  study.job_state == JobState::kQueued};
  return driven;
}

class PostgresStudies final : public Facet<StudyStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<DriveResult> Drive(const DriveStep& step) override {
    RETURN_IF_ERROR(CheckStepSize(step));
    ASSIGN_OR_RETURN(Driven driven,
                     pool_->Call(&Pool::Write, [&](Session& session) { return TakeStep(session, step); }));
    if (driven.first_seq > 0) board_->Add(driven.class_id, driven.study, driven.first_seq);
    return std::move(driven.result);
  }

  absl::StatusOr<StudyHistory> LoadHistory(int64_t study_id, int64_t after_sequence, int events_max) override {
    return pool_->Call(&Pool::ReadSnapshot, [&](Session& session) -> absl::StatusOr<StudyHistory> {
      ASSIGN_OR_RETURN(const Rows known, session.Query("SELECT 1 FROM study WHERE study_id = $1", study_id));
      if (known.empty()) return NotFound("study {} does not exist", study_id);
      ASSIGN_OR_RETURN(const Rows events, session.Query("SELECT sequence, kind, unit_id FROM study_event WHERE "
                                                        "study_id = $1 AND sequence > $2 ORDER BY sequence LIMIT $3",
                                                        study_id, after_sequence, std::max(events_max, 1)));
      StudyHistory history;
      std::set<int64_t> named, told;
      for (int i = 0; i < events.size(); ++i) {
        const Row row = events[i];
        history.events.push_back({row.Int(0), static_cast<StudyEvent::Kind>(row.Int(1)), row.Int(2)});
        named.insert(row.Int(2));
        if (history.events.back().kind == StudyEvent::Kind::kTell) told.insert(row.Int(2));
      }
      if (named.empty()) return history;
      ASSIGN_OR_RETURN(const Rows units, session.Query("SELECT " TUNEFARM_UNIT_COLUMNS
                                                       " FROM work_unit u WHERE u.unit_id = ANY($1) ORDER BY u.unit_id",
                                                       std::vector<int64_t>(named.begin(), named.end())));
      history.units = ReadAll(units, ReadUnit<Row>);
      std::vector<int64_t> wanted;
      for (const UnitRow& unit : history.units) {
        if (told.count(unit.unit_id) != 0 || unit.state != UnitState::kTold) wanted.push_back(unit.unit_id);
      }
      RETURN_IF_ERROR(LoadTrials(session, study_id, wanted, &history));
      return history;
    });
  }

  absl::StatusOr<StudyHistory> LoadDone(int64_t study_id, int units_max,
                                        const std::vector<int64_t>& known_unit_ids) override {
    return pool_->Call(&Pool::ReadSnapshot, [&](Session& session) -> absl::StatusOr<StudyHistory> {
      ASSIGN_OR_RETURN(const Rows units, session.Query("SELECT " TUNEFARM_UNIT_COLUMNS
                                                       " FROM work_unit u WHERE u.study_id = $1 AND u.state = 3 AND "
                                                       "u.unit_id <> ALL($3) ORDER BY u.unit_id LIMIT $2",
                                                       study_id, std::max(units_max, 1), known_unit_ids));
      StudyHistory history;
      history.units = ReadAll(units, ReadUnit<Row>);
      std::vector<int64_t> ids;
      for (const UnitRow& unit : history.units) ids.push_back(unit.unit_id);
      RETURN_IF_ERROR(LoadTrials(session, study_id, ids, &history));
      return history;
    });
  }

  absl::StatusOr<std::vector<PriorRow>> LoadPriors(int64_t study_id) override {
    return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<std::vector<PriorRow>> {
      ASSIGN_OR_RETURN(
          const Rows rows,
          session.Query("SELECT source_rank, payload FROM study_prior WHERE study_id = $1 ORDER BY position",
                        study_id));
      std::vector<PriorRow> priors;
      for (int i = 0; i < rows.size(); ++i) priors.push_back({static_cast<int>(rows[i].Int(0)), rows[i].Bytes(1)});
      return priors;
    });
  }

  absl::StatusOr<std::vector<KnownStudyRow>> StudiesOfProgram(std::string_view program_digest, int limit) override {
    return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<std::vector<KnownStudyRow>> {
      ASSIGN_OR_RETURN(
          const Rows rows,
          session.Query(
              "SELECT s.study_id, s.job_id, s.problem_key, s.problem, s.class_id, s.toolkit, s.next_ordinal FROM "
              "(SELECT o.study_id FROM kernel k JOIN job j ON j.kernel_id = k.kernel_id JOIN study_now o ON o.job_id = "
              "j.job_id WHERE k.program_digest = $1 AND o.next_ordinal > 0 ORDER BY o.study_id DESC LIMIT $2) n JOIN "
              "study_now s ON s.study_id = n.study_id ORDER BY s.study_id DESC",
              program_digest, std::max(limit, 0)));
      std::vector<KnownStudyRow> studies;
      for (int i = 0; i < rows.size(); ++i) {
        const Row row = rows[i];
        studies.push_back({row.Int(0), row.Int(1), row.Bytes(2), row.Bytes(3), row.Bytes(4), row.Bytes(5), row.Int(6)});
      }
      return studies;
    });
  }
};

}  // namespace

std::unique_ptr<StudyStore> NewStudyStore(const Shared& shared) { return std::make_unique<PostgresStudies>(shared); }

}  // namespace tunefarm::postgres
