#include <algorithm>
#include <map>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/postgres/facets.h"
#include "server/store/postgres/operations.h"
#include "server/store/postgres/rows.h"
#include "server/store/trial_listing.h"
#include "server/store/trial_store.h"

namespace tunefarm::postgres {
namespace {

absl::Status RequireJob(Session& session, int64_t job_id) {
  ASSIGN_OR_RETURN(const Rows rows, session.Query("SELECT 1 FROM job WHERE job_id = $1", job_id));
  return rows.empty() ? NotFound("job {} does not exist", job_id) : absl::OkStatus();
}

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

TrialRow WithData(const Row& row) {
  TrialRow trial = ReadTrial(row);
  trial.log = row.Bytes(kTrialColumns);
  trial.samples = row.Bytes(kTrialColumns + 1);
  return trial;
}

// What is kept of a deleted job, see JobStore::DeleteJob. The columns are those of a trial that is still there.
absl::StatusOr<TrialRow> GetKeptTrial(Session& session, int64_t job_id, int study_number, int64_t ordinal) {
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_TRIAL_COLUMNS
                                 ", t.log, t.samples FROM best_trial t WHERE t.job_id = $1 AND t.study_number = $2 AND "
                                 "t.ordinal = $3 LIMIT 1",
                                 job_id, study_number, ordinal));
  if (rows.empty()) return NotFound("study {} of job {} has no result for trial {}", study_number, job_id, ordinal);
  return WithData(rows[0]);
}

// Of the search alone: a final measures again what the search has found.
#define TUNEFARM_PG_RESULT "SELECT t.ordinal, t.outcome, t.config, t.median_ns FROM trial_result t "
constexpr std::string_view kFastest = TUNEFARM_PG_RESULT
    "WHERE t.study_id = $1 AND t.purpose = 1 AND coalesce(t.median_ns, 'Infinity'::float8) < 'Infinity'::float8 ORDER "
    "BY coalesce(t.median_ns, 'Infinity'::float8), t.ordinal LIMIT $2";
constexpr std::string_view kAtOrdinals =
    TUNEFARM_PG_RESULT "WHERE t.study_id = $1 AND t.ordinal = ANY($2) AND t.purpose = 1";
constexpr std::string_view kNewestFailed =
    TUNEFARM_PG_RESULT "WHERE t.study_id = $1 AND t.purpose = 1 AND t.outcome = $3 ORDER BY t.ordinal DESC LIMIT $2";

using Results = std::map<int64_t, ResultRow>;  // by ordinal

void TakeAll(const Rows& rows, Results* results) {
  for (int i = 0; i < rows.size(); ++i) {
    const Row row = rows[i];
    results->try_emplace(row.Int(0), ResultRow{row.Int(0), static_cast<int>(row.Int(1)), row.Bytes(2), row.Real(3)});
  }
}

// Look-ups at even distances: a walk over all ordinals would take as long as the search was.
absl::Status TakeSpread(Session& session, int64_t study_id, int spread_max, Results* results) {
  ASSIGN_OR_RETURN(const Rows study, session.Query("SELECT next_ordinal FROM study_now WHERE study_id = $1", study_id));
  const int64_t ordinals = study.empty() ? 0 : study[0].Int(0);
  const int64_t count = std::min<int64_t>(spread_max, ordinals);
  std::vector<int64_t> wanted;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t ordinal = ordinals / count * i + ordinals % count * i / count;
    if (results->count(ordinal) == 0) wanted.push_back(ordinal);
  }
  if (wanted.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Rows rows, session.Query(kAtOrdinals, study_id, wanted));
  TakeAll(rows, results);
  return absl::OkStatus();
}

// Of the job that ended first.
#define TUNEFARM_PG_PRUNE(table)                                                                      \
  "DELETE FROM " table                                                                                \
  " d USING (SELECT t.study_id, t.ordinal FROM job j JOIN study s ON s.job_id = j.job_id JOIN " table \
  " t ON t.study_id = s.study_id WHERE j.ended_at_ms < $1 AND " TUNEFARM_PG_NOT_A_BEST                \
  "ORDER BY j.ended_at_ms, t.study_id, t.ordinal LIMIT $2) o WHERE d.study_id = o.study_id AND d.ordinal = o.ordinal"

