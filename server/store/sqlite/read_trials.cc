#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/page_token.h"
#include "server/store/sqlite/operations.h"
#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {
namespace {

// One study's trials behind a place in the order: an index gives them in that order from there on. Parameters: ?1
// study, ?2 outcomes, ?3 purpose, ?4 limit; from ?5 the place.
#define TUNEFARM_TRIALS_OF_STUDY                                                                                 \
  "FROM trial_result t WHERE t.study_id = ?1 AND (?2 = '[]' OR t.outcome IN (SELECT value FROM json_each(?2))) " \
  "AND (?3 = 0 OR t.purpose = ?3) "

constexpr std::string_view kByOrdinal =
    "SELECT " TUNEFARM_TRIAL_COLUMNS ", 0.0 " TUNEFARM_TRIALS_OF_STUDY "AND t.ordinal > ?5 ORDER BY t.ordinal LIMIT ?4";
// Infinity stands for "no time", here as in the index. Two statements, since of a pair that begins with an expression
// SQLite does not look for the place, but walks there.
constexpr std::string_view kAtTime =
    "SELECT " TUNEFARM_TRIAL_COLUMNS ", ifnull(t.median_ns, 9e999) " TUNEFARM_TRIALS_OF_STUDY
    "AND ifnull(t.median_ns, 9e999) = ?6 AND t.ordinal > ?5 ORDER BY t.ordinal LIMIT ?4";
constexpr std::string_view kAfterTime =
    "SELECT " TUNEFARM_TRIAL_COLUMNS ", ifnull(t.median_ns, 9e999) " TUNEFARM_TRIALS_OF_STUDY
    "AND ifnull(t.median_ns, 9e999) > ?5 ORDER BY ifnull(t.median_ns, 9e999), t.ordinal LIMIT ?4";

// The place of a trial in a listing: by time (by ordinal, every time is 0), then study, then ordinal.
struct TrialKey {
  int64_t number = -1;
  int64_t ordinal = -1;
  double sort_ns = -1;

  friend bool operator>(const TrialKey& a, const TrialKey& b) {
    return std::tie(a.sort_ns, a.number, a.ordinal) > std::tie(b.sort_ns, b.number, b.ordinal);
  }
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

// The trials of one study in the order of the listing, read in pieces.
class StudyCursor {
 public:
  // Begins behind `key`, which may be a trial of another study.
  StudyCursor(int64_t study_id, int64_t number, const TrialKey& key) : study_id_(study_id), after_(key) {
    if (number < key.number) after_.ordinal = std::numeric_limits<int64_t>::max();
    if (number > key.number) after_.ordinal = -1;
    after_.number = number;
  }

  // Reads the next piece, of up to `limit`, if the last one is used up. Then: whether there is a trial.
  absl::StatusOr<bool> Fill(Database& database, const TrialQuery& query, const std::string& outcomes, int64_t limit) {
    if (!rows_.empty()) return true;
    const auto read = [&](std::string_view sql, const auto&... place) -> absl::Status {
      Statement rows = database.Prepare(sql);
      rows.Bind(study_id_, outcomes, query.purpose, limit - static_cast<int64_t>(rows_.size()), place...);
      while (true) {
        ASSIGN_OR_RETURN(const bool has_row, rows.Step());
        if (!has_row) return absl::OkStatus();
        rows_.emplace_back(ReadTrial(rows), rows.Real(kTrialColumns));
      }
    };
    if (query.order_by_time) {
      RETURN_IF_ERROR(read(kAtTime, after_.ordinal, after_.sort_ns));
      if (static_cast<int64_t>(rows_.size()) < limit) RETURN_IF_ERROR(read(kAfterTime, after_.sort_ns));
    } else {
      RETURN_IF_ERROR(read(kByOrdinal, after_.ordinal));
    }
    return !rows_.empty();
  }

  TrialKey key() const { return {after_.number, rows_.front().first.ordinal, rows_.front().second}; }
  TrialRow Take() {
    after_ = key();
    TrialRow row = std::move(rows_.front().first);
    rows_.pop_front();
    return row;
  }

