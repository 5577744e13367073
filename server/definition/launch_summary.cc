#include "server/definition/launch_summary.h"

#include <utility>

#include "server/base/status_macros.h"
#include "server/definition/plan_impl.h"

namespace tunefarm {
namespace {

using definition::Formula;
using definition::StepFormula;

class Summary {
 public:
  Summary(const KernelPlanAccess::Impl& impl, std::vector<Value> slots) : impl_(impl), slots_(std::move(slots)) {}

  // None for a step that does not run.
  absl::StatusOr<std::optional<LaunchSummary>> Step(const StepFormula& step) const {
    LaunchSummary summary;
    if (step.when.has_value()) {
      if ((step.when->uses & definition::kUsesKernel) != 0) {
        summary.when = LaunchFormula{step.when->expression.text(), std::nullopt};
      } else {
        ASSIGN_OR_RETURN(const bool runs, definition::EvaluateBool(*step.when, slots_));
        if (!runs) return std::optional<LaunchSummary>();
      }
    }
    summary.kind = step.kind;
    summary.name = step.step.name();
    if (step.kind != StepPlan::Kind::kKernel) return std::optional<LaunchSummary>(std::move(summary));
    summary.entry = step.step.kernel().entry();
    ASSIGN_OR_RETURN(summary.grid, All(step.grid));
    ASSIGN_OR_RETURN(summary.block, All(step.block));
    ASSIGN_OR_RETURN(summary.cluster, All(step.cluster));
    if (step.dynamic_shared_bytes.has_value()) {
      ASSIGN_OR_RETURN(summary.dynamic_shared_bytes, One(*step.dynamic_shared_bytes));
    }
    for (const std::string& name : step.step.kernel().arguments()) {
      LaunchArgument argument{name, std::nullopt};
      if (const auto scalar = impl_.scalars.find(name); scalar != impl_.scalars.end()) {
        ASSIGN_OR_RETURN(argument.scalar, One(*scalar->second.value));
      }
      summary.arguments.push_back(std::move(argument));
    }
    return std::optional<LaunchSummary>(std::move(summary));
  }

 private:
  absl::StatusOr<LaunchFormula> One(const Formula& formula) const {
    LaunchFormula result{formula.expression.text(), std::nullopt};
    if ((formula.uses & definition::kUsesKernel) != 0) return result;
    ASSIGN_OR_RETURN(result.value, definition::Evaluate(formula, slots_));
    return result;
  }

  absl::StatusOr<std::vector<LaunchFormula>> All(const std::vector<Formula>& formulas) const {
    std::vector<LaunchFormula> results;
    for (const Formula& formula : formulas) {
      ASSIGN_OR_RETURN(LaunchFormula one, One(formula));
      results.push_back(std::move(one));
    }
    return results;
  }

  const KernelPlanAccess::Impl& impl_;
  const std::vector<Value> slots_;
};

}  // namespace

absl::StatusOr<std::vector<LaunchSummary>> SummarizeLaunches(const KernelPlan& plan, const ResolvedProblem& problem,
                                                             const Config& config, const DeviceClass& device) {
  const KernelPlanAccess::Impl& impl = KernelPlanAccess::Of(plan);
  std::vector<LaunchSummary> launches;
  const auto steps = impl.sequences.find(Sequence::kLaunches);
  if (steps == impl.sequences.end()) return launches;
  const Summary summary(impl, impl.Slots(problem, &config, &device, nullptr));
  for (const StepFormula& step : steps->second) {
    ASSIGN_OR_RETURN(std::optional<LaunchSummary> launch, summary.Step(step));
    if (launch.has_value()) launches.push_back(*std::move(launch));
  }
  return launches;
}

}  // namespace tunefarm
