#include "server/search/surrogate.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "server/search/random_streams.h"

namespace tunefarm {
namespace {

constexpr size_t kObservationsMin = 4;
constexpr size_t kFitsPerOctave = 16;
constexpr double kDeviationMin = 1e-6;

// Worse than the median by half of what the best is better: all that is left of it to a model.
constexpr double kCapAt = 1.5;

// Two views of the same results, by turns, because either fails somewhere: where one config is far ahead of all others
// its lead must show; where many are close to the best, the model must spend its splits on telling good from very good.
// Neither spends them on telling bad from very bad.

// The logarithm of the place among all, between 0 and 1, whatever the distribution of the times.
void ToLogPlaces(std::vector<double>* targets) {
  std::vector<double> sorted = *targets;
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(sorted.size());
  for (double& target : *targets) {
    const auto place = std::lower_bound(sorted.begin(), sorted.end(), target) - sorted.begin();
    target = std::log((static_cast<double>(place) + 0.5) / count);
  }
}

// The logarithm of the time, cut off above the median.
void CapAboveMedian(std::vector<double>* targets) {
  std::vector<double> sorted = *targets;
  std::sort(sorted.begin(), sorted.end());
  const double best = sorted.front();
  const double cap = best + kCapAt * (sorted[sorted.size() / 2] - best);
  for (double& target : *targets) target = std::min(target, cap);
}

// How many observations there are between two fits.
size_t FitStep(size_t count) { return std::max<size_t>(1, std::bit_floor(count) / kFitsPerOctave); }

}  // namespace

size_t FitMilestone(size_t count) { return count == 0 ? 0 : count - count % FitStep(count); }

Surrogate::Surrogate(std::shared_ptr<const SearchSpace> space, uint64_t seed, const SurrogateOptions& options,
                     std::shared_ptr<const PriorKnowledge> prior)
    : space_(std::move(space)), seed_(seed), options_(options), prior_(std::move(prior)) {
  for (const int parameter : space_->varying()) shape_.is_ordered.push_back(space_->IsOrdered(parameter));
  const int sources = prior_ == nullptr ? 0 : prior_->source_count();
  for (int i = 0; i < sources; ++i) shape_.is_ordered.push_back(true);
  shape_.columns = static_cast<int>(shape_.is_ordered.size());
}

void Surrogate::AppendBins(std::span<const uint16_t> point, std::vector<uint8_t>* bins) const {
  for (const int parameter : space_->varying()) {
    const int rank = space_->Rank(parameter, point[static_cast<size_t>(parameter)]);
    const int count = space_->ValueCount(parameter);
    bins->push_back(static_cast<uint8_t>(count <= kForestBinsMax ? rank : rank * kForestBinsMax / count));
  }
  const int sources = prior_ == nullptr ? 0 : prior_->source_count();
  for (int i = 0; i < sources; ++i) bins->push_back(prior_->BinOf(i, point));
}

bool Surrogate::Update(const History& history) {
  const size_t count = FitMilestone(history.size());
  if (count < kObservationsMin) return false;
  if (count != fitted_to_) Fit(history, count);
  return value_.is_fitted();
}

void Surrogate::Fit(const History& history, size_t count) {
  fitted_to_ = count;
  FeatureTable rows = shape_, all = shape_;
  std::vector<double> targets, usable;
  // The latest, and of the older ones the best.
  const auto rows_max = static_cast<size_t>(options_.rows_max);
  std::vector<size_t> kept(count);
  for (size_t i = 0; i < count; ++i) kept[i] = count - 1 - i;
  if (count > rows_max) {
    const auto latest = kept.begin() + static_cast<ptrdiff_t>(rows_max / 2);
    std::nth_element(latest, kept.begin() + static_cast<ptrdiff_t>(rows_max), kept.end(), [&](size_t a, size_t b) {
      return history.ValueOf(a) < history.ValueOf(b) || (history.ValueOf(a) == history.ValueOf(b) && a < b);
    });
    kept.resize(rows_max);
    std::sort(kept.begin(), kept.end());
  }
  bool any_failed = false;
  for (const size_t i : kept) {
    AppendBins(history.PointOf(i), &all.bins);
    const bool ok = history.IsOk(i);
    usable.push_back(ok ? 1 : 0);
    any_failed = any_failed || !ok;
    if (!ok) continue;
    AppendBins(history.PointOf(i), &rows.bins);
    targets.push_back(history.ValueOf(i));
  }
  PhiloxStream random(seed_, StreamOf(StreamUse::kModel, count));
  value_ = Forest();
  process_.Clear();
  feasible_ = Forest();
  ForestOptions options;
  options.trees = options_.trees;
  options.leaf_min = options_.leaf_min;
  options.feature_share = options_.feature_share;
  if (targets.size() >= kObservationsMin) {
    if (count / FitStep(count) % 2 == 1) {
      ToLogPlaces(&targets);
    } else {
      CapAboveMedian(&targets);
    }
    best_ = *std::min_element(targets.begin(), targets.end());
    value_.Fit(rows, targets, options, random);
    if (static_cast<int>(targets.size()) <= options_.process_max) process_.Fit(rows, targets);
  }
  if (!any_failed) return;
  options.trees = std::max(5, options_.trees / 2);
  options.leaf_min = 1;
  feasible_.Fit(all, usable, options, random);
}

Belief Surrogate::Predict(std::span<const uint16_t> point) const {
  scratch_.clear();
  AppendBins(point, &scratch_);
  const Prediction prediction = process_.is_fitted() ? process_.Predict(scratch_) : value_.Predict(scratch_);
  Belief belief;
  belief.mean = prediction.mean;
  belief.deviation = std::max(kDeviationMin, std::sqrt(prediction.variance));
  if (feasible_.is_fitted()) belief.feasible = feasible_.Predict(scratch_).mean;
  return belief;
}

}  // namespace tunefarm
