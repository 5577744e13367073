#include "server/store/shared/trials.h"

#include <algorithm>
#include <map>

#include "server/store/page_token.h"
#include "server/store/read_rows.h"

namespace tunefarm {
namespace {

absl::Status RequireJob(Sql& sql, int64_t job_id) {
  ASSIGN_OR_RETURN(const bool found, sql.Exists("SELECT 1 FROM job WHERE job_id = $1", job_id));
  return found ? absl::OkStatus() : NotFound("job {} does not exist", job_id);
}

TrialRow ReadWithData(const SqlRow& row) {
  TrialRow trial = ReadTrial(row);
  trial.log = row.Bytes(kTrialColumns);
  trial.samples = row.Bytes(kTrialColumns + 1);
  return trial;
}

// At even distances: a walk over all ordinals would take as long as the search was.
std::vector<int64_t> Spread(int64_t ordinals, int spread_max) {
  const int64_t count = std::min<int64_t>(spread_max, ordinals);
  std::vector<int64_t> spread;
  for (int64_t i = 0; i < count; ++i) spread.push_back(ordinals / count * i + ordinals % count * i / count);
  return spread;
}

}  // namespace

ResultRow SharedTrials::ReadResult(const SqlRow& row) {
  return {row.Int(0), static_cast<int>(row.Int(1)), row.Bytes(2), row.Real(3)};
}

absl::StatusOr<Page<TrialRow>> SharedTrials::ListTrials(const TrialQuery& query) {
  return backend_->ReadSnapshot([&](Sql& sql) -> absl::StatusOr<Page<TrialRow>> {
    RETURN_IF_ERROR(RequireJob(sql, query.job_id));
    ASSIGN_OR_RETURN(
        const std::vector<ListedStudy> studies,
        sql.ReadAll(
            [](const SqlRow& row) {
              return ListedStudy{row.Int(0), row.Int(1)};
            },
            "SELECT study_id, number FROM study WHERE job_id = $1 AND ($2 = 0 OR number = $2) ORDER BY number",
            query.job_id, query.study_number));
    return ListTrialPage(query, studies, [&](const TrialPiece& piece) { return ReadPiece(sql, query, piece); });
  });
}

absl::StatusOr<TrialRow> SharedTrials::GetTrial(int64_t job_id, int study_number, int64_t ordinal) {
  return backend_->ReadSnapshot([&](Sql& sql) -> absl::StatusOr<TrialRow> {
    // The second is what is kept of a deleted job, see JobStore::DeleteJob.
    for (const std::string_view select :
         {"SELECT " TUNEFARM_TRIAL_COLUMNS
          ", l.log, p.samples FROM study s JOIN trial_result t ON t.study_id = s.study_id LEFT JOIN trial_log l ON "
          "l.study_id = t.study_id AND l.ordinal = t.ordinal LEFT JOIN trial_samples p ON p.study_id = t.study_id "
          "AND p.ordinal = t.ordinal WHERE s.job_id = $1 AND s.number = $2 AND t.ordinal = $3",
          "SELECT " TUNEFARM_TRIAL_COLUMNS ", t.log, t.samples FROM best_trial t WHERE t.job_id = $1 AND "
          "t.study_number = $2 AND t.ordinal = $3 LIMIT 1"}) {
      ASSIGN_OR_RETURN(std::optional<TrialRow> trial, sql.ReadOne(ReadWithData, select, job_id, study_number, ordinal));
      if (trial.has_value()) return *std::move(trial);
    }
    return NotFound("study {} of job {} has no result for trial {}", study_number, job_id, ordinal);
  });
}

absl::StatusOr<std::vector<OutcomeCountRow>> SharedTrials::CountOutcomes(int64_t job_id) {
  const auto read = [](const SqlRow& row) {
    return OutcomeCountRow{row.Int(0), static_cast<int>(row.Int(1)), static_cast<int>(row.Int(2)), row.Int(3)};
  };
  return backend_->ReadSnapshot([&](Sql& sql) -> absl::StatusOr<std::vector<OutcomeCountRow>> {
    RETURN_IF_ERROR(RequireJob(sql, job_id));
    return sql.ReadAll(read,
                       "SELECT t.study_id, t.purpose, t.outcome, count(*) FROM study s JOIN trial_result t ON "
                       "t.study_id = s.study_id WHERE s.job_id = $1 GROUP BY t.study_id, t.purpose, t.outcome ORDER "
                       "BY t.study_id, t.purpose, t.outcome",
                       job_id);
  });
}

absl::StatusOr<std::vector<ResultRow>> SharedTrials::SampleResults(const ResultQuery& query) {
  return backend_->ReadSnapshot([&](Sql& sql) -> absl::StatusOr<std::vector<ResultRow>> {
    std::map<int64_t, ResultRow> results;  // by ordinal
    const auto take = [&](Results rows) {
      for (ResultRow& row : rows) results.try_emplace(row.ordinal, std::move(row));
    };
    ASSIGN_OR_RETURN(Results fastest, ReadFastest(sql, query.study_id, std::max(query.fastest_max, 0)));
    take(std::move(fastest));
    ASSIGN_OR_RETURN(const int64_t ordinals, NextOrdinal(sql, query.study_id));
    std::vector<int64_t> spread = Spread(ordinals, query.spread_max);
    std::erase_if(spread, [&](int64_t ordinal) { return results.count(ordinal) > 0; });
    ASSIGN_OR_RETURN(Results between, ReadAt(sql, query.study_id, spread));
    take(std::move(between));
    int64_t left = std::max(query.failed_max, 0);
    for (size_t i = 0; i < query.failed_outcomes.size(); ++i) {
      // An equal share of what is left: one kind of failure must not hide the others.
      const int64_t share = left / static_cast<int64_t>(query.failed_outcomes.size() - i);
      const auto before = static_cast<int64_t>(results.size());
      ASSIGN_OR_RETURN(Results failed, ReadNewest(sql, query.study_id, query.failed_outcomes[i], share));
      take(std::move(failed));
      left -= static_cast<int64_t>(results.size()) - before;
    }
    std::vector<ResultRow> rows;
    rows.reserve(results.size());
    for (auto& [ordinal, row] : results) rows.push_back(std::move(row));
    return rows;
  });
}

absl::StatusOr<std::vector<TrialColumns>> SharedTrials::ReadColumns(int64_t study_id, int64_t from_ordinal,
                                                                    int rows_max) {
  const auto read = [](const SqlRow& row) {
    return TrialColumns{
        row.Int(0),  static_cast<int>(row.Int(1)), static_cast<int>(row.Int(2)), row.Bytes(3), row.Real(4), row.Int(5),
        row.Bytes(6)};
  };
  return backend_->Read([&](Sql& sql) {
    return sql.ReadAll(read,
                       "SELECT t.ordinal, t.outcome, t.purpose, t.config, t.median_ns, t.ended_at_ms, CASE WHEN "
                       "t.outcome <> 1 OR t.ordinal < $4 THEN t.detail END FROM trial_result t WHERE t.study_id = $1 "
                       "AND t.ordinal >= $2 ORDER BY t.ordinal LIMIT $3",
                       study_id, from_ordinal, int64_t{rows_max}, kDetailedOrdinals);
  });
}

absl::StatusOr<std::vector<TrialRow>> SharedTrials::ReadTrials(int64_t study_id, const std::vector<int64_t>& ordinals) {
  if (ordinals.size() > static_cast<size_t>(kPageSizeMax)) {
    return InvalidArgument("{} trials are asked for at once, {} are the most", ordinals.size(), kPageSizeMax);
  }
  return backend_->ReadSnapshot([&](Sql& sql) { return ReadTrialsAt(sql, study_id, ordinals); });
}

}  // namespace tunefarm
