// A hybrid of grey wolves and tabu search: a pack of points follows its three best, taking each parameter from one of
// them or from a member, with changes that get rarer as the pack closes in; what was tried is taboo, and when the pack
// has closed in without finding anything better, part of it is driven apart.
#pragma once

#include <vector>

#include "server/search/proposer.h"

namespace tunefarm {

struct PackSearchOptions {
  int pack = 8;
  double follow = 0.8;   // of a follower's parameters, from a leader
  double wander = 0.15;  // of its parameters, changed at random at first; a fifth of that when the pack has closed in
  int patience = 60;     // results without a better one until the pack is driven apart
};

class PackSearch final : public Proposer {
 public:
  explicit PackSearch(const PackSearchOptions& options) : options_(options) {}

  std::optional<Point> Propose(const History& history, PhiloxStream& random) override;
  void Observed(const History& history, size_t observation, PhiloxStream& random) override;

 private:
  const PackSearchOptions options_;
  std::vector<uint32_t> pack_;  // observations, best first
  int since_better_ = 0;
};

}  // namespace tunefarm
