#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/page_token.h"
#include "server/store/postgres/operations.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
namespace {

// Of all the jobs in one statement.
absl::Status LoadStudies(Session& session, std::vector<JobRow>* jobs) {
  std::vector<int64_t> ids;
  std::map<int64_t, JobRow*> by_id;
  for (JobRow& job : *jobs) {
    ids.push_back(job.job_id);
    by_id[job.job_id] = &job;
  }
  if (ids.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_PG_STUDY_COLUMNS
                                 ", job_id FROM study_now WHERE job_id = ANY($1) ORDER BY job_id, number",
                                 ids));
  constexpr int kJobId = 11;
  for (int i = 0; i < rows.size(); ++i) {
    by_id[rows[i].Int(kJobId)]->studies.push_back(ReadStudy(rows[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<JobRow>> WithStudies(Session& session, const Rows& rows) {
  std::vector<JobRow> jobs = ReadAll(rows, ReadJob);
  RETURN_IF_ERROR(LoadStudies(session, &jobs));
  return jobs;
}

// Of units of one study, by ordinal.
absl::Status LoadTrials(Session& session, int64_t study_id, const std::vector<int64_t>& unit_ids,
                        StudyHistory* history) {
  if (unit_ids.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_PG_TRIAL_COLUMNS
                                 " FROM work_unit u JOIN trial_result t ON t.study_id = $1 AND t.ordinal >= "
                                 "u.first_ordinal AND t.ordinal < u.first_ordinal + u.trial_count WHERE u.unit_id = "
                                 "ANY($2) ORDER BY t.ordinal",
                                 study_id, unit_ids));
  history->trials = ReadAll(rows, ReadTrial);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<JobRow>> ActiveJobs(Session& session) {
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_PG_JOB_COLUMNS " FROM job WHERE state < 5 ORDER BY job_id"));
  return WithStudies(session, rows);
}

absl::StatusOr<JobRow> GetJob(Session& session, int64_t job_id) {
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_PG_JOB_COLUMNS " FROM job WHERE job_id = $1", job_id));
  if (rows.empty()) return NotFound("job {} does not exist", job_id);
  ASSIGN_OR_RETURN(std::vector<JobRow> jobs, WithStudies(session, rows));
  return std::move(jobs[0]);
}

absl::StatusOr<Page<JobRow>> ListJobs(Session& session, const std::vector<JobState>& states, const PageRequest& page) {
  const std::vector<int64_t> filter = Sorted(states);
  const std::string query = "jobs " + ListOf(filter);
  ASSIGN_OR_RETURN(const auto after, DecodePageToken(query, page.page_token, 1));
  const int size = EffectivePageSize(page.page_size);
  // One row more than asked for tells whether there is a next page.
  ASSIGN_OR_RETURN(
      const Rows rows,
      session.Query("SELECT " TUNEFARM_PG_JOB_COLUMNS
                    " FROM job WHERE job_id < $1 AND (cardinality($2) = 0 OR state = ANY($2)) ORDER BY "
                    "job_id DESC LIMIT $3",
                    after.has_value() ? (*after)[0] : std::numeric_limits<int64_t>::max(), filter, size + 1));
  Page<JobRow> result;
  for (int i = 0; i < rows.size() && i < size; ++i) result.rows.push_back(ReadJob(rows[i]));
  if (rows.size() > size) result.next_page_token = EncodePageToken(query, {result.rows.back().job_id});
  RETURN_IF_ERROR(LoadStudies(session, &result.rows));
  return result;
}

absl::StatusOr<StudyHistory> LoadHistory(Session& session, int64_t study_id, int64_t after_sequence, int events_max) {
  ASSIGN_OR_RETURN(const Rows known, session.Query("SELECT 1 FROM study WHERE study_id = $1", study_id));
  if (known.empty()) return NotFound("study {} does not exist", study_id);
  ASSIGN_OR_RETURN(
      const Rows events,
      session.Query("SELECT sequence, kind, unit_id FROM study_event WHERE study_id = $1 AND sequence > $2 "
                    "ORDER BY sequence LIMIT $3",
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
  ASSIGN_OR_RETURN(const Rows units, session.Query("SELECT " TUNEFARM_PG_UNIT_COLUMNS
                                                   " FROM work_unit u WHERE u.unit_id = ANY($1) ORDER BY u.unit_id",
                                                   std::vector<int64_t>(named.begin(), named.end())));
  history.units = ReadAll(units, ReadUnit);
  std::vector<int64_t> wanted;
  for (const UnitRow& unit : history.units) {
    if (told.count(unit.unit_id) != 0 || unit.state != UnitState::kTold) wanted.push_back(unit.unit_id);
  }
  RETURN_IF_ERROR(LoadTrials(session, study_id, wanted, &history));
  return history;
}

absl::StatusOr<StudyHistory> LoadDone(Session& session, int64_t study_id, int units_max,
                                      const std::vector<int64_t>& known_unit_ids) {
  ASSIGN_OR_RETURN(
      const Rows units,
      session.Query("SELECT " TUNEFARM_PG_UNIT_COLUMNS
                    " FROM work_unit u WHERE u.study_id = $1 AND u.state = 3 AND u.unit_id <> ALL($3) ORDER BY "
                    "u.unit_id LIMIT $2",
                    study_id, std::max(units_max, 1), known_unit_ids));
  StudyHistory history;
  history.units = ReadAll(units, ReadUnit);
  std::vector<int64_t> ids;
  for (const UnitRow& unit : history.units) ids.push_back(unit.unit_id);
  RETURN_IF_ERROR(LoadTrials(session, study_id, ids, &history));
  return history;
}

}  // namespace tunefarm::postgres
