// Local search with restarts: from a point to a better neighbour, first one found, until none is better; then from a
// new random point, or from the best one with several parameters changed.
#pragma once

#include <optional>
#include <vector>

#include "server/search/proposer.h"

namespace tunefarm {

struct LocalSearchOptions {
  double perturbation = 0.5;  // of the restarts, from a changed best instead of a random point
  int perturbed = 3;          // parameters changed then
};

class LocalSearch final : public Proposer {
 public:
  explicit LocalSearch(const LocalSearchOptions& options) : options_(options) {}

  std::optional<Point> Propose(const History& history, PhiloxStream& random) override;
  void Proposed(const History& history, std::span<const uint16_t> point) override;
  void Observed(const History& history, size_t observation, PhiloxStream& random) override;

 private:
  // The neighbours of the current point that were not proposed.
  std::vector<Point> Open(const History& history) const;

  const LocalSearchOptions options_;
  std::optional<size_t> current_;  // observation; none while a start is looked for: the next result is it
};

}  // namespace tunefarm
