// TrialStore: results of trials, read and pruned. Threads and errors: as Store (store.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/job_rows.h"
#include "server/store/page.h"

namespace tunefarm {

struct TrialQuery {
  int64_t job_id = 0;
  int study_number = 0;        // 0: all
  bool order_by_time = false;  // fastest first, then those without a time; otherwise by study and ordinal
  std::vector<int> outcomes;   // empty: all
  int purpose = 0;             // 0: all
  PageRequest page;
};

struct OutcomeCountRow {
  int64_t study_id = 0;
  int purpose = 0;
  int outcome = 0;
  int64_t count = 0;
};

// A part of the results of a study's search: the fastest, some spread evenly over the whole search, the newest that
// failed. Costs what it answers, however many results are stored.
struct ResultQuery {
  int64_t study_id = 0;
  int fastest_max = 0;
  int spread_max = 0;
  int failed_max = 0;
  std::vector<int> failed_outcomes;  // those that count as failed
};

struct ResultRow {
  int64_t ordinal = 0;
  int outcome = 0;
  std::string config;    // canonical text
  double median_ns = 0;  // 0: none
};

struct MeasuredRow {
  int64_t job_id = 0;
  int study_number = 0;
  TrialRow trial;  // log and samples left out
};

// A trial as statistics of its study need it.
struct TrialColumns {
  int64_t ordinal = 0;
  int outcome = 0;
  int purpose = 0;
  std::string config;    // canonical text
  double median_ns = 0;  // 0: none
  int64_t ended_at_ms = 0;
  std::string detail;  // as TrialRow's; empty for most of those that are OK, since it is most of what a row has
};

class TrialStore {
 public:
  virtual ~TrialStore() = default;

  virtual absl::StatusOr<Page<TrialRow>> ListTrials(const TrialQuery& query) = 0;  // log and samples left out
  virtual absl::StatusOr<TrialRow> GetTrial(int64_t job_id, int study_number, int64_t ordinal) = 0;
  virtual absl::StatusOr<std::vector<OutcomeCountRow>> CountOutcomes(int64_t job_id) = 0;
  // Each result once, by ordinal. Only of the search. No results for a study that is not there (any more).
  virtual absl::StatusOr<std::vector<ResultRow>> SampleResults(const ResultQuery& query) = 0;
  // Up to rows_max trials of a study from an ordinal on, by ordinal; none for a study that is not there. The detail
  // stands with those that are not OK, and with ordinals below kDetailedOrdinals.
  virtual absl::StatusOr<std::vector<TrialColumns>> ReadColumns(int64_t study_id, int64_t from_ordinal,
                                                                int rows_max) = 0;
  static constexpr int64_t kDetailedOrdinals = 64;
  // Those of a study that are stored, in any order; log and samples left out. At most 1000 ordinals.
  virtual absl::StatusOr<std::vector<TrialRow>> ReadTrials(int64_t study_id, const std::vector<int64_t>& ordinals) = 0;
  // For each key a stored trial that was reported with it, the newest; none where there is none. At most 64 keys.
  virtual absl::StatusOr<std::vector<std::optional<MeasuredRow>>> FindMeasured(
      const std::vector<std::string>& measured_keys) = 0;
  // Removes up to rows_max logs and as many samples of trials of terminal jobs that ended before, the oldest first;
  // those of bests stay. Returns how many went: 0 when there is nothing more.
  virtual absl::StatusOr<int64_t> PruneTrialData(int64_t ended_before_ms, int rows_max) = 0;
};

}  // namespace tunefarm
