// What a study may learn from others: which there are, some of their results, and what it was told when it began.

#include <algorithm>
#include <map>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/sqlite/operations.h"
#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {
namespace {

constexpr size_t kPriorsMax = 16;
constexpr size_t kPriorBytesMax = size_t{4} << 20;
constexpr size_t kMeasuredAtOnceMax = 64;
constexpr size_t kMeasuredKeyBytes = 16;

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

}  // namespace

absl::StatusOr<std::vector<KnownStudyRow>> StudiesOfProgram(Database& database, std::string_view program_digest,
                                                            int limit) {
  std::vector<KnownStudyRow> studies;
  Statement rows = database.Prepare(
      "SELECT s.study_id, s.job_id, s.problem_key, s.problem, s.class_id, s.toolkit, s.next_ordinal FROM "
      "(SELECT o.study_id FROM kernel k INDEXED BY kernel_by_program JOIN job j ON j.kernel_id = k.kernel_id "
      "JOIN study o ON o.job_id = j.job_id WHERE k.program_digest = ? AND o.next_ordinal > 0 "
      "ORDER BY o.study_id DESC LIMIT ?) n JOIN study s ON s.study_id = n.study_id ORDER BY s.study_id DESC");
  rows.Bind(program_digest, limit);
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return studies;
    studies.push_back(
        {rows.Int(0), rows.Int(1), rows.Bytes(2), rows.Bytes(3), rows.Bytes(4), rows.Bytes(5), rows.Int(6)});
  }
}

absl::StatusOr<std::vector<ResultRow>> SampleResults(Database& database, const ResultQuery& query) {
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
}

absl::Status StorePriors(Database& database, int64_t study_id, const std::vector<PriorRow>& priors) {
  if (priors.size() > kPriorsMax) {
    return InvalidArgument("a study starts from {} sources; at most {} are stored", priors.size(), kPriorsMax);
  }
  for (size_t i = 0; i < priors.size(); ++i) {
    if (priors[i].payload.size() > kPriorBytesMax) {
      return InvalidArgument("a source of study {} has {} bytes; at most {} are stored", study_id,
                             priors[i].payload.size(), kPriorBytesMax);
    }
    RETURN_IF_ERROR(
        database.Prepare("INSERT INTO study_prior (study_id, position, source_rank, payload) VALUES (?, ?, ?, ?)")
            .Bind(study_id, static_cast<int64_t>(i), priors[i].rank, Blob{priors[i].payload})
            .Run());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PriorRow>> LoadPriors(Database& database, int64_t study_id) {
  std::vector<PriorRow> priors;
  Statement rows =
      database.Prepare("SELECT source_rank, payload FROM study_prior WHERE study_id = ? ORDER BY position");
  rows.Bind(study_id);
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return priors;
    priors.push_back({static_cast<int>(rows.Int(0)), rows.Bytes(1)});
  }
}

absl::StatusOr<std::vector<std::optional<MeasuredRow>>> FindMeasured(Database& database,
                                                                     const std::vector<std::string>& measured_keys) {
  if (measured_keys.size() > kMeasuredAtOnceMax) {
    return InvalidArgument("{} keys are asked for; at most {} are answered at once", measured_keys.size(),
                           kMeasuredAtOnceMax);
  }
  std::vector<std::optional<MeasuredRow>> found;
  for (const std::string& key : measured_keys) {
    if (key.size() != kMeasuredKeyBytes)
      return InvalidArgument("a key has {} bytes, not {}", key.size(), kMeasuredKeyBytes);
    Statement row = database.Prepare("SELECT " TUNEFARM_TRIAL_COLUMNS
                                     ", s.job_id, s.number FROM trial_result t INDEXED BY trial_result_by_measured "
                                     "JOIN study s ON s.study_id = t.study_id WHERE t.measured_key = ? "
                                     "ORDER BY t.rowid DESC LIMIT 1");
    ASSIGN_OR_RETURN(const bool has_row, row.Bind(Blob{key}).Step());
    found.emplace_back();
    if (!has_row) continue;
    found.back() = MeasuredRow{row.Int(kTrialColumns), static_cast<int>(row.Int(kTrialColumns + 1)), ReadTrial(row)};
  }
  return found;
}

}  // namespace tunefarm::sqlite
