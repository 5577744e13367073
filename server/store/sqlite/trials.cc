#include "server/store/shared/trials.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <iterator>
#include <utility>

#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/read_rows.h"
#include "server/store/sqlite/facets.h"

namespace tunefarm::sqlite {
namespace {

// "[1,2,3]", for json_each: how a list is bound to one parameter.
std::string JsonList(const std::vector<int64_t>& numbers) { return fmt::format("[{}]", fmt::join(numbers, ",")); }

// One study's trials behind a place in the order: an index gives them in that order from there on. Parameters: $1
// study, $2 outcomes, $3 purpose, $4 limit; from $5 the place.
#define TUNEFARM_TRIALS_OF_STUDY                                                                                 \
  "FROM trial_result t WHERE t.study_id = $1 AND ($2 = '[]' OR t.outcome IN (SELECT value FROM json_each($2))) " \
  "AND ($3 = 0 OR t.purpose = $3) "

constexpr std::string_view kByOrdinal =
    "SELECT " TUNEFARM_TRIAL_COLUMNS ", 0.0 " TUNEFARM_TRIALS_OF_STUDY "AND t.ordinal > $5 ORDER BY t.ordinal LIMIT $4";
// Infinity stands for "no time", here as in the index. Two statements, since of a pair that begins with an expression
// SQLite does not look for the place, but walks there.
constexpr std::string_view kAtTime =
    "SELECT " TUNEFARM_TRIAL_COLUMNS ", ifnull(t.median_ns, 9e999) " TUNEFARM_TRIALS_OF_STUDY
    "AND ifnull(t.median_ns, 9e999) = $6 AND t.ordinal > $5 ORDER BY t.ordinal LIMIT $4";
constexpr std::string_view kAfterTime =
    "SELECT " TUNEFARM_TRIAL_COLUMNS ", ifnull(t.median_ns, 9e999) " TUNEFARM_TRIALS_OF_STUDY
    "AND ifnull(t.median_ns, 9e999) > $5 ORDER BY ifnull(t.median_ns, 9e999), t.ordinal LIMIT $4";

// Rows of both tables grow with time: the lowest are the oldest.
#define TUNEFARM_PRUNE(table)                                                                                 \
  "DELETE FROM " table " WHERE rowid IN (SELECT x.rowid FROM " table                                          \
  " x JOIN trial_result t ON t.study_id = x.study_id AND t.ordinal = x.ordinal JOIN study s ON s.study_id = " \
  "t.study_id JOIN job j ON j.job_id = s.job_id WHERE j.ended_at_ms < $1 AND " TUNEFARM_NOT_A_BEST            \
  "ORDER BY x.rowid LIMIT $2)"

class SqliteTrials final : public Facet<SharedTrials> {
 public:
  explicit SqliteTrials(const Shared& shared) : Facet(shared, shared.backend) {}

  absl::StatusOr<std::vector<std::optional<MeasuredRow>>> FindMeasured(
      const std::vector<std::string>& measured_keys) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<std::vector<std::optional<MeasuredRow>>> {
      RETURN_IF_ERROR(CheckMeasuredKeys(measured_keys));
      std::vector<std::optional<MeasuredRow>> found;
      for (const std::string& key : measured_keys) {
        const auto read = [](const SqlRow& row) {
          return MeasuredRow{row.Int(kTrialColumns), static_cast<int>(row.Int(kTrialColumns + 1)), ReadTrial(row)};
        };
        ASSIGN_OR_RETURN(
            found.emplace_back(),
            database.ReadOne(read,
                             "SELECT " TUNEFARM_TRIAL_COLUMNS
                             ", s.job_id, s.number FROM trial_result t INDEXED BY trial_result_by_measured JOIN study "
                             "s ON s.study_id = t.study_id WHERE t.measured_key = $1 ORDER BY t.rowid DESC LIMIT 1",
                             Blob{key}));
      }
      return found;
    });
  }

