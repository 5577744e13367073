// A steady-state genetic search: parents by rank from a population of the best, uniform crossover, mutation, repair by
// further mutation. When the best has not improved for a while, the population restarts and keeps nothing.
#pragma once

#include <vector>

#include "server/search/proposer.h"

namespace tunefarm {

struct GeneticOptions {
  int population = 20;
  double mutation = 1.0;  // parameters changed in a child, on average
  double near = 0.5;      // of the changes of numbers, to a near value
  int patience = 100;     // results without a better one in the population until it restarts
};

class Genetic final : public Proposer {
 public:
  explicit Genetic(const GeneticOptions& options) : options_(options) {}

  std::optional<Point> Propose(const History& history, PhiloxStream& random) override;
  void Observed(const History& history, size_t observation, PhiloxStream& random) override;

 private:
  // A parent, better ones more often.
  uint32_t Select(PhiloxStream& random) const;

  const GeneticOptions options_;
  std::vector<uint32_t> population_;  // observations, best first
  int since_better_ = 0;
};

// One child of two points: each parameter from either, then `mutation` changes on average. May be invalid.
Point ChildOf(const SearchSpace& space, std::span<const uint16_t> a, std::span<const uint16_t> b, double mutation,
              double near, PhiloxStream& random);

}  // namespace tunefarm
