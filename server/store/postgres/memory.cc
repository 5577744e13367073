// What a study may learn from others: which there are, some of their results, and what it was told when it began.

#include <algorithm>
#include <map>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/operations.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
namespace {

constexpr size_t kPriorsMax = 16;
constexpr size_t kPriorBytesMax = size_t{4} << 20;
constexpr size_t kMeasuredAtOnceMax = 64;
constexpr size_t kMeasuredKeyBytes = 16;

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

}  // namespace

absl::StatusOr<std::vector<KnownStudyRow>> StudiesOfProgram(Session& session, std::string_view program_digest,
                                                            int limit) {
  ASSIGN_OR_RETURN(
      const Rows rows,
      session.Query("SELECT s.study_id, s.job_id, s.problem_key, s.problem, s.class_id, s.toolkit, s.next_ordinal FROM "
                    "(SELECT o.study_id FROM kernel k JOIN job j ON j.kernel_id = k.kernel_id "
                    "JOIN study_now o ON o.job_id = j.job_id WHERE k.program_digest = $1 AND o.next_ordinal > 0 "
                    "ORDER BY o.study_id DESC LIMIT $2) n JOIN study_now s ON s.study_id = n.study_id ORDER BY "
                    "s.study_id DESC",
                    program_digest, std::max(limit, 0)));
  std::vector<KnownStudyRow> studies;
  for (int i = 0; i < rows.size(); ++i) {
    const Row row = rows[i];
    studies.push_back({row.Int(0), row.Int(1), row.Bytes(2), row.Bytes(3), row.Bytes(4), row.Bytes(5), row.Int(6)});
  }
  return studies;
}

absl::StatusOr<std::vector<ResultRow>> SampleResults(Session& session, const ResultQuery& query) {
  Results results;
  ASSIGN_OR_RETURN(const Rows fastest, session.Query(kFastest, query.study_id, std::max(query.fastest_max, 0)));
  TakeAll(fastest, &results);
  RETURN_IF_ERROR(TakeSpread(session, query.study_id, query.spread_max, &results));
  int64_t left = std::max(query.failed_max, 0);
  for (size_t i = 0; i < query.failed_outcomes.size(); ++i) {
    // An equal share of what is left: one kind of failure must not hide the others.
    const int64_t share = left / static_cast<int64_t>(query.failed_outcomes.size() - i);
    const auto before = static_cast<int64_t>(results.size());
    ASSIGN_OR_RETURN(const Rows failed, session.Query(kNewestFailed, query.study_id, share, query.failed_outcomes[i]));
    TakeAll(failed, &results);
    left -= static_cast<int64_t>(results.size()) - before;
  }
  std::vector<ResultRow> rows;
  rows.reserve(results.size());
  for (auto& [ordinal, row] : results) rows.push_back(std::move(row));
  return rows;
}

absl::Status StorePriors(Session& session, int64_t study_id, const std::vector<PriorRow>& priors) {
  if (priors.size() > kPriorsMax) {
    return InvalidArgument("a study starts from {} sources; at most {} are stored", priors.size(), kPriorsMax);
  }
  for (size_t i = 0; i < priors.size(); ++i) {
    if (priors[i].payload.size() > kPriorBytesMax) {
      return InvalidArgument("a source of study {} has {} bytes; at most {} are stored", study_id,
                             priors[i].payload.size(), kPriorBytesMax);
    }
    RETURN_IF_ERROR(
        session
            .Run("INSERT INTO study_prior (study_id, position, source_rank, payload) VALUES ($1, $2, $3, $4)", study_id,
                 static_cast<int64_t>(i), priors[i].rank, Blob{priors[i].payload})
            .status());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PriorRow>> LoadPriors(Session& session, int64_t study_id) {
  ASSIGN_OR_RETURN(
      const Rows rows,
      session.Query("SELECT source_rank, payload FROM study_prior WHERE study_id = $1 ORDER BY position", study_id));
  std::vector<PriorRow> priors;
  for (int i = 0; i < rows.size(); ++i) priors.push_back({static_cast<int>(rows[i].Int(0)), rows[i].Bytes(1)});
  return priors;
}

absl::StatusOr<std::vector<std::optional<MeasuredRow>>> FindMeasured(Session& session,
                                                                     const std::vector<std::string>& measured_keys) {
  if (measured_keys.size() > kMeasuredAtOnceMax) {
    return InvalidArgument("{} keys are asked for; at most {} are answered at once", measured_keys.size(),
                           kMeasuredAtOnceMax);
  }
  Blobs keys;
  std::map<std::string_view, std::vector<size_t>> places;
  for (size_t i = 0; i < measured_keys.size(); ++i) {
    const std::string& key = measured_keys[i];
    if (key.size() != kMeasuredKeyBytes)
      return InvalidArgument("a key has {} bytes, not {}", key.size(), kMeasuredKeyBytes);
    keys.values.push_back(key);
    places[key].push_back(i);
  }
  std::vector<std::optional<MeasuredRow>> found(measured_keys.size());
  if (found.empty()) return found;
  // All keys in one walk over each partition's index: a search by key cannot tell which partition has it, and most ask
  // for what is nowhere. Sorted by expressions, so that no plan takes the order from the primary keys, walking over all
  // results.
  ASSIGN_OR_RETURN(
      const Rows rows,
      session.Query("SELECT " TUNEFARM_PG_TRIAL_COLUMNS
                    ", s.job_id, s.number, t.measured_key FROM (SELECT DISTINCT ON (r.measured_key) r.* FROM "
                    "trial_result r WHERE r.measured_key = ANY($1) ORDER BY r.measured_key, r.study_id + 0 DESC, "
                    "r.ordinal + 0 DESC) t JOIN study s ON s.study_id = t.study_id",
                    keys));
  for (int i = 0; i < rows.size(); ++i) {
    const Row row = rows[i];
    const MeasuredRow measured{row.Int(kTrialColumns), static_cast<int>(row.Int(kTrialColumns + 1)), ReadTrial(row)};
    for (const size_t place : places.at(row.Bytes(kTrialColumns + 2))) found[place] = measured;
  }
  return found;
}

}  // namespace tunefarm::postgres
