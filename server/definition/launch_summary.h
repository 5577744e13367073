// The launches of a config for people and other programs: what of them is known before anything is loaded, and the
// formulas of the rest.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm {

// A formula and what it gives for the config; no value where it names kernel.*, which only a loaded binary has.
struct LaunchFormula {
  std::string expression;
  std::optional<Value> value;
};

struct LaunchArgument {
  std::string name;
  std::optional<LaunchFormula> scalar;  // none: a buffer or a tensor map
};

// One step of the timed sequence.
struct LaunchSummary {
  StepPlan::Kind kind = StepPlan::Kind::kKernel;
  std::string name;
  std::optional<LaunchFormula> when;  // only where it is not known to hold
  // kKernel
  std::string entry;  // as the definition writes it
  std::vector<LaunchFormula> grid, block, cluster;
  std::optional<LaunchFormula> dynamic_shared_bytes;
  std::vector<LaunchArgument> arguments;
};

// Without the steps whose `when` is known to be false. InvalidArgument where a formula cannot be evaluated.
absl::StatusOr<std::vector<LaunchSummary>> SummarizeLaunches(const KernelPlan& plan, const ResolvedProblem& problem,
                                                             const Config& config, const DeviceClass& device);

}  // namespace tunefarm
