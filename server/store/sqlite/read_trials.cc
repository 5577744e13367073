#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/page_token.h"
#include "server/store/sqlite/operations.h"
#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {
namespace {

// Parameters: ?1 job, ?2 study number, ?3 outcomes, ?4 purpose, ?5 limit; from ?6 the key of the last row before.
#define TUNEFARM_TRIALS_WHERE                                                                                      \
  "FROM study s JOIN trial_result t ON t.study_id = s.study_id WHERE s.job_id = ?1 AND (?2 = 0 OR s.number = ?2) " \
  "AND (?3 = '[]' OR t.outcome IN (SELECT value FROM json_each(?3))) AND (?4 = 0 OR t.purpose = ?4) "

constexpr std::string_view kByOrdinal = "SELECT " TUNEFARM_TRIAL_COLUMNS ", s.number, 0.0 " TUNEFARM_TRIALS_WHERE
                                        "AND (s.number, t.ordinal) > (?6, ?7) ORDER BY s.number, t.ordinal LIMIT ?5";
// Infinity stands for "no time", here as in the index.
constexpr std::string_view kByTime =
    "SELECT " TUNEFARM_TRIAL_COLUMNS ", s.number, ifnull(t.median_ns, 9e999) " TUNEFARM_TRIALS_WHERE
    "AND (ifnull(t.median_ns, 9e999), s.number, t.ordinal) > (?8, ?6, ?7) "
    "ORDER BY ifnull(t.median_ns, 9e999), s.number, t.ordinal LIMIT ?5";

struct TrialKey {
  int64_t number = -1;
  int64_t ordinal = -1;
  double sort_ns = -1;
};

absl::StatusOr<TrialKey> DecodeKey(std::string_view query, std::string_view token) {
  ASSIGN_OR_RETURN(const auto numbers, DecodePageToken(query, token, 3));
  TrialKey key;
  if (!numbers.has_value()) return key;
  key.number = (*numbers)[0];
  key.ordinal = (*numbers)[1];
  std::memcpy(&key.sort_ns, &(*numbers)[2], sizeof(key.sort_ns));
  return key;
}

std::string EncodeKey(std::string_view query, const TrialKey& key) {
  int64_t bits;
  std::memcpy(&bits, &key.sort_ns, sizeof(bits));
  return EncodePageToken(query, {key.number, key.ordinal, bits});
}

}  // namespace

absl::StatusOr<Page<TrialRow>> ListTrials(Database& database, const TrialQuery& query) {
  std::vector<int> outcomes = query.outcomes;
  std::sort(outcomes.begin(), outcomes.end());
  const std::string filter = JsonList(outcomes);
  const std::string identity = fmt::format("trials {} {} {} {} {}", query.job_id, query.study_number,
                                           query.order_by_time, filter, query.purpose);
  ASSIGN_OR_RETURN(TrialKey key, DecodeKey(identity, query.page.page_token));
  RETURN_IF_ERROR(RequireJob(database, query.job_id));
  const auto size = static_cast<size_t>(EffectivePageSize(query.page.page_size));
  Page<TrialRow> result;
  Statement rows = database.Prepare(query.order_by_time ? kByTime : kByOrdinal);
  // One row more than asked for tells whether there is a next page.
  const auto limit = static_cast<int64_t>(size + 1);
  if (query.order_by_time) {
    rows.Bind(query.job_id, query.study_number, filter, query.purpose, limit, key.number, key.ordinal, key.sort_ns);
  } else {
    rows.Bind(query.job_id, query.study_number, filter, query.purpose, limit, key.number, key.ordinal);
  }
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return result;
    if (result.rows.size() == size) {
      result.next_page_token = EncodeKey(identity, key);
      return result;
    }
    result.rows.push_back(ReadTrial(rows));
    key = {rows.Int(kTrialColumns), result.rows.back().ordinal, rows.Real(kTrialColumns + 1)};
  }
}

absl::StatusOr<TrialRow> GetTrial(Database& database, int64_t job_id, int study_number, int64_t ordinal) {
  RETURN_IF_ERROR(RequireJob(database, job_id));
  Statement row = database.Prepare("SELECT " TUNEFARM_TRIAL_COLUMNS
                                   ", l.log, p.samples FROM study s JOIN trial_result t ON t.study_id = s.study_id "
                                   "LEFT JOIN trial_log l ON l.study_id = t.study_id AND l.ordinal = t.ordinal "
                                   "LEFT JOIN trial_samples p ON p.study_id = t.study_id AND p.ordinal = t.ordinal "
                                   "WHERE s.job_id = ? AND s.number = ? AND t.ordinal = ?");
  ASSIGN_OR_RETURN(const bool found, row.Bind(job_id, study_number, ordinal).Step());
  if (!found) return NotFound("study {} of job {} has no result for trial {}", study_number, job_id, ordinal);
  TrialRow trial = ReadTrial(row);
  trial.log = row.Bytes(kTrialColumns);
  trial.samples = row.Bytes(kTrialColumns + 1);
  return trial;
}

absl::StatusOr<std::vector<OutcomeCountRow>> CountOutcomes(Database& database, int64_t job_id) {
  RETURN_IF_ERROR(RequireJob(database, job_id));
  std::vector<OutcomeCountRow> counts;
  Statement rows = database.Prepare(
      "SELECT t.study_id, t.purpose, t.outcome, count(*) FROM study s JOIN trial_result t ON t.study_id = s.study_id "
      "WHERE s.job_id = ? GROUP BY t.study_id, t.purpose, t.outcome ORDER BY t.study_id, t.purpose, t.outcome");
  rows.Bind(job_id);
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return counts;
    counts.push_back({rows.Int(0), static_cast<int>(rows.Int(1)), static_cast<int>(rows.Int(2)), rows.Int(3)});
  }
}

}  // namespace tunefarm::sqlite
