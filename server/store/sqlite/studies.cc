#include <algorithm>
#include <set>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/sqlite/facets.h"
#include "server/store/sqlite/operations.h"
#include "server/store/sqlite/rows.h"
#include "server/store/study_store.h"
#include "server/store/transitions.h"

namespace tunefarm::sqlite {
namespace {

// What a step needs to know of its study.
struct DrivenStudy {
  std::string class_id;
  std::string device_selector;
  int64_t priority = 0;
  int64_t next_ordinal = 0;
  int64_t last_event = 0;
};

absl::StatusOr<DrivenStudy> LoadDriven(Database& database, const DriveStep& step) {
  Statement row = database.Prepare(
      "SELECT s.class_id, s.device_selector, j.priority, s.next_ordinal, s.state, "
      "(SELECT ifnull(max(e.sequence), 0) FROM study_event e WHERE e.study_id = s.study_id), "
      "j.job_id, j.driver_epoch FROM study s JOIN job j ON j.job_id = s.job_id WHERE s.study_id = ?");
  ASSIGN_OR_RETURN(const bool found, row.Bind(step.study_id).Step());
  if (!found) return NotFound("study {} does not exist", step.study_id);
  RETURN_IF_ERROR(CheckDriver(row.Int(6), step.driver_epoch, row.Int(7)));
  RETURN_IF_ERROR(CheckStep(step.study_id, static_cast<StudyState>(row.Int(4)), step.state));
  return DrivenStudy{row.Bytes(0), row.Bytes(1), row.Int(2), row.Int(3), row.Int(5)};
}

absl::Status AppendEvent(Database& database, const DriveStep& step, StudyEvent::Kind kind, int64_t unit_id,
                         DrivenStudy* study) {
  study->last_event += 1;
  return database.Prepare("INSERT INTO study_event (study_id, sequence, kind, unit_id, at_ms) VALUES (?, ?, ?, ?, ?)")
      .Bind(step.study_id, study->last_event, static_cast<int>(kind), unit_id, step.now_ms)
      .Run();
}

absl::Status Tell(Database& database, const DriveStep& step, int64_t unit_id, DrivenStudy* study) {
  RETURN_IF_ERROR(database.Prepare("UPDATE work_unit SET state = 4 WHERE unit_id = ? AND study_id = ? AND state = 3")
                      .Bind(unit_id, step.study_id)
                      .Run());
  if (database.Changes() != 1) {
    return FailedPrecondition("unit {} is not a DONE unit of study {}: it cannot be told", unit_id, step.study_id);
  }
  return AppendEvent(database, step, StudyEvent::Kind::kTell, unit_id, study);
}

absl::StatusOr<int64_t> Propose(Database& database, const DriveStep& step, const UnitRow& unit, DrivenStudy* study) {
  // An ordinal names one trial for ever: results are kept under it.
  if (unit.first_ordinal < study->next_ordinal) {
    return FailedPrecondition("study {} has handed out ordinals up to {}; a new unit cannot start at {}", step.study_id,
                              study->next_ordinal - 1, unit.first_ordinal);
  }
  ASSIGN_OR_RETURN(const int64_t claim_seq, NextClaimSequence(database));
  RETURN_IF_ERROR(database
                      .Prepare("INSERT INTO work_unit (study_id, class_id, device_selector, priority, claim_seq, kind, "
                               "state, first_ordinal, "
                               "trial_count, rounds, payload) VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?)")
                      .Bind(step.study_id, study->class_id, study->device_selector, study->priority, claim_seq,
                            static_cast<int>(unit.kind), unit.first_ordinal, unit.trial_count, unit.rounds,
                            Blob{unit.payload})
                      .Run());
  const int64_t unit_id = database.LastInsertId();
  study->next_ordinal = unit.first_ordinal + unit.trial_count;
  RETURN_IF_ERROR(AppendEvent(database, step, StudyEvent::Kind::kPropose, unit_id, study));
  return unit_id;
}

absl::Status StorePriors(Database& database, int64_t study_id, const std::vector<PriorRow>& priors) {
  RETURN_IF_ERROR(CheckPriors(study_id, priors));
  for (size_t i = 0; i < priors.size(); ++i) {
    RETURN_IF_ERROR(
        database.Prepare("INSERT INTO study_prior (study_id, position, source_rank, payload) VALUES (?, ?, ?, ?)")
            .Bind(study_id, static_cast<int64_t>(i), priors[i].rank, Blob{priors[i].payload})
            .Run());
  }
  return absl::OkStatus();
}

absl::Status LoadEvents(Database& database, int64_t study_id, int64_t after_sequence, int events_max,
                        StudyHistory* history) {
  Statement rows = database.Prepare(
      "SELECT sequence, kind, unit_id FROM study_event WHERE study_id = ? AND sequence > ? ORDER BY sequence LIMIT ?");
  rows.Bind(study_id, after_sequence, std::max(events_max, 1));
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return absl::OkStatus();
    history->events.push_back({rows.Int(0), static_cast<StudyEvent::Kind>(rows.Int(1)), rows.Int(2)});
  }
}

absl::Status LoadUnits(Database& database, const std::set<int64_t>& unit_ids, StudyHistory* history) {
  for (const int64_t unit_id : unit_ids) {
    Statement row = database.Prepare("SELECT " TUNEFARM_UNIT_COLUMNS " FROM work_unit u WHERE u.unit_id = ?");
    ASSIGN_OR_RETURN(const bool found, row.Bind(unit_id).Step());
    if (found) history->units.push_back(ReadUnit(row));
  }
  return absl::OkStatus();
}

absl::Status LoadTrials(Database& database, const UnitRow& unit, std::vector<TrialRow>* trials) {
  Statement rows = database.Prepare("SELECT " TUNEFARM_TRIAL_COLUMNS
                                    " FROM trial_result t WHERE t.study_id = ? AND t.ordinal BETWEEN ? AND ? ORDER BY "
                                    "t.ordinal");
  rows.Bind(unit.study_id, unit.first_ordinal, unit.first_ordinal + unit.trial_count - 1);
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return absl::OkStatus();
    trials->push_back(ReadTrial(rows));
  }
}

