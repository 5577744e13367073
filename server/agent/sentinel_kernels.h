// Sentinels: what every agent measures on its devices before it takes work, so that control can tell machines of one
// class apart whose times are not alike (jobs/sentinels.h). One moves memory, one computes; both last about a tenth of
// a millisecond on an H200, and some milliseconds on a core.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm {

struct SentinelKernel {
  std::string name;  // with a digest: another text is another sentinel
  std::shared_ptr<const KernelPlan> plan;
  std::shared_ptr<const ResolvedProblem> problem;
};

// Those of a kind of device. An error is a bug in their text.
absl::StatusOr<std::vector<SentinelKernel>> SentinelKernels(DeviceKind kind);

}  // namespace tunefarm
