#include "server/results/study_data.h"

#include <algorithm>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

void StudyData::BeginPass() {
  // What a pass that did not come to its end has not reached is known still.
  ahead_.insert(ahead_.end(), known_.begin() + static_cast<ptrdiff_t>(known_at_), known_.end());
  known_ = std::exchange(ahead_, {});
  known_at_ = 0;
}

absl::Status StudyData::Add(const TrialColumns& row) {
  while (known_at_ < known_.size() && known_[known_at_] < row.ordinal) ++known_at_;
  const bool is_known = row.ordinal < first_open_ || (known_at_ < known_.size() && known_[known_at_] == row.ordinal);
  if (is_known && known_at_ < known_.size() && known_[known_at_] == row.ordinal) ++known_at_;
  if (row.ordinal == first_open_) {
    ++first_open_;
  } else if (row.ordinal > first_open_) {
    ahead_.push_back(row.ordinal);
  }
  if (is_known || row.outcome == v1::OUTCOME_UNSPECIFIED || row.outcome == v1::OUTCOME_LOST) return absl::OkStatus();
  ++changes_;
  const bool is_ok = row.outcome == v1::OUTCOME_OK && row.median_ns > 0;
  const auto lower = [&](double* least_ns) {
    if (is_ok && (*least_ns == 0 || row.median_ns < *least_ns)) *least_ns = row.median_ns;
  };
  const bool is_default = is_ok && !default_config_.empty() && row.config == default_config_;
  if (row.purpose == v1::TRIAL_PURPOSE_BASELINE) {
    lower(&baseline_ns_);
    return absl::OkStatus();
  }
  if (row.purpose == v1::TRIAL_PURPOSE_FINALIST) {
    lower(&final_ns_);
    if (is_default) default_final_ns_ = row.median_ns;  // a final may be measured again, and the last one counts
    return absl::OkStatus();
  }
  if (const absl::Status added = AddToColumns(row, is_ok ? row.median_ns : 0); !added.ok()) {
    ++unreadable_;
    return added;
  }
  if (is_default && default_search_ns_ == 0) default_search_ns_ = row.median_ns;
  return absl::OkStatus();
}

absl::Status StudyData::AddToColumns(const TrialColumns& row, double objective_ns) {
  std::string message;
  int64_t began_ms = row.ended_at_ms;
  if (!row.detail.empty()) {
    v1::Trial detail;
    if (!detail.ParseFromString(row.detail)) return DataLoss("the stored trial {} cannot be read", row.ordinal);
    message = detail.message();
    began_ms -= static_cast<int64_t>(detail.compile_ms() + detail.run_ms());
  }
  RETURN_IF_ERROR(columns_.Add({.ordinal = row.ordinal,
                                .ended_ms = row.ended_at_ms,
                                .outcome = row.outcome,
                                .config = row.config,
                                .objective_ns = objective_ns,
                                .message = message}));
  first_began_ms_ = first_began_ms_ == 0 ? began_ms : std::min(first_began_ms_, began_ms);
  return absl::OkStatus();
}

int64_t StudyData::StartMs(int64_t job_started_ms) const {
  return job_started_ms > 0 && job_started_ms <= first_began_ms_ ? job_started_ms : first_began_ms_;
}

}  // namespace tunefarm