void SortByOrdinal(std::vector<TrialRow>* trials) {
  std::sort(trials->begin(), trials->end(), [](const TrialRow& a, const TrialRow& b) { return a.ordinal < b.ordinal; });
}

class SqliteStudies final : public Facet<StudyStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<DriveResult> Drive(const DriveStep& step) override {
    RETURN_IF_ERROR(CheckStepSize(step));
    return writer_->Call([&](Database& database) -> absl::StatusOr<DriveResult> {
      ASSIGN_OR_RETURN(DrivenStudy study, LoadDriven(database, step));
      if (!step.priors.empty()) {
        if (study.last_event > 0) {
          return FailedPrecondition("study {} has begun: what it starts from cannot change any more", step.study_id);
        }
        RETURN_IF_ERROR(StorePriors(database, step.study_id, step.priors));
      }
      if (step.device_selector.has_value()) {
        study.device_selector = *step.device_selector;
        for (const char* const change : {"UPDATE study SET device_selector = ? WHERE study_id = ?",
                                         "UPDATE work_unit SET device_selector = ? WHERE study_id = ? AND state = 1"}) {
          RETURN_IF_ERROR(database.Prepare(change).Bind(study.device_selector, step.study_id).Run());
        }
      }
      DriveResult result;
      for (const int64_t unit_id : step.told_unit_ids) RETURN_IF_ERROR(Tell(database, step, unit_id, &study));
      for (const UnitRow& unit : step.new_units) {
        ASSIGN_OR_RETURN(const int64_t unit_id, Propose(database, step, unit, &study));
        result.unit_ids.push_back(unit_id);
      }
      RETURN_IF_ERROR(database
                          .Prepare("UPDATE study SET next_ordinal = ?, state = ifnull(nullif(?, 0), state), "
                                   "device_busy_ms = max(device_busy_ms, ?) WHERE study_id = ?")
                          .Bind(std::max(step.next_ordinal, study.next_ordinal),
                                step.state.has_value() ? static_cast<int>(*step.state) : 0, step.device_busy_ms,
                                step.study_id)
                          .Run());
      if (step.detail.has_value()) {
        RETURN_IF_ERROR(database.Prepare("UPDATE study SET detail = ? WHERE study_id = ?")
                            .Bind(Blob{*step.detail}, step.study_id)
                            .Run());
      }
      if (step.state == StudyState::kEnded) {
        RETURN_IF_ERROR(
            database.Prepare("DELETE FROM work_unit WHERE state = 1 AND study_id = ?").Bind(step.study_id).Run());
        RETURN_IF_ERROR(database.Prepare("DELETE FROM study_prior WHERE study_id = ?").Bind(step.study_id).Run());
      }
      return result;
    });
  }

  absl::StatusOr<StudyHistory> LoadHistory(int64_t study_id, int64_t after_sequence, int events_max) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<StudyHistory> {
      Statement known = database.Prepare("SELECT 1 FROM study WHERE study_id = ?");
      ASSIGN_OR_RETURN(const bool found, known.Bind(study_id).Step());
      if (!found) return NotFound("study {} does not exist", study_id);
      StudyHistory history;
      RETURN_IF_ERROR(LoadEvents(database, study_id, after_sequence, events_max, &history));
      std::set<int64_t> named, told;
      for (const StudyEvent& event : history.events) {
        named.insert(event.unit_id);
        if (event.kind == StudyEvent::Kind::kTell) told.insert(event.unit_id);
      }
      RETURN_IF_ERROR(LoadUnits(database, named, &history));
      for (const UnitRow& unit : history.units) {
        if (told.count(unit.unit_id) == 0 && unit.state == UnitState::kTold) continue;
        RETURN_IF_ERROR(LoadTrials(database, unit, &history.trials));
      }
      SortByOrdinal(&history.trials);
      return history;
    });
  }

  absl::StatusOr<StudyHistory> LoadDone(int64_t study_id, int units_max,
                                        const std::vector<int64_t>& known_unit_ids) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<StudyHistory> {
      const std::set<int64_t> known(known_unit_ids.begin(), known_unit_ids.end());
      const size_t units_wanted = static_cast<size_t>(std::max(units_max, 1));
      StudyHistory done;
      Statement rows = database.Prepare("SELECT " TUNEFARM_UNIT_COLUMNS
                                        " FROM work_unit u WHERE u.study_id = ? AND u.state = 3 ORDER BY u.unit_id");
      rows.Bind(study_id);
      while (done.units.size() < units_wanted) {
        ASSIGN_OR_RETURN(const bool has_row, rows.Step());
        if (!has_row) break;
        UnitRow unit = ReadUnit(rows);
        if (known.count(unit.unit_id) == 0) done.units.push_back(std::move(unit));
      }
      for (const UnitRow& unit : done.units) RETURN_IF_ERROR(LoadTrials(database, unit, &done.trials));
      SortByOrdinal(&done.trials);
      return done;
    });
  }

  absl::StatusOr<std::vector<PriorRow>> LoadPriors(int64_t study_id) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<std::vector<PriorRow>> {
      Statement rows =
          database.Prepare("SELECT source_rank, payload FROM study_prior WHERE study_id = ? ORDER BY position");
      rows.Bind(study_id);
      return ReadAll(rows, [](const Statement& row) { return PriorRow{static_cast<int>(row.Int(0)), row.Bytes(1)}; });
    });
  }

  absl::StatusOr<std::vector<KnownStudyRow>> StudiesOfProgram(std::string_view program_digest, int limit) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<std::vector<KnownStudyRow>> {
      Statement rows = database.Prepare(
          "SELECT s.study_id, s.job_id, s.problem_key, s.problem, s.class_id, s.toolkit, s.next_ordinal FROM (SELECT "
          "o.study_id FROM kernel k INDEXED BY kernel_by_program JOIN job j ON j.kernel_id = k.kernel_id JOIN study o "
          "ON o.job_id = j.job_id WHERE k.program_digest = ? AND o.next_ordinal > 0 ORDER BY o.study_id DESC LIMIT ?) "
          "n JOIN study s ON s.study_id = n.study_id ORDER BY s.study_id DESC");
      rows.Bind(program_digest, limit);
      return ReadAll(rows, [](const Statement& row) {
        return KnownStudyRow{row.Int(0),   row.Int(1),   row.Bytes(2), row.Bytes(3),
                             row.Bytes(4), row.Bytes(5), row.Int(6)};
      });
    });
  }
};

}  // namespace

std::unique_ptr<StudyStore> NewStudyStore(const Shared& shared) { return std::make_unique<SqliteStudies>(shared); }

}  // namespace tunefarm::sqlite
