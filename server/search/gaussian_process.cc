#include "server/search/gaussian_process.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tunefarm {
namespace {

constexpr double kWeightFirst = 1.0;
constexpr double kWeightMin = 0.03;
constexpr double kWeightMax = 30;
constexpr std::array<double, 2> kWeightSteps = {3.0, 1.0 / 3.0};
constexpr std::array<double, 3> kNoises = {0.01, 0.05, 0.2};

}  // namespace

double GaussianProcess::Distance(int column, double a, double b) const {
  return is_ordered_[static_cast<size_t>(column)] ? std::abs(a - b) : (a == b ? 0.0 : 1.0);
}

double GaussianProcess::Factorize() {
  const Eigen::Index count = points_.cols();
  Eigen::MatrixXd kernel(count, count);
  for (Eigen::Index i = 0; i < count; ++i) {
    for (Eigen::Index j = 0; j < i; ++j) {
      double distance = 0;
      for (Eigen::Index c = 0; c < points_.rows(); ++c) {
        distance += weights_[static_cast<size_t>(c)] * Distance(static_cast<int>(c), points_(c, i), points_(c, j));
      }
      kernel(i, j) = std::exp(-distance);
    }
    kernel(i, i) = 1 + noise_;
  }
  factor_.compute(kernel.selfadjointView<Eigen::Lower>());
  if (factor_.info() != Eigen::Success) return -INFINITY;
  solved_ = factor_.solve(targets_);
  // The signal's variance that is most likely, in closed form.
  const auto n = static_cast<double>(count);
  signal_ = std::max(1e-9, targets_.dot(solved_) / n);
  double log_determinant = 0;
  const Eigen::MatrixXd& lower = factor_.matrixLLT();
  for (Eigen::Index i = 0; i < count; ++i) log_determinant += std::log(lower(i, i));
  return -n / 2 * std::log(signal_) - log_determinant;
}

void GaussianProcess::Try(double tried, double* value, double* likely) {
  const double old = *value;
  *value = tried;
  const double now = Factorize();
  if (now > *likely) {
    *likely = now;
  } else {
    *value = old;
  }
}

void GaussianProcess::Fit(const FeatureTable& features, std::span<const double> targets) {
  const auto count = static_cast<Eigen::Index>(features.rows());
  is_ordered_ = features.is_ordered;
  ranges_.assign(is_ordered_.size(), 1);
  for (size_t row = 0; row < features.rows(); ++row) {
    const auto bins = features.Row(row);
    for (size_t c = 0; c < ranges_.size(); ++c) ranges_[c] = std::max<double>(ranges_[c], bins[c]);
  }
  points_.resize(features.columns, count);
  targets_.resize(count);
  for (Eigen::Index i = 0; i < count; ++i) {
    const auto bins = features.Row(static_cast<size_t>(i));
    for (size_t c = 0; c < ranges_.size(); ++c) points_(static_cast<Eigen::Index>(c), i) = bins[c] / ranges_[c];
    targets_(i) = targets[static_cast<size_t>(i)];
  }
  mean_ = targets_.mean();
  targets_.array() -= mean_;
  scale_ = std::max(1e-9, std::sqrt(targets_.squaredNorm() / static_cast<double>(count)));
  targets_ /= scale_;
  weights_.assign(ranges_.size(), kWeightFirst);
  noise_ = kNoises[1];
  double likely = Factorize();
  for (double& weight : weights_) {
    const double own = weight;
    for (const double step : kWeightSteps) Try(std::clamp(own * step, kWeightMin, kWeightMax), &weight, &likely);
  }
  for (const double noise : kNoises) Try(noise, &noise_, &likely);
  Factorize();
  is_fitted_ = true;
}

Prediction GaussianProcess::Predict(std::span<const uint8_t> bins) const {
  Eigen::VectorXd near(points_.cols());
  for (Eigen::Index i = 0; i < points_.cols(); ++i) {
    double distance = 0;
    for (size_t c = 0; c < bins.size(); ++c) {
      distance +=
          weights_[c] * Distance(static_cast<int>(c), bins[c] / ranges_[c], points_(static_cast<Eigen::Index>(c), i));
    }
    near(i) = std::exp(-distance);
  }
  const double mean = near.dot(solved_);
  factor_.matrixL().solveInPlace(near);
  const double variance = std::max(0.0, 1 - near.squaredNorm()) * signal_;
  return {mean_ + scale_ * mean, scale_ * scale_ * variance};
}

}  // namespace tunefarm
