#include "server/store/shared/studies.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/read_rows.h"
#include "server/store/sqlite/facets.h"
#include "server/store/sqlite/operations.h"
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
  StudyState state = StudyState::kSearching;
  int64_t job_id = 0;
  int64_t driver_epoch = 0;
};

absl::StatusOr<DrivenStudy> LoadDriven(Database& database, const DriveStep& step) {
  const auto read = [](const SqlRow& row) {
    return DrivenStudy{row.Bytes(0), row.Bytes(1), row.Int(2),
                       row.Int(3),   row.Int(4),   static_cast<StudyState>(row.Int(5)),
                       row.Int(6),   row.Int(7)};
  };
  ASSIGN_OR_RETURN(
      std::optional<DrivenStudy> study,
      database.ReadOne(read,
                       "SELECT s.class_id, s.device_selector, j.priority, s.next_ordinal, "
                       "(SELECT ifnull(max(e.sequence), 0) FROM study_event e WHERE e.study_id = s.study_id), s.state, "
                       "j.job_id, j.driver_epoch FROM study s JOIN job j ON j.job_id = s.job_id WHERE s.study_id = $1",
                       step.study_id));
  if (!study.has_value()) return NotFound("study {} does not exist", step.study_id);
  RETURN_IF_ERROR(CheckDriver(study->job_id, step.driver_epoch, study->driver_epoch));
  RETURN_IF_ERROR(CheckStep(step.study_id, study->state, step.state));
  return *std::move(study);
}

absl::Status AppendEvent(Database& database, const DriveStep& step, StudyEvent::Kind kind, int64_t unit_id,
                         DrivenStudy* study) {
  study->last_event += 1;
  return database.Run("INSERT INTO study_event (study_id, sequence, kind, unit_id, at_ms) VALUES ($1, $2, $3, $4, $5)",
                      step.study_id, study->last_event, static_cast<int>(kind), unit_id, step.now_ms);
}

