#include "server/jobs/job_summary.h"

namespace tunefarm {

void SummaryOfStudies::Add(const tunefarm::v1::Study& study) {
  const double best_ns = study.incumbent().measurement().median_ns();
  gain_.Add(study.default_ns() > 0 ? study.default_ns() : study.baseline().measurement().median_ns(), best_ns);
  floor_share_.Add(study.floor_ns(), best_ns);
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
  if (ended > 0) summary.set_failed_share(static_cast<double>(failed) / static_cast<double>(ended));
  return summary;
}

}  // namespace tunefarm
