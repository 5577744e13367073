// Checks a request for a job, once and up front, and turns it into what is stored. Uses the caches and the device list,
// writes nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/base/work_limit.h"
#include "server/definition/kernel_plan.h"
#include "server/definition/space_size.h"
#include "server/farm/claim.h"
#include "server/farm/device_directory.h"
#include "server/records/kernel_registry.h"
#include "server/space/space.h"
#include "server/store/job_rows.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm {

inline constexpr int kProblemsMax = 256;
inline constexpr size_t kStudiesMax = 1024;
inline constexpr int kStartingConfigsMax = 4096;
// Up to so many configs are all tried, one by one, when no strategy is named and the budget allows it; else the default
// strategy searches.
inline constexpr uint64_t kExhaustiveByDefaultMax = 10'000;
// The trials of a job over a larger space that names neither a strategy nor a budget.
inline constexpr int64_t kDefaultTrials = 1'000;

struct Submission {
  tunefarm::v1::Job spec;  // as accepted: client fields, kernel, kernel_name, strategy, budget
  std::shared_ptr<const KernelPlan> plan;
  bool stores_kernel = false;     // the definition came with the request
  std::vector<StudyRow> studies;  // detail is a serialized tunefarm.v1.Study
};

// Spaces are counted, or sampled where that takes long; their lists are made when the studies begin. `grant`: for the
// work on all spaces of the request together.
//
// Cancelled, ResourceExhausted (WORK_LIMIT), InvalidArgument (JOB_INVALID, BUDGET_INVALID, POLICY_INVALID,
// OBJECTIVE_UNSUPPORTED, PROBLEM_COUNT, SPACE_EMPTY, STRATEGY_INVALID, PROBLEM_TOO_LARGE), NotFound (KERNEL_NOT_FOUND),
// and the errors of the definition and of DeviceDirectory::Select.
absl::StatusOr<Submission> CheckSubmission(const tunefarm::v1::Job& job,
                                           const std::optional<tunefarm::v1::Kernel>& definition,
                                           KernelRegistry* kernels, const DeviceDirectory& devices,
                                           const WorkGrant& grant = {});

// What tells a repeated request from another one with the same request_id. Hex.
std::string SubmissionDigest(const tunefarm::v1::Job& job, const std::optional<tunefarm::v1::Kernel>& definition);

}  // namespace tunefarm
