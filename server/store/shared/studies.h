#pragma once

#include "server/store/shared/facets.h"
#include "server/store/study_store.h"

namespace tunefarm {

// What StudyStore is alike on both databases. Each adds the steps of studies and the reads of many rows at once.
class SharedStudies : public SharedFacet<StudyStore> {
 public:
  using SharedFacet::SharedFacet;

  absl::StatusOr<StudyHistory> LoadHistory(int64_t study_id, int64_t after_sequence, int events_max) override;
  absl::StatusOr<StudyHistory> LoadDone(int64_t study_id, int units_max,
                                        const std::vector<int64_t>& known_unit_ids) override;
  absl::StatusOr<std::vector<PriorRow>> LoadPriors(int64_t study_id) override;

 protected:
  // study_id, job_id, problem_key, problem, class_id, toolkit, next_ordinal.
  static KnownStudyRow ReadKnownStudy(const SqlRow& row);

 private:
  // Those of the units that are still there, by id.
  virtual absl::StatusOr<std::vector<UnitRow>> ReadUnits(Sql& sql, const std::vector<int64_t>& unit_ids) = 0;
  // The study's DONE units but those known, by id.
  virtual absl::StatusOr<std::vector<UnitRow>> ReadDone(Sql& sql, int64_t study_id, int units_max,
                                                        const std::vector<int64_t>& known_unit_ids) = 0;
  // Of units of one study, by ordinal.
  virtual absl::StatusOr<std::vector<TrialRow>> ReadTrials(Sql& sql, int64_t study_id,
                                                           const std::vector<const UnitRow*>& units) = 0;
};

absl::Status StorePriors(Sql& sql, int64_t study_id, const std::vector<PriorRow>& priors);

}  // namespace tunefarm
