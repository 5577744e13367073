// A Gaussian process over the same features as the forest: the better surrogate while there are few observations.
//
// The kernel is exponential in a weighted sum of distances per feature: of ordered ones the distance of their bins as a
// part of the range, of others 0 or 1. The weights and the noise are those of a small grid under which the observations
// are most likely.
//
// Threads: not thread-safe while fitting; const use from any thread.
#pragma once

#include <Eigen/Dense>
#include <span>
#include <vector>

#include "server/search/forest.h"

namespace tunefarm {

class GaussianProcess {
 public:
  // As many targets as rows, at least two. The work grows with the cube of the rows.
  void Fit(const FeatureTable& features, std::span<const double> targets);
  bool is_fitted() const { return is_fitted_; }
  // As if it was never fitted.
  void Clear() { is_fitted_ = false; }

  Prediction Predict(std::span<const uint8_t> bins) const;

 private:
  // The log likelihood of the targets under weights_ and noise_, but for a constant; keeps the factor.
  double Factorize();
  // Takes `tried` for a weight or the noise if the targets are likelier then.
  void Try(double tried, double* value, double* likely);
  double Distance(int column, double a, double b) const;

  bool is_fitted_ = false;
  std::vector<bool> is_ordered_;
  std::vector<double> ranges_;   // by column: the highest bin
  std::vector<double> weights_;  // by column
  double noise_ = 0;             // variance beside the signal's, which counts as 1
  double signal_ = 1;            // that variance, of standardized targets
  double mean_ = 0, scale_ = 1;  // of the targets
  Eigen::MatrixXd points_;       // a column per observation, a row per feature, as parts of the range
  Eigen::VectorXd targets_;      // standardized
  Eigen::LLT<Eigen::MatrixXd> factor_;
  Eigen::VectorXd solved_;
};

}  // namespace tunefarm
