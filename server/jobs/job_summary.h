// What lists show of a job. A plain value.
#pragma once

#include <string>
#include <vector>

#include "server/measure/geometric_mean.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {

class SummaryOfStudies {
 public:
  void Add(const tunefarm::v1::Study& study);
  // Of what was added; `progress`: the job's counts.
  tunefarm::v1::JobSummary Get(const tunefarm::v1::Progress& progress) const;

 private:
  GeometricMean gain_, floor_share_;
  std::vector<std::string> device_class_ids_;
};

}  // namespace tunefarm
