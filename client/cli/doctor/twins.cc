#include "client/cli/doctor/twins.h"

#include <algorithm>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm::cli {
namespace {

constexpr const char* kTwin = "AA_TWIN";

}  // namespace

v1::Kernel WithTwins(v1::Kernel kernel, int twins) {
  kernel.set_display_name("aa_" + kernel.display_name());
  v1::Parameter* const parameter = kernel.add_parameters();
  parameter->set_name(kTwin);
  // One binary for all, but in Python, where each config has its own.
  if (kernel.language() != v1::LANGUAGE_PYTHON) parameter->set_bind(v1::BIND_RUN);
  parameter->set_description("The same config under another name.");
  for (int i = 0; i < twins; ++i) parameter->mutable_values()->add_ints(i);
  return kernel;
}

absl::StatusOr<v1::Problem> PinnedToDefault(const v1::Kernel& kernel, const v1::Problem& problem) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const KernelPlan> plan, KernelPlan::Compile(kernel));
  ASSIGN_OR_RETURN(const ResolvedProblem resolved, plan->ResolveProblem(problem));
  v1::Problem pinned = problem;
  const v1::Config config = plan->ToProto(plan->DefaultConfig(resolved));
  for (const auto& [name, value] : config.values()) {
    if (name != kTwin) (*pinned.mutable_pinned())[name] = value;
  }
  return pinned;
}

int TwinOf(const v1::Config& config) {
  const auto found = config.values().find(kTwin);
  return found == config.values().end() ? -1 : static_cast<int>(found->second.int_value());
}

v1::Config WithoutTwin(v1::Config config) {
  config.mutable_values()->erase(kTwin);
  return config;
}

}  // namespace tunefarm::cli
