#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/store/trial_store.h"

namespace tunefarm {

// How a listing of trials goes through the studies of a job: each is read in pieces, and the pieces are merged.
struct ListedStudy {
  int64_t study_id = 0;
  int64_t number = 0;  // within its job
};

// The place of a trial in a listing: by time (by ordinal, every time is 0), then study, then ordinal.
struct TrialPlace {
  int64_t number = -1;
  int64_t ordinal = -1;
  double sort_ns = -1;  // infinity: the trial has no time
};

// Up to `limit` trials of a study behind the place.
struct TrialPiece {
  int64_t study_id = 0;
  std::vector<int64_t> outcomes;  // sorted; none: all
  TrialPlace after;
  int64_t limit = 0;
};
// In the order of the listing, each with its sort_ns.
using PlacedTrials = std::vector<std::pair<TrialRow, double>>;
using ReadTrials = std::function<absl::StatusOr<PlacedTrials>(const TrialPiece& piece)>;

// TrialStore::ListTrials, of the studies that it asks for, by number.
absl::StatusOr<Page<TrialRow>> ListTrialPage(const TrialQuery& query, const std::vector<ListedStudy>& studies,
                                             const ReadTrials& read);

}  // namespace tunefarm
