#include "server/store/shared/trials.h"

#include <map>
#include <utility>

#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/postgres/facets.h"
#include "server/store/read_rows.h"

namespace tunefarm::postgres {
namespace {

// One study's trials behind a place in the order: an index gives them in that order from there on. Parameters: $1
// study, $2 outcomes, $3 purpose, $4 limit; from $5 the place. Infinity stands for "no time", here as in the index.
#define TUNEFARM_PG_TRIALS_OF_STUDY                                                                         \
  "FROM trial_result t WHERE t.study_id = $1 AND (cardinality($2) = 0 OR t.outcome = ANY($2)) AND ($3 = 0 " \
  "OR t.purpose = $3) "
#define TUNEFARM_PG_TIME "coalesce(t.median_ns, 'Infinity'::float8)"

constexpr std::string_view kByOrdinal = "SELECT " TUNEFARM_TRIAL_COLUMNS ", 0::float8 " TUNEFARM_PG_TRIALS_OF_STUDY
                                        "AND t.ordinal > $5 ORDER BY t.ordinal LIMIT $4";
constexpr std::string_view kByTime =
    "SELECT " TUNEFARM_TRIAL_COLUMNS ", " TUNEFARM_PG_TIME " " TUNEFARM_PG_TRIALS_OF_STUDY "AND (" TUNEFARM_PG_TIME
    ", t.ordinal) > ($6, $5) ORDER BY " TUNEFARM_PG_TIME ", t.ordinal LIMIT $4";

// Of the job that ended first.
#define TUNEFARM_PG_PRUNE(table)                                                                      \
  "DELETE FROM " table                                                                                \
  " d USING (SELECT t.study_id, t.ordinal FROM job j JOIN study s ON s.job_id = j.job_id JOIN " table \
  " t ON t.study_id = s.study_id WHERE j.ended_at_ms < $1 AND " TUNEFARM_NOT_A_BEST                   \
  "ORDER BY j.ended_at_ms, t.study_id, t.ordinal LIMIT $2) o WHERE d.study_id = o.study_id AND d.ordinal = o.ordinal"

class PostgresTrials final : public Facet<SharedTrials> {
 public:
  explicit PostgresTrials(const Shared& shared) : Facet(shared, shared.backend) {}

  absl::StatusOr<std::vector<std::optional<MeasuredRow>>> FindMeasured(
      const std::vector<std::string>& measured_keys) override {
    return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<std::vector<std::optional<MeasuredRow>>> {
      RETURN_IF_ERROR(CheckMeasuredKeys(measured_keys));
      Blobs keys;
      std::map<std::string_view, std::vector<size_t>> places;
      for (size_t i = 0; i < measured_keys.size(); ++i) {
        const std::string& key = measured_keys[i];
        keys.values.push_back(key);
        places[key].push_back(i);
      }
      std::vector<std::optional<MeasuredRow>> found(measured_keys.size());
      if (found.empty()) return found;
      // All keys in one walk over each partition's index: a search by key cannot tell which partition has it, and most
      // ask for what is nowhere. Sorted by expressions, so that no plan takes the order from the primary keys, walking
      // over all results.
      ASSIGN_OR_RETURN(
          const Rows rows,
          session.Query("SELECT " TUNEFARM_TRIAL_COLUMNS
                        ", s.job_id, s.number, t.measured_key FROM (SELECT DISTINCT ON (r.measured_key) r.* FROM "
                        "trial_result r WHERE r.measured_key = ANY($1) ORDER BY r.measured_key, r.study_id + 0 DESC, "
                        "r.ordinal + 0 DESC) t JOIN study s ON s.study_id = t.study_id",
                        keys));
      for (int i = 0; i < rows.size(); ++i) {
        const Row row = rows[i];
        const MeasuredRow measured{row.Int(kTrialColumns), static_cast<int>(row.Int(kTrialColumns + 1)),
                                   ReadTrial(row)};
        for (const size_t place : places.at(row.Bytes(kTrialColumns + 2))) found[place] = measured;
      }
      return found;
    });
  }

  absl::StatusOr<int64_t> PruneTrialData(int64_t ended_before_ms, int rows_max) override {
    return pool_->Call(&Pool::Write, [&](Session& session) -> absl::StatusOr<int64_t> {
      ASSIGN_OR_RETURN(const int64_t logs, session.Change(TUNEFARM_PG_PRUNE("trial_log"), ended_before_ms, rows_max));
      ASSIGN_OR_RETURN(const int64_t samples,
                       session.Change(TUNEFARM_PG_PRUNE("trial_samples"), ended_before_ms, rows_max));
      return logs + samples;
    });
  }

 private:
  absl::StatusOr<PlacedTrials> ReadPiece(Sql& sql, const TrialQuery& query, const TrialPiece& piece) override {
    const auto read = [](const SqlRow& row) { return std::pair(ReadTrial(row), row.Real(kTrialColumns)); };
    if (!query.order_by_time) {
      return sql.ReadAll(read, kByOrdinal, piece.study_id, piece.outcomes, query.purpose, piece.limit,
                         piece.after.ordinal);
    }
    return sql.ReadAll(read, kByTime, piece.study_id, piece.outcomes, query.purpose, piece.limit, piece.after.ordinal,
                       piece.after.sort_ns);
  }

#define TUNEFARM_PG_RESULT \
  "SELECT " TUNEFARM_RESULT_COLUMNS " FROM trial_result t WHERE t.study_id = $1 AND t.purpose = 1 AND "
  absl::StatusOr<Results> ReadFastest(Sql& sql, int64_t study_id, int64_t limit) override {
    return sql.ReadAll(ReadResult,
                       TUNEFARM_PG_RESULT TUNEFARM_PG_TIME " < 'Infinity'::float8 ORDER BY " TUNEFARM_PG_TIME
                                                           ", t.ordinal LIMIT $2",
                       study_id, limit);
  }
  absl::StatusOr<Results> ReadNewest(Sql& sql, int64_t study_id, int outcome, int64_t limit) override {
    return sql.ReadAll(ReadResult, TUNEFARM_PG_RESULT "t.outcome = $2 ORDER BY t.ordinal DESC LIMIT $3", study_id,
                       outcome, limit);
  }
  absl::StatusOr<Results> ReadAt(Sql& sql, int64_t study_id, const std::vector<int64_t>& ordinals) override {
    if (ordinals.empty()) return Results();
    return sql.ReadAll(ReadResult, TUNEFARM_PG_RESULT "t.ordinal = ANY($2)", study_id, ordinals);
  }
  absl::StatusOr<std::vector<TrialRow>> ReadTrialsAt(Sql& sql, int64_t study_id,
                                                     const std::vector<int64_t>& ordinals) override {
    if (ordinals.empty()) return std::vector<TrialRow>();
    return sql.ReadAll(ReadTrial,
                       "SELECT " TUNEFARM_TRIAL_COLUMNS
                       " FROM trial_result t WHERE t.study_id = $1 AND t.ordinal = ANY($2)",
                       study_id, ordinals);
  }
  absl::StatusOr<int64_t> NextOrdinal(Sql& sql, int64_t study_id) override {
    ASSIGN_OR_RETURN(const std::optional<int64_t> next,
                     sql.ReadOne(Sql::ReadInt, "SELECT next_ordinal FROM study_now WHERE study_id = $1", study_id));
    return next.value_or(0);
  }
};

}  // namespace

std::unique_ptr<TrialStore> NewTrialStore(const Shared& shared) { return std::make_unique<PostgresTrials>(shared); }

}  // namespace tunefarm::postgres
