// A search by a surrogate model: from candidates of several kinds (neighbours and children of the best, good points of
// other studies, random ones) it takes the one with the largest expected improvement, weighed by the probability that
// it works. "bayes", and the heart of "default".
#pragma once

#include <memory>
#include <vector>

#include "server/search/prior_knowledge.h"
#include "server/search/proposer.h"
#include "server/search/surrogate.h"

namespace tunefarm {

struct ModelSearchOptions {
  SurrogateOptions surrogate;
  int random_candidates = 100;
  int child_candidates = 60;
  int parents = 4;             // of the best, whose neighbours are candidates
  double random_share = 0.05;  // of the proposals that are random
  double explore = 1.0;        // factor on the model's uncertainty
};

class ModelSearch final : public Proposer {
 public:
  // `prior` may be null.
  ModelSearch(std::shared_ptr<const SearchSpace> space, uint64_t seed, const ModelSearchOptions& options,
              std::shared_ptr<const PriorKnowledge> prior);

  std::optional<Point> Propose(const History& history, PhiloxStream& random) override;

 private:
  std::vector<Point> Candidates(const History& history, PhiloxStream& random);
  // The expected improvement by each point, weighed by the probability that it works.
  std::vector<double> GainsOf(const std::vector<Point>& points) const;
  // NearestWithOtherValues of the best.
  void FindNearestOfBest(const History& history);
  // Uniform samples, the same ones from one milestone of the model to the next.
  void FillPool(const History& history);

  const uint64_t seed_;
  const ModelSearchOptions options_;
  const std::shared_ptr<const PriorKnowledge> prior_;
  Surrogate surrogate_;
  std::vector<Point> pool_;
  size_t pool_of_ = SIZE_MAX;  // the milestone that it is of
  std::vector<Point> nearest_;
  size_t nearest_of_ = SIZE_MAX;  // the observation that they are near
  // The best of other studies, and what the model of a milestone expects of them.
  std::vector<Point> prior_points_;
  std::vector<double> prior_gains_;
  size_t prior_gains_of_ = SIZE_MAX;
};

// The expected amount by which a normal variable of this mean and deviation is below `best`.
double ExpectedImprovement(double mean, double deviation, double best);

}  // namespace tunefarm
