// Surrogate: what a strategy believes about points that it did not try, learned from its history: how fast, how sure of
// it, and whether it works at all. Results of other studies are features of the model, so that it learns from this
// study's own results how far to believe them.
//
// Threads: not thread-safe; one owner.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/search/forest.h"
#include "server/search/gaussian_process.h"
#include "server/search/history.h"
#include "server/search/prior_knowledge.h"

namespace tunefarm {

struct SurrogateOptions {
  int trees = 20;
  int leaf_min = 2;
  double feature_share = 0.5;
  int process_max = 64;  // up to so many valid results a Gaussian process is the model, beyond them the forest
  int rows_max = 1500;   // observations that the model is fitted to, at most: the best and the latest
};

struct Belief {
  double mean = 0;  // of the logarithm of the objective
  double deviation = 0;
  double feasible = 1;  // probability of being usable
};

class Surrogate {
 public:
  // `prior` may be null.
  Surrogate(std::shared_ptr<const SearchSpace> space, uint64_t seed, const SurrogateOptions& options,
            std::shared_ptr<const PriorKnowledge> prior);

  // Fits to the history up to a milestone, where that is not what it is fitted to already. A function of the history
  // alone. False while there is too little to learn from.
  bool Update(const History& history);

  // Of each point, in their order.
  std::vector<Belief> Predict(std::span<const PointView> points) const;
  // The smallest value in the training data, on the same scale.
  double best() const { return best_; }

 private:
  // A row for each point.
  FeatureTable TableOf(std::span<const PointView> points) const;
  void Fit(const History& history, size_t count);

  const std::shared_ptr<const SearchSpace> space_;
  const uint64_t seed_;
  const SurrogateOptions options_;
  const std::shared_ptr<const PriorKnowledge> prior_;
  FeatureTable shape_;  // columns and their order, without rows
  size_t fitted_to_ = 0;
  double best_ = 0;
  Forest value_, feasible_;
  GaussianProcess process_;  // in place of value_ while there are few results
};

// The newest count of observations, up to `count`, at which a model is fitted: every one at first, then ever fewer, so
// that fitting costs about the same per result.
size_t FitMilestone(size_t count);

}  // namespace tunefarm