absl::Status Tell(Database& database, const DriveStep& step, int64_t unit_id, DrivenStudy* study) {
  ASSIGN_OR_RETURN(const int64_t changes,
                   database.Change("UPDATE work_unit SET state = 4 WHERE unit_id = $1 AND study_id = $2 AND state = 3",
                                   unit_id, step.study_id));
  if (changes != 1) {
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
  ASSIGN_OR_RETURN(
      const int64_t unit_id,
      database.QueryInt("INSERT INTO work_unit (study_id, class_id, device_selector, priority, claim_seq, kind, "
                        "state, first_ordinal, trial_count, rounds, payload) VALUES ($1, $2, $3, $4, $5, $6, 1, $7, "
                        "$8, $9, $10) RETURNING unit_id",
                        step.study_id, study->class_id, study->device_selector, study->priority, claim_seq,
                        static_cast<int>(unit.kind), unit.first_ordinal, unit.trial_count, unit.rounds,
                        Blob{unit.payload}));
  study->next_ordinal = unit.first_ordinal + unit.trial_count;
  RETURN_IF_ERROR(AppendEvent(database, step, StudyEvent::Kind::kPropose, unit_id, study));
  return unit_id;
}

class SqliteStudies final : public Facet<SharedStudies> {
 public:
  explicit SqliteStudies(const Shared& shared) : Facet(shared, shared.backend) {}

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
        for (const char* const change :
             {"UPDATE study SET device_selector = $1 WHERE study_id = $2",
              "UPDATE work_unit SET device_selector = $1 WHERE study_id = $2 AND state = 1"}) {
          RETURN_IF_ERROR(database.Run(change, study.device_selector, step.study_id));
        }
      }
      DriveResult result;
      for (const int64_t unit_id : step.told_unit_ids) RETURN_IF_ERROR(Tell(database, step, unit_id, &study));
      for (const UnitRow& unit : step.new_units) {
        ASSIGN_OR_RETURN(const int64_t unit_id, Propose(database, step, unit, &study));
        result.unit_ids.push_back(unit_id);
      }
      RETURN_IF_ERROR(
          database.Run("UPDATE study SET next_ordinal = $1, state = ifnull(nullif($2, 0), state), "
                       "device_busy_ms = max(device_busy_ms, $3) WHERE study_id = $4",
                       std::max(step.next_ordinal, study.next_ordinal),
                       step.state.has_value() ? static_cast<int>(*step.state) : 0, step.device_busy_ms, step.study_id));
      if (step.detail.has_value()) {
        RETURN_IF_ERROR(
            database.Run("UPDATE study SET detail = $1 WHERE study_id = $2", Blob{*step.detail}, step.study_id));
      }
      if (step.state == StudyState::kEnded) {
        RETURN_IF_ERROR(database.Run("DELETE FROM work_unit WHERE state = 1 AND study_id = $1", step.study_id));
        RETURN_IF_ERROR(database.Run("DELETE FROM study_prior WHERE study_id = $1", step.study_id));
      }
      return result;
    });
  }

  absl::StatusOr<std::vector<KnownStudyRow>> StudiesOfProgram(std::string_view program_digest, int limit) override {
    return readers_->Read([&](Database& database) {
      return database.ReadAll(
          ReadKnownStudy,
          "SELECT s.study_id, s.job_id, s.problem_key, s.problem, s.class_id, s.toolkit, s.next_ordinal FROM (SELECT "
          "o.study_id FROM kernel k INDEXED BY kernel_by_program JOIN job j ON j.kernel_id = k.kernel_id JOIN study o "
          "ON o.job_id = j.job_id WHERE k.program_digest = $1 AND o.next_ordinal > 0 ORDER BY o.study_id DESC LIMIT "
          "$2) n JOIN study s ON s.study_id = n.study_id ORDER BY s.study_id DESC",
          program_digest, std::max(limit, 0));
    });
  }

 private:
  absl::StatusOr<std::vector<UnitRow>> ReadUnits(Sql& sql, const std::vector<int64_t>& unit_ids) override {
    std::vector<UnitRow> units;
    for (const int64_t unit_id : unit_ids) {
      ASSIGN_OR_RETURN(
          std::optional<UnitRow> unit,
          sql.ReadOne(ReadUnit, "SELECT " TUNEFARM_UNIT_COLUMNS " FROM work_unit u WHERE u.unit_id = $1", unit_id));
      if (unit.has_value()) units.push_back(*std::move(unit));
    }
    return units;
  }

  absl::StatusOr<std::vector<UnitRow>> ReadDone(Sql& sql, int64_t study_id, int units_max,
                                                const std::vector<int64_t>& known_unit_ids) override {
    const std::set<int64_t> known(known_unit_ids.begin(), known_unit_ids.end());
    ASSIGN_OR_RETURN(std::vector<UnitRow> units,
                     sql.ReadAll(ReadUnit,
                                 "SELECT " TUNEFARM_UNIT_COLUMNS
                                 " FROM work_unit u WHERE u.study_id = $1 AND u.state = 3 ORDER BY u.unit_id LIMIT $2",
                                 study_id, units_max + static_cast<int64_t>(known.size())));
    std::erase_if(units, [&](const UnitRow& unit) { return known.count(unit.unit_id) > 0; });
    units.resize(std::min(units.size(), static_cast<size_t>(units_max)));
    return units;
  }

  absl::StatusOr<std::vector<TrialRow>> ReadTrials(Sql& sql, int64_t study_id,
                                                   const std::vector<const UnitRow*>& units) override {
    std::vector<TrialRow> trials;
    for (const UnitRow* const unit : units) {
      ASSIGN_OR_RETURN(std::vector<TrialRow> rows,
                       sql.ReadAll(ReadTrial,
                                   "SELECT " TUNEFARM_TRIAL_COLUMNS
                                   " FROM trial_result t WHERE t.study_id = $1 AND t.ordinal BETWEEN $2 AND $3",
                                   study_id, unit->first_ordinal, unit->first_ordinal + unit->trial_count - 1));
      std::move(rows.begin(), rows.end(), std::back_inserter(trials));
    }
    std::sort(trials.begin(), trials.end(), [](const TrialRow& a, const TrialRow& b) { return a.ordinal < b.ordinal; });
    return trials;
  }
};

}  // namespace

std::unique_ptr<StudyStore> NewStudyStore(const Shared& shared) { return std::make_unique<SqliteStudies>(shared); }

}  // namespace tunefarm::sqlite
