#pragma once

#include "server/store/shared/facets.h"
#include "server/store/trial_listing.h"
#include "server/store/trial_store.h"

namespace tunefarm {

// What TrialStore is alike on both databases. Each adds the statements that walk along indexes.
class SharedTrials : public SharedFacet<TrialStore> {
 public:
  using SharedFacet::SharedFacet;

  absl::StatusOr<Page<TrialRow>> ListTrials(const TrialQuery& query) override;
  absl::StatusOr<TrialRow> GetTrial(int64_t job_id, int study_number, int64_t ordinal) override;
  absl::StatusOr<std::vector<OutcomeCountRow>> CountOutcomes(int64_t job_id) override;
  absl::StatusOr<std::vector<ResultRow>> SampleResults(const ResultQuery& query) override;
  absl::StatusOr<std::vector<TrialColumns>> ReadColumns(int64_t study_id, int64_t from_ordinal, int rows_max) override;
  absl::StatusOr<std::vector<TrialRow>> ReadTrials(int64_t study_id, const std::vector<int64_t>& ordinals) override;

 protected:
  using Results = std::vector<ResultRow>;
  // Of TUNEFARM_RESULT_COLUMNS.
  static ResultRow ReadResult(const SqlRow& row);

 private:
  // See ReadTrials.
  virtual absl::StatusOr<PlacedTrials> ReadPiece(Sql& sql, const TrialQuery& query, const TrialPiece& piece) = 0;
  // Results of a study's search: a final measures again what the search has found.
  virtual absl::StatusOr<Results> ReadFastest(Sql& sql, int64_t study_id, int64_t limit) = 0;
  virtual absl::StatusOr<Results> ReadNewest(Sql& sql, int64_t study_id, int outcome, int64_t limit) = 0;
  virtual absl::StatusOr<Results> ReadAt(Sql& sql, int64_t study_id, const std::vector<int64_t>& ordinals) = 0;
  virtual absl::StatusOr<std::vector<TrialRow>> ReadTrialsAt(Sql& sql, int64_t study_id,
                                                             const std::vector<int64_t>& ordinals) = 0;
  // 0 if there is no such study.
  virtual absl::StatusOr<int64_t> NextOrdinal(Sql& sql, int64_t study_id) = 0;
};

#define TUNEFARM_RESULT_COLUMNS "t.ordinal, t.outcome, t.config, t.median_ns"
// A condition on a table t of trials: no best config stands on the trial.
#define TUNEFARM_NOT_A_BEST \
  "NOT EXISTS (SELECT 1 FROM best_config b WHERE b.study_id = t.study_id AND b.ordinal = t.ordinal) "

}  // namespace tunefarm