class PostgresTrials final : public Facet<TrialStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<Page<TrialRow>> ListTrials(const TrialQuery& query) override {
    return pool_->Call(&Pool::ReadSnapshot, [&](Session& session) -> absl::StatusOr<Page<TrialRow>> {
      RETURN_IF_ERROR(RequireJob(session, query.job_id));
      ASSIGN_OR_RETURN(
          const Rows rows,
          session.Query(
              "SELECT study_id, number FROM study WHERE job_id = $1 AND ($2 = 0 OR number = $2) ORDER BY number",
              query.job_id, query.study_number));
      std::vector<ListedStudy> studies;
      for (int i = 0; i < rows.size(); ++i) studies.push_back({rows[i].Int(0), rows[i].Int(1)});
      return ListTrialPage(query, studies,
                           [&](int64_t study_id, const std::vector<int>& outcomes, const TrialPlace& after,
                               int64_t limit) -> absl::StatusOr<std::vector<std::pair<TrialRow, double>>> {
                             const std::vector<int64_t> filter(outcomes.begin(), outcomes.end());
                             absl::StatusOr<Rows> trials =
                                 query.order_by_time
                                     ? session.Query(kByTime, study_id, filter, query.purpose, limit, after.ordinal,
                                                     after.sort_ns)
                                     : session.Query(kByOrdinal, study_id, filter, query.purpose, limit, after.ordinal);
                             RETURN_IF_ERROR(trials.status());
                             std::vector<std::pair<TrialRow, double>> piece;
                             for (int i = 0; i < trials->size(); ++i)
                               piece.emplace_back(ReadTrial((*trials)[i]), (*trials)[i].Real(kTrialColumns));
                             return piece;
                           });
    });
  }

  absl::StatusOr<TrialRow> GetTrial(int64_t job_id, int study_number, int64_t ordinal) override {
    return pool_->Call(&Pool::ReadSnapshot, [&](Session& session) -> absl::StatusOr<TrialRow> {
      ASSIGN_OR_RETURN(
          const Rows rows,
          session.Query(
              "SELECT " TUNEFARM_TRIAL_COLUMNS
              ", l.log, p.samples FROM study s JOIN trial_result t ON t.study_id = s.study_id LEFT JOIN trial_log l ON "
              "l.study_id = t.study_id AND l.ordinal = t.ordinal LEFT JOIN trial_samples p ON p.study_id = t.study_id "
              "AND p.ordinal = t.ordinal WHERE s.job_id = $1 AND s.number = $2 AND t.ordinal = $3",
              job_id, study_number, ordinal));
      if (rows.empty()) return GetKeptTrial(session, job_id, study_number, ordinal);
      return WithData(rows[0]);
    });
  }

  absl::StatusOr<std::vector<OutcomeCountRow>> CountOutcomes(int64_t job_id) override {
    return pool_->Call(&Pool::ReadSnapshot, [&](Session& session) -> absl::StatusOr<std::vector<OutcomeCountRow>> {
      RETURN_IF_ERROR(RequireJob(session, job_id));
      ASSIGN_OR_RETURN(const Rows rows,
                       session.Query("SELECT t.study_id, t.purpose, t.outcome, count(*) FROM study s JOIN trial_result "
                                     "t ON t.study_id = s.study_id WHERE s.job_id = $1 GROUP BY t.study_id, t.purpose, "
                                     "t.outcome ORDER BY t.study_id, t.purpose, t.outcome",
                                     job_id));
      std::vector<OutcomeCountRow> counts;
      for (int i = 0; i < rows.size(); ++i) {
        const Row row = rows[i];
        counts.push_back({row.Int(0), static_cast<int>(row.Int(1)), static_cast<int>(row.Int(2)), row.Int(3)});
      }
      return counts;
    });
  }

  absl::StatusOr<std::vector<ResultRow>> SampleResults(const ResultQuery& query) override {
    return pool_->Call(&Pool::ReadSnapshot, [&](Session& session) -> absl::StatusOr<std::vector<ResultRow>> {
      Results results;
      ASSIGN_OR_RETURN(const Rows fastest, session.Query(kFastest, query.study_id, std::max(query.fastest_max, 0)));
      TakeAll(fastest, &results);
      RETURN_IF_ERROR(TakeSpread(session, query.study_id, query.spread_max, &results));
      int64_t left = std::max(query.failed_max, 0);
      for (size_t i = 0; i < query.failed_outcomes.size(); ++i) {
        // An equal share of what is left: one kind of failure must not hide the others.
        const int64_t share = left / static_cast<int64_t>(query.failed_outcomes.size() - i);
        const auto before = static_cast<int64_t>(results.size());
        ASSIGN_OR_RETURN(const Rows failed,
                         session.Query(kNewestFailed, query.study_id, share, query.failed_outcomes[i]));
        TakeAll(failed, &results);
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
      ASSIGN_OR_RETURN(const int64_t logs, session.Run(TUNEFARM_PG_PRUNE("trial_log"), ended_before_ms, rows_max));
      ASSIGN_OR_RETURN(const int64_t samples,
                       session.Run(TUNEFARM_PG_PRUNE("trial_samples"), ended_before_ms, rows_max));
      return logs + samples;
    });
  }
};

}  // namespace

std::unique_ptr<TrialStore> NewTrialStore(const Shared& shared) { return std::make_unique<PostgresTrials>(shared); }

}  // namespace tunefarm::postgres
