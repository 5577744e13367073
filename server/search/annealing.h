// Simulated annealing: one walk through the space that takes a worse neighbour with a probability that falls with how
// much worse it is and with a temperature; when that is low, the walk starts again from a good point, warmer.
//
// Asynchronous: every result of a neighbour that the walk asked for, in whatever order it comes, is a step that may be
// taken.
#pragma once

#include <optional>

#include "server/search/proposer.h"

namespace tunefarm {

struct AnnealingOptions {
  double hot = 0.3;  // temperatures, as ratios of objectives: 0.3 takes a 35 % slower config with probability 0.37
  double cold = 0.01;
  double cooling = 0.97;  // factor per result
  double near = 0.5;
};

class Annealing final : public Proposer {
 public:
  explicit Annealing(const AnnealingOptions& options) : options_(options), temperature_(options.hot) {}

  std::optional<Point> Propose(const History& history, PhiloxStream& random) override;
  void Observed(const History& history, size_t observation, PhiloxStream& random) override;

 private:
  const AnnealingOptions options_;
  double temperature_;
  std::optional<size_t> current_;  // observation
};

}  // namespace tunefarm