 private:
  const int64_t study_id_;
  TrialKey after_;
  std::deque<std::pair<TrialRow, double>> rows_;
};

absl::StatusOr<std::vector<StudyCursor>> OpenCursors(Database& database, const TrialQuery& query, const TrialKey& key) {
  std::vector<StudyCursor> cursors;
  Statement studies = database.Prepare(
      "SELECT study_id, number FROM study WHERE job_id = ?1 AND (?2 = 0 OR number = ?2) ORDER BY number");
  studies.Bind(query.job_id, query.study_number);
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, studies.Step());
    if (!has_row) return cursors;
    cursors.emplace_back(studies.Int(0), studies.Int(1), key);
  }
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
  ASSIGN_OR_RETURN(std::vector<StudyCursor> cursors, OpenCursors(database, query, key));
  // A page costs what it shows, however many results are stored: each study is read from its place on, and the studies
  // are merged. One row more than asked for tells whether there is a next page.
  const auto piece = static_cast<int64_t>(size / std::max<size_t>(cursors.size(), 1) + 1);
  using Place = std::pair<TrialKey, size_t>;  // of a cursor's next trial
  const auto later = [](const Place& a, const Place& b) { return a.first > b.first; };
  std::priority_queue<Place, std::vector<Place>, decltype(later)> next(later);
  for (size_t i = 0; i < cursors.size(); ++i) {
    ASSIGN_OR_RETURN(const bool has_trial, cursors[i].Fill(database, query, filter, piece));
    if (has_trial) next.emplace(cursors[i].key(), i);
  }
  Page<TrialRow> result;
  while (!next.empty()) {
    if (result.rows.size() == size) {
      result.next_page_token = EncodeKey(identity, key);
      break;
    }
    const size_t first = next.top().second;
    next.pop();
    key = cursors[first].key();
    result.rows.push_back(cursors[first].Take());
    ASSIGN_OR_RETURN(const bool has_trial, cursors[first].Fill(database, query, filter, piece));
    if (has_trial) next.emplace(cursors[first].key(), first);
  }
  return result;
}

namespace {

// What is kept of a deleted job, see retain.cc. The columns are those of a trial that is still there.
absl::StatusOr<TrialRow> GetKeptTrial(Database& database, int64_t job_id, int study_number, int64_t ordinal) {
  Statement row = database.Prepare("SELECT " TUNEFARM_TRIAL_COLUMNS
                                   ", t.log, t.samples FROM best_trial t WHERE t.job_id = ? AND t.study_number = ? "
                                   "AND t.ordinal = ?");
  ASSIGN_OR_RETURN(const bool found, row.Bind(job_id, study_number, ordinal).Step());
  if (!found) return NotFound("study {} of job {} has no result for trial {}", study_number, job_id, ordinal);
  TrialRow trial = ReadTrial(row);
  trial.log = row.Bytes(kTrialColumns);
  trial.samples = row.Bytes(kTrialColumns + 1);
  return trial;
}

}  // namespace

absl::StatusOr<TrialRow> GetTrial(Database& database, int64_t job_id, int study_number, int64_t ordinal) {
  Statement row = database.Prepare("SELECT " TUNEFARM_TRIAL_COLUMNS
                                   ", l.log, p.samples FROM study s JOIN trial_result t ON t.study_id = s.study_id "
                                   "LEFT JOIN trial_log l ON l.study_id = t.study_id AND l.ordinal = t.ordinal "
                                   "LEFT JOIN trial_samples p ON p.study_id = t.study_id AND p.ordinal = t.ordinal "
                                   "WHERE s.job_id = ? AND s.number = ? AND t.ordinal = ?");
  ASSIGN_OR_RETURN(const bool found, row.Bind(job_id, study_number, ordinal).Step());
  if (!found) return GetKeptTrial(database, job_id, study_number, ordinal);
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
