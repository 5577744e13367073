#include "server/store/shared/studies.h"

#include <algorithm>
#include <set>

#include "server/store/checks.h"

namespace tunefarm {

absl::StatusOr<StudyHistory> SharedStudies::LoadHistory(int64_t study_id, int64_t after_sequence, int events_max) {
  const auto read = [](const SqlRow& row) {
    return StudyEvent{row.Int(0), static_cast<StudyEvent::Kind>(row.Int(1)), row.Int(2)};
  };
  return backend_->ReadSnapshot([&](Sql& sql) -> absl::StatusOr<StudyHistory> {
    ASSIGN_OR_RETURN(const bool found, sql.Exists("SELECT 1 FROM study WHERE study_id = $1", study_id));
    if (!found) return NotFound("study {} does not exist", study_id);
    StudyHistory history;
    ASSIGN_OR_RETURN(history.events,
                     sql.ReadAll(read,
                                 "SELECT sequence, kind, unit_id FROM study_event WHERE study_id = $1 AND sequence > "
                                 "$2 ORDER BY sequence LIMIT $3",
                                 study_id, after_sequence, std::max(events_max, 1)));
    std::set<int64_t> named, told;
    for (const StudyEvent& event : history.events) {
      named.insert(event.unit_id);
      if (event.kind == StudyEvent::Kind::kTell) told.insert(event.unit_id);
    }
    if (named.empty()) return history;
    ASSIGN_OR_RETURN(history.units, ReadUnits(sql, std::vector<int64_t>(named.begin(), named.end())));
    std::vector<const UnitRow*> wanted;
    for (const UnitRow& unit : history.units) {
      if (told.count(unit.unit_id) != 0 || unit.state != UnitState::kTold) wanted.push_back(&unit);
    }
    ASSIGN_OR_RETURN(history.trials, ReadTrials(sql, study_id, wanted));
    return history;
  });
}

absl::StatusOr<StudyHistory> SharedStudies::LoadDone(int64_t study_id, int units_max,
                                                     const std::vector<int64_t>& known_unit_ids) {
  return backend_->ReadSnapshot([&](Sql& sql) -> absl::StatusOr<StudyHistory> {
    StudyHistory history;
    ASSIGN_OR_RETURN(history.units, ReadDone(sql, study_id, std::max(units_max, 1), known_unit_ids));
    std::vector<const UnitRow*> units;
    for (const UnitRow& unit : history.units) units.push_back(&unit);
    ASSIGN_OR_RETURN(history.trials, ReadTrials(sql, study_id, units));
    return history;
  });
}

absl::StatusOr<std::vector<PriorRow>> SharedStudies::LoadPriors(int64_t study_id) {
  const auto read = [](const SqlRow& row) { return PriorRow{static_cast<int>(row.Int(0)), row.Bytes(1)}; };
  return backend_->Read([&](Sql& sql) {
    return sql.ReadAll(read, "SELECT source_rank, payload FROM study_prior WHERE study_id = $1 ORDER BY position",
                       study_id);
  });
}

absl::Status StorePriors(Sql& sql, int64_t study_id, const std::vector<PriorRow>& priors) {
  RETURN_IF_ERROR(CheckPriors(study_id, priors));
  for (size_t i = 0; i < priors.size(); ++i) {
    RETURN_IF_ERROR(
        sql.Run("INSERT INTO study_prior (study_id, position, source_rank, payload) VALUES ($1, $2, $3, $4)", study_id,
                static_cast<int64_t>(i), priors[i].rank, Blob{priors[i].payload}));
  }
  return absl::OkStatus();
}

KnownStudyRow SharedStudies::ReadKnownStudy(const SqlRow& row) {
  return {row.Int(0), row.Int(1), row.Bytes(2), row.Bytes(3), row.Bytes(4), row.Bytes(5), row.Int(6)};
}

}  // namespace tunefarm
