#include <algorithm>
#include <limits>
#include <set>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/page_token.h"
#include "server/store/sqlite/operations.h"
#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {
namespace {

absl::Status LoadStudies(Database& database, JobRow* job) {
  Statement rows = database.Prepare("SELECT " TUNEFARM_STUDY_COLUMNS " FROM study WHERE job_id = ? ORDER BY number");
  rows.Bind(job->job_id);
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return absl::OkStatus();
    job->studies.push_back(ReadStudy(rows));
  }
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

}  // namespace

absl::StatusOr<std::vector<JobRow>> ActiveJobs(Database& database) {
  std::vector<JobRow> jobs;
  Statement rows = database.Prepare("SELECT " TUNEFARM_JOB_COLUMNS " FROM job WHERE state < 5 ORDER BY job_id");
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return jobs;
    jobs.push_back(ReadJob(rows));
    RETURN_IF_ERROR(LoadStudies(database, &jobs.back()));
  }
}

absl::StatusOr<JobRow> GetJob(Database& database, int64_t job_id) {
  Statement row = database.Prepare("SELECT " TUNEFARM_JOB_COLUMNS " FROM job WHERE job_id = ?");
  ASSIGN_OR_RETURN(const bool found, row.Bind(job_id).Step());
  if (!found) return NotFound("job {} does not exist", job_id);
  JobRow job = ReadJob(row);
  RETURN_IF_ERROR(LoadStudies(database, &job));
  return job;
}

absl::StatusOr<Page<JobRow>> ListJobs(Database& database, const std::vector<JobState>& states,
                                      const PageRequest& page) {
  std::vector<JobState> sorted = states;
  std::sort(sorted.begin(), sorted.end());
  const std::string filter = JsonList(sorted);
  const std::string query = "jobs " + filter;
  ASSIGN_OR_RETURN(const auto after, DecodePageToken(query, page.page_token, 1));
  const auto size = static_cast<size_t>(EffectivePageSize(page.page_size));
  Page<JobRow> result;
  Statement rows =
      database.Prepare("SELECT " TUNEFARM_JOB_COLUMNS
                       " FROM job WHERE job_id < ?1 AND (?2 = '[]' OR state IN (SELECT value FROM json_each(?2))) "
                       "ORDER BY job_id DESC LIMIT ?3");
  // One row more than asked for tells whether there is a next page.
  rows.Bind(after.has_value() ? (*after)[0] : std::numeric_limits<int64_t>::max(), filter,
            static_cast<int64_t>(size + 1));
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return result;
    if (result.rows.size() == size) {
      result.next_page_token = EncodePageToken(query, {result.rows.back().job_id});
      return result;
    }
    result.rows.push_back(ReadJob(rows));
    RETURN_IF_ERROR(LoadStudies(database, &result.rows.back()));
  }
}

absl::StatusOr<StudyHistory> LoadHistory(Database& database, int64_t study_id, int64_t after_sequence, int events_max) {
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
}

absl::StatusOr<StudyHistory> LoadDone(Database& database, int64_t study_id, int units_max,
                                      const std::vector<int64_t>& known_unit_ids) {
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
}

absl::StatusOr<StoreStatus> ReadStatus(Database& database) {
  StoreStatus status;
  ASSIGN_OR_RETURN(const int64_t version, database.QueryInt("PRAGMA user_version"));
  status.schema_version = static_cast<int>(version);
  ASSIGN_OR_RETURN(const int64_t pages, database.QueryInt("PRAGMA page_count"));
  ASSIGN_OR_RETURN(const int64_t page_bytes, database.QueryInt("PRAGMA page_size"));
  status.database_bytes = pages * page_bytes;
  ASSIGN_OR_RETURN(const int64_t free_pages, database.QueryInt("PRAGMA freelist_count"));
  status.used_bytes = (pages - free_pages) * page_bytes;
  ASSIGN_OR_RETURN(status.active_jobs, database.QueryInt("SELECT count(*) FROM job WHERE state < 5"));
  ASSIGN_OR_RETURN(status.stored_trials, database.QueryInt("SELECT count(*) FROM trial_result"));
  return status;
}

}  // namespace tunefarm::sqlite