  absl::StatusOr<int64_t> PruneTrialData(int64_t ended_before_ms, int rows_max) override {
    return writer_->Call([&](Database& database) -> absl::StatusOr<int64_t> {
      ASSIGN_OR_RETURN(const int64_t logs, database.Change(TUNEFARM_PRUNE("trial_log"), ended_before_ms, rows_max));
      ASSIGN_OR_RETURN(const int64_t samples,
                       database.Change(TUNEFARM_PRUNE("trial_samples"), ended_before_ms, rows_max));
      return logs + samples;
    });
  }

 private:
  absl::StatusOr<PlacedTrials> ReadPiece(Sql& sql, const TrialQuery& query, const TrialPiece& piece) override {
    const auto read = [&](std::string_view statement, int64_t limit, const auto&... place) {
      return sql.ReadAll([](const SqlRow& row) { return std::pair(ReadTrial(row), row.Real(kTrialColumns)); },
                         statement, piece.study_id, JsonList(piece.outcomes), query.purpose, limit, place...);
    };
    if (!query.order_by_time) return read(kByOrdinal, piece.limit, piece.after.ordinal);
    ASSIGN_OR_RETURN(PlacedTrials trials, read(kAtTime, piece.limit, piece.after.ordinal, piece.after.sort_ns));
    const auto left = piece.limit - static_cast<int64_t>(trials.size());
    if (left == 0) return trials;
    ASSIGN_OR_RETURN(PlacedTrials later, read(kAfterTime, left, piece.after.sort_ns));
    std::move(later.begin(), later.end(), std::back_inserter(trials));
    return trials;
  }

#define TUNEFARM_RESULT "SELECT " TUNEFARM_RESULT_COLUMNS " FROM trial_result t "
  absl::StatusOr<Results> ReadFastest(Sql& sql, int64_t study_id, int64_t limit) override {
    return sql.ReadAll(ReadResult,
                       TUNEFARM_RESULT
                       "INDEXED BY trial_result_by_time WHERE t.study_id = $1 AND t.purpose = 1 AND "
                       "ifnull(t.median_ns, 9e999) < 9e999 ORDER BY ifnull(t.median_ns, 9e999), t.ordinal LIMIT $2",
                       study_id, limit);
  }
  absl::StatusOr<Results> ReadNewest(Sql& sql, int64_t study_id, int outcome, int64_t limit) override {
    return sql.ReadAll(ReadResult,
                       TUNEFARM_RESULT
                       "INDEXED BY trial_result_by_outcome WHERE t.study_id = $1 AND t.purpose = 1 AND t.outcome = $2 "
                       "ORDER BY t.rowid DESC LIMIT $3",
                       study_id, outcome, limit);
  }
  absl::StatusOr<Results> ReadAt(Sql& sql, int64_t study_id, const std::vector<int64_t>& ordinals) override {
    Results results;
    for (const int64_t ordinal : ordinals) {
      ASSIGN_OR_RETURN(
          std::optional<ResultRow> result,
          sql.ReadOne(ReadResult, TUNEFARM_RESULT "WHERE t.study_id = $1 AND t.ordinal = $2 AND t.purpose = 1",
                      study_id, ordinal));
      if (result.has_value()) results.push_back(*std::move(result));
    }
    return results;
  }
  absl::StatusOr<std::vector<TrialRow>> ReadTrialsAt(Sql& sql, int64_t study_id,
                                                     const std::vector<int64_t>& ordinals) override {
    return sql.ReadAll(ReadTrial,
                       "SELECT " TUNEFARM_TRIAL_COLUMNS
                       " FROM json_each($2) o CROSS JOIN trial_result t WHERE t.study_id = $1 AND t.ordinal = o.value",
                       study_id, JsonList(ordinals));
  }
  absl::StatusOr<int64_t> NextOrdinal(Sql& sql, int64_t study_id) override {
    ASSIGN_OR_RETURN(const std::optional<int64_t> next,
                     sql.ReadOne(Sql::ReadInt, "SELECT next_ordinal FROM study WHERE study_id = $1", study_id));
    return next.value_or(0);
  }
};

}  // namespace

std::unique_ptr<TrialStore> NewTrialStore(const Shared& shared) { return std::make_unique<SqliteTrials>(shared); }

}  // namespace tunefarm::sqlite
