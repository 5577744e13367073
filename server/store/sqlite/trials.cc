#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/sqlite/facets.h"
#include "server/store/sqlite/operations.h"
#include "server/store/sqlite/rows.h"
#include "server/store/trial_listing.h"
#include "server/store/trial_store.h"

namespace tunefarm::sqlite {
namespace {

absl::Status RequireJob(Database& database, int64_t job_id) {
  Statement row = database.Prepare("SELECT 1 FROM job WHERE job_id = ?");
  ASSIGN_OR_RETURN(const bool found, row.Bind(job_id).Step());
  return found ? absl::OkStatus() : NotFound("job {} does not exist", job_id);
}

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

using Piece = std::vector<std::pair<TrialRow, double>>;

struct PieceQuery {
  int64_t study_id = 0;
  std::string outcomes;  // as JSON
  TrialPlace after;
  int64_t limit = 0;
};

absl::StatusOr<Piece> ReadPiece(Database& database, const TrialQuery& query, const PieceQuery& piece) {
  const auto read = [&](std::string_view sql, int64_t limit, const auto&... place) {
    Statement rows = database.Prepare(sql);
    rows.Bind(piece.study_id, piece.outcomes, query.purpose, limit, place...);
    return ReadAll(rows, [](const Statement& row) { return std::pair(ReadTrial(row), row.Real(kTrialColumns)); });
  };
  if (!query.order_by_time) return read(kByOrdinal, piece.limit, piece.after.ordinal);
  ASSIGN_OR_RETURN(Piece trials, read(kAtTime, piece.limit, piece.after.ordinal, piece.after.sort_ns));
  const auto left = piece.limit - static_cast<int64_t>(trials.size());
  if (left == 0) return trials;
  ASSIGN_OR_RETURN(Piece later, read(kAfterTime, left, piece.after.sort_ns));
  std::move(later.begin(), later.end(), std::back_inserter(trials));
  return trials;
}

// What is kept of a deleted job, see JobStore::DeleteJob. The columns are those of a trial that is still there.
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

// Of the search alone: a final measures again what the search has found.
#define TUNEFARM_RESULT "SELECT t.ordinal, t.outcome, t.config, t.median_ns FROM trial_result t "
constexpr std::string_view kFastest = TUNEFARM_RESULT
    "INDEXED BY trial_result_by_time WHERE t.study_id = ?1 AND t.purpose = 1 AND "
    "ifnull(t.median_ns, 9e999) < 9e999 ORDER BY ifnull(t.median_ns, 9e999), t.ordinal LIMIT ?2";
constexpr std::string_view kAtOrdinal = TUNEFARM_RESULT "WHERE t.study_id = ?1 AND t.ordinal = ?2 AND t.purpose = 1";
constexpr std::string_view kNewestFailed = TUNEFARM_RESULT
    "INDEXED BY trial_result_by_outcome WHERE t.study_id = ?1 AND t.purpose = 1 AND t.outcome = ?3 ORDER BY t.rowid "
    "DESC LIMIT ?2";

using Results = std::map<int64_t, ResultRow>;  // by ordinal

absl::Status TakeAll(Statement& rows, Results* results) {
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return absl::OkStatus();
    results->try_emplace(rows.Int(0),
                         ResultRow{rows.Int(0), static_cast<int>(rows.Int(1)), rows.Bytes(2), rows.Real(3)});
  }
}

// Look-ups at even distances: a walk over all ordinals would take as long as the search was.
absl::Status TakeSpread(Database& database, int64_t study_id, int spread_max, Results* results) {
  Statement study = database.Prepare("SELECT next_ordinal FROM study WHERE study_id = ?");
  ASSIGN_OR_RETURN(const bool found, study.Bind(study_id).Step());
  const int64_t ordinals = found ? study.Int(0) : 0;
  const int64_t count = std::min<int64_t>(spread_max, ordinals);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t ordinal = ordinals / count * i + ordinals % count * i / count;
    if (results->count(ordinal) > 0) continue;
    Statement row = database.Prepare(kAtOrdinal);
    row.Bind(study_id, ordinal);
    RETURN_IF_ERROR(TakeAll(row, results));
  }
  return absl::OkStatus();
}

// Rows of both tables grow with time: the lowest are the oldest.
#define TUNEFARM_PRUNE(table)                                                                                 \
  "DELETE FROM " table " WHERE rowid IN (SELECT x.rowid FROM " table                                          \
  " x JOIN trial_result t ON t.study_id = x.study_id AND t.ordinal = x.ordinal JOIN study s ON s.study_id = " \
  "t.study_id JOIN job j ON j.job_id = s.job_id WHERE j.ended_at_ms < ?1 AND " TUNEFARM_NOT_A_BEST            \
  " ORDER BY x.rowid LIMIT ?2)"

