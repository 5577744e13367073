#include "server/analysis/convergence.h"

#include <algorithm>
#include <limits>

namespace tunefarm {

std::vector<BestStep> BestSoFar(const Selection& trials) {
  std::vector<BestStep> steps;
  double best_ns = std::numeric_limits<double>::infinity();
  trials.ForEach([&, objectives = trials.columns().objectives_ns()](uint32_t at) {
    if (objectives[at] <= 0 || objectives[at] >= best_ns) return;
    best_ns = objectives[at];
    const Evaluation evaluation = trials.columns()[at];
    steps.push_back({static_cast<int64_t>(at) + 1, evaluation.ordinal, evaluation.ended_ms, evaluation.objective_ns});
  });
  return steps;
}

std::vector<Convergence> ConvergenceOf(const Selection& trials, std::span<const double> shares) {
  std::vector<Convergence> found;
  const std::vector<BestStep> steps = BestSoFar(trials);
  if (steps.empty()) return found;
  for (const double share : shares) {
    const double limit = steps.back().best_ns * (1 + share);
    const auto first =
        std::find_if(steps.begin(), steps.end(), [&](const BestStep& step) { return step.best_ns <= limit; });
    found.push_back({share, *first});
  }
  return found;
}

}  // namespace tunefarm
