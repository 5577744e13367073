// StudyContext: a study as it was accepted, with the job and the kernel that it is of.
#pragma once

#include <cstdint>
#include <memory>

#include "server/definition/kernel_plan.h"
#include "server/device/device_class.h"
#include "server/store/study_store.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {

struct StudyContext {
  int64_t job_id = 0;
  tunefarm::v1::Job spec;  // strategy and budget as accepted, and the starting configs of this study
  std::shared_ptr<const KernelPlan> plan;
  std::shared_ptr<const ResolvedProblem> problem;
  DeviceClass device_class;
  StudyRow row;
  tunefarm::v1::SpaceSize size;
  double flops = 0, bytes = 0, floor_ns = 0;  // of one launch sequence; 0 unknown
};

}  // namespace tunefarm