class SqliteTrials final : public Facet<TrialStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<Page<TrialRow>> ListTrials(const TrialQuery& query) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<Page<TrialRow>> {
      RETURN_IF_ERROR(RequireJob(database, query.job_id));
      Statement rows = database.Prepare(
          "SELECT study_id, number FROM study WHERE job_id = ?1 AND (?2 = 0 OR number = ?2) ORDER BY number");
      rows.Bind(query.job_id, query.study_number);
      ASSIGN_OR_RETURN(const auto studies, ReadAll(rows, [](const Statement& row) {
                         return ListedStudy{row.Int(0), row.Int(1)};
                       }));
      return ListTrialPage(
          query, studies,
          [&](int64_t study_id, const std::vector<int>& outcomes, const TrialPlace& after, int64_t limit) {
            return ReadPiece(database, query, {study_id, JsonList(outcomes), after, limit});
          });
    });
  }

  absl::StatusOr<TrialRow> GetTrial(int64_t job_id, int study_number, int64_t ordinal) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<TrialRow> {
      Statement row = database.Prepare(
          "SELECT " TUNEFARM_TRIAL_COLUMNS
          ", l.log, p.samples FROM study s JOIN trial_result t ON t.study_id = s.study_id LEFT JOIN trial_log l ON "
          "l.study_id = t.study_id AND l.ordinal = t.ordinal LEFT JOIN trial_samples p ON p.study_id = t.study_id AND "
          "p.ordinal = t.ordinal WHERE s.job_id = ? AND s.number = ? AND t.ordinal = ?");
      ASSIGN_OR_RETURN(const bool found, row.Bind(job_id, study_number, ordinal).Step());
      if (!found) return GetKeptTrial(database, job_id, study_number, ordinal);
      TrialRow trial = ReadTrial(row);
      trial.log = row.Bytes(kTrialColumns);
      trial.samples = row.Bytes(kTrialColumns + 1);
      return trial;
    });
  }

  absl::StatusOr<std::vector<OutcomeCountRow>> CountOutcomes(int64_t job_id) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<std::vector<OutcomeCountRow>> {
      RETURN_IF_ERROR(RequireJob(database, job_id));
      Statement rows = database.Prepare(
          "SELECT t.study_id, t.purpose, t.outcome, count(*) FROM study s JOIN trial_result t ON t.study_id = "
          "s.study_id WHERE s.job_id = ? GROUP BY t.study_id, t.purpose, t.outcome ORDER BY t.study_id, t.purpose, "
          "t.outcome");
      rows.Bind(job_id);
      return ReadAll(rows, [](const Statement& row) {
        return OutcomeCountRow{row.Int(0), static_cast<int>(row.Int(1)), static_cast<int>(row.Int(2)), row.Int(3)};
      });
    });
  }

  absl::StatusOr<std::vector<ResultRow>> SampleResults(const ResultQuery& query) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<std::vector<ResultRow>> {
      Results results;
      Statement fastest = database.Prepare(kFastest);
      fastest.Bind(query.study_id, query.fastest_max);
      RETURN_IF_ERROR(TakeAll(fastest, &results));
      RETURN_IF_ERROR(TakeSpread(database, query.study_id, query.spread_max, &results));
      int64_t left = query.failed_max;
      for (size_t i = 0; i < query.failed_outcomes.size(); ++i) {
        // An equal share of what is left: one kind of failure must not hide the others.
        const int64_t share = left / static_cast<int64_t>(query.failed_outcomes.size() - i);
        const auto before = static_cast<int64_t>(results.size());
        Statement failed = database.Prepare(kNewestFailed);
        failed.Bind(query.study_id, share, query.failed_outcomes[i]);
        RETURN_IF_ERROR(TakeAll(failed, &results));
        left -= static_cast<int64_t>(results.size()) - before;
      }
      std::vector<ResultRow> rows;
      rows.reserve(results.size());
      for (auto& [ordinal, row] : results) rows.push_back(std::move(row));
      return rows;
    });
  }

  absl::StatusOr<std::vector<std::optional<MeasuredRow>>> FindMeasured(
      const std::vector<std::string>& measured_keys) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<std::vector<std::optional<MeasuredRow>>> {
      RETURN_IF_ERROR(CheckMeasuredKeys(measured_keys));
      std::vector<std::optional<MeasuredRow>> found;
      for (const std::string& key : measured_keys) {
        Statement row =
            database.Prepare("SELECT " TUNEFARM_TRIAL_COLUMNS
                             ", s.job_id, s.number FROM trial_result t INDEXED BY trial_result_by_measured JOIN study "
                             "s ON s.study_id = t.study_id WHERE t.measured_key = ? ORDER BY t.rowid DESC LIMIT 1");
        ASSIGN_OR_RETURN(const bool has_row, row.Bind(Blob{key}).Step());
        found.emplace_back();
        if (!has_row) continue;
        found.back() =
            MeasuredRow{row.Int(kTrialColumns), static_cast<int>(row.Int(kTrialColumns + 1)), ReadTrial(row)};
      }
      return found;
    });
  }

  absl::StatusOr<int64_t> PruneTrialData(int64_t ended_before_ms, int rows_max) override {
    return writer_->Call([&](Database& database) -> absl::StatusOr<int64_t> {
      ASSIGN_OR_RETURN(const int64_t logs,
                       DeletePart(database, TUNEFARM_PRUNE("trial_log"), ended_before_ms, rows_max));
      ASSIGN_OR_RETURN(const int64_t samples,
                       DeletePart(database, TUNEFARM_PRUNE("trial_samples"), ended_before_ms, rows_max));
      return logs + samples;
    });
  }
};

}  // namespace

std::unique_ptr<TrialStore> NewTrialStore(const Shared& shared) { return std::make_unique<SqliteTrials>(shared); }

}  // namespace tunefarm::sqlite
