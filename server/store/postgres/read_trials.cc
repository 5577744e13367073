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
#include "server/store/postgres/operations.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
namespace {

// One study's trials behind a place in the order: an index gives them in that order from there on. Parameters: $1
// study, $2 outcomes, $3 purpose, $4 limit; from $5 the place. Infinity stands for "no time", here as in the index.
#define TUNEFARM_PG_TRIALS_OF_STUDY                                                                         \
  "FROM trial_result t WHERE t.study_id = $1 AND (cardinality($2) = 0 OR t.outcome = ANY($2)) AND ($3 = 0 " \
  "OR t.purpose = $3) "
#define TUNEFARM_PG_TIME "coalesce(t.median_ns, 'Infinity'::float8)"

constexpr std::string_view kByOrdinal = "SELECT " TUNEFARM_PG_TRIAL_COLUMNS ", 0::float8 " TUNEFARM_PG_TRIALS_OF_STUDY
                                        "AND t.ordinal > $5 ORDER BY t.ordinal LIMIT $4";
constexpr std::string_view kByTime =
    "SELECT " TUNEFARM_PG_TRIAL_COLUMNS ", " TUNEFARM_PG_TIME " " TUNEFARM_PG_TRIALS_OF_STUDY "AND (" TUNEFARM_PG_TIME
    ", t.ordinal) > ($6, $5) ORDER BY " TUNEFARM_PG_TIME ", t.ordinal LIMIT $4";

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
  absl::StatusOr<bool> Fill(Session& session, const TrialQuery& query, const std::vector<int64_t>& outcomes,
                            int64_t limit) {
    if (!rows_.empty()) return true;
    absl::StatusOr<Rows> rows =
        query.order_by_time
            ? session.Query(kByTime, study_id_, outcomes, query.purpose, limit, after_.ordinal, after_.sort_ns)
            : session.Query(kByOrdinal, study_id_, outcomes, query.purpose, limit, after_.ordinal);
    RETURN_IF_ERROR(rows.status());
    for (int i = 0; i < rows->size(); ++i) rows_.emplace_back(ReadTrial((*rows)[i]), (*rows)[i].Real(kTrialColumns));
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

absl::StatusOr<std::vector<StudyCursor>> OpenCursors(Session& session, const TrialQuery& query, const TrialKey& key) {
  ASSIGN_OR_RETURN(const Rows studies, session.Query("SELECT study_id, number FROM study WHERE job_id = $1 AND ($2 = 0 "
                                                     "OR number = $2) ORDER BY number",
                                                     query.job_id, query.study_number));
  std::vector<StudyCursor> cursors;
  for (int i = 0; i < studies.size(); ++i) cursors.emplace_back(studies[i].Int(0), studies[i].Int(1), key);
  return cursors;
}

}  // namespace

absl::StatusOr<Page<TrialRow>> ListTrials(Session& session, const TrialQuery& query) {
  const std::vector<int64_t> filter = Sorted(query.outcomes);
  const std::string identity = fmt::format("trials {} {} {} {} {}", query.job_id, query.study_number,
                                           query.order_by_time, ListOf(filter), query.purpose);
  ASSIGN_OR_RETURN(TrialKey key, DecodeKey(identity, query.page.page_token));
  RETURN_IF_ERROR(RequireJob(session, query.job_id));
  const auto size = static_cast<size_t>(EffectivePageSize(query.page.page_size));
  ASSIGN_OR_RETURN(std::vector<StudyCursor> cursors, OpenCursors(session, query, key));
  // A page costs what it shows, however many results are stored: each study is read from its place on, and the studies
  // are merged. One row more than asked for tells whether there is a next page.
  const auto piece = static_cast<int64_t>(size / std::max<size_t>(cursors.size(), 1) + 1);
  using Place = std::pair<TrialKey, size_t>;  // of a cursor's next trial
  const auto later = [](const Place& a, const Place& b) { return a.first > b.first; };
  std::priority_queue<Place, std::vector<Place>, decltype(later)> next(later);
  for (size_t i = 0; i < cursors.size(); ++i) {
    ASSIGN_OR_RETURN(const bool has_trial, cursors[i].Fill(session, query, filter, piece));
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
    ASSIGN_OR_RETURN(const bool has_trial, cursors[first].Fill(session, query, filter, piece));
    if (has_trial) next.emplace(cursors[first].key(), first);
  }
  return result;
}

namespace {

TrialRow WithData(const Row& row) {
  TrialRow trial = ReadTrial(row);
  trial.log = row.Bytes(kTrialColumns);
  trial.samples = row.Bytes(kTrialColumns + 1);
  return trial;
}

// What is kept of a deleted job, see retain.cc. The columns are those of a trial that is still there.
absl::StatusOr<TrialRow> GetKeptTrial(Session& session, int64_t job_id, int study_number, int64_t ordinal) {
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_PG_TRIAL_COLUMNS
                                 ", t.log, t.samples FROM best_trial t WHERE t.job_id = $1 AND t.study_number = $2 AND "
                                 "t.ordinal = $3 LIMIT 1",
                                 job_id, study_number, ordinal));
  if (rows.empty()) return NotFound("study {} of job {} has no result for trial {}", study_number, job_id, ordinal);
  return WithData(rows[0]);
}

}  // namespace

absl::StatusOr<TrialRow> GetTrial(Session& session, int64_t job_id, int study_number, int64_t ordinal) {
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_PG_TRIAL_COLUMNS
                                 ", l.log, p.samples FROM study s JOIN trial_result t ON t.study_id = s.study_id "
                                 "LEFT JOIN trial_log l ON l.study_id = t.study_id AND l.ordinal = t.ordinal "
                                 "LEFT JOIN trial_samples p ON p.study_id = t.study_id AND p.ordinal = t.ordinal "
                                 "WHERE s.job_id = $1 AND s.number = $2 AND t.ordinal = $3",
                                 job_id, study_number, ordinal));
  if (rows.empty()) return GetKeptTrial(session, job_id, study_number, ordinal);
  return WithData(rows[0]);
}

absl::StatusOr<std::vector<OutcomeCountRow>> CountOutcomes(Session& session, int64_t job_id) {
  RETURN_IF_ERROR(RequireJob(session, job_id));
  ASSIGN_OR_RETURN(
      const Rows rows,
      session.Query("SELECT t.study_id, t.purpose, t.outcome, count(*) FROM study s JOIN trial_result t ON "
                    "t.study_id = s.study_id WHERE s.job_id = $1 GROUP BY t.study_id, t.purpose, "
                    "t.outcome ORDER BY t.study_id, t.purpose, t.outcome",
                    job_id));
  std::vector<OutcomeCountRow> counts;
  for (int i = 0; i < rows.size(); ++i) {
    const Row row = rows[i];
    counts.push_back({row.Int(0), static_cast<int>(row.Int(1)), static_cast<int>(row.Int(2)), row.Int(3)});
  }
  return counts;
}

}  // namespace tunefarm::postgres
