#include "server/jobs/job_summary.h"

#include <algorithm>

namespace tunefarm {
namespace {

constexpr size_t kClassesMax = 16;

}  // namespace

void SummaryOfStudies::Add(const tunefarm::v1::Study& study) {
  const double best_ns = study.incumbent().measurement().median_ns();
  gain_.Add(study.default_ns() > 0 ? study.default_ns() : study.baseline().measurement().median_ns(), best_ns);
  floor_share_.Add(study.floor_ns(), best_ns);
  if (device_class_ids_.size() < kClassesMax && !study.device_class_id().empty() &&
      std::find(device_class_ids_.begin(), device_class_ids_.end(), study.device_class_id()) ==
          device_class_ids_.end()) {
    device_class_ids_.push_back(study.device_class_id());
  }
}

tunefarm::v1::JobSummary SummaryOfStudies::Get(const tunefarm::v1::Progress& progress) const {
  int64_t ended = 0, failed = 0;
  for (const tunefarm::v1::OutcomeCount& count : progress.outcomes()) {
    if (count.outcome() == tunefarm::v1::OUTCOME_LOST) continue;
    ended += count.count();
    if (count.outcome() != tunefarm::v1::OUTCOME_OK) failed += count.count();
  }
  tunefarm::v1::JobSummary summary;
  summary.set_gain(gain_.Value());
  summary.set_floor_share(floor_share_.Value());
  summary.mutable_device_class_ids()->Add(device_class_ids_.begin(), device_class_ids_.end());
  if (ended > 0) summary.set_failed_share(static_cast<double>(failed) / static_cast<double>(ended));
  return summary;
}

}  // namespace tunefarm
