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

// Of a place between 0 and 1. Finer at the good end, where it matters: the square root spreads the best quarter over
// half of the bins.
uint8_t BinOfPlace(double place) {
  const double spread = std::sqrt(std::clamp(place, 0.0, 1.0));
  return static_cast<uint8_t>(std::min(kForestBinsMax - 1, static_cast<int>(spread * kForestBinsMax)));
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

FeatureTable Surrogate::TableOf(std::span<const PointView> points) const {
  FeatureTable table = shape_;
  const int sources = prior_ == nullptr ? 0 : prior_->source_count();
  std::vector<std::vector<double>> places;
  for (int source = 0; source < sources; ++source) places.push_back(prior_->PlacesOf(source, points));
  table.bins.reserve(points.size() * static_cast<size_t>(table.columns));
  for (size_t row = 0; row < points.size(); ++row) {
    for (const int parameter : space_->varying()) {
      const int rank = space_->Rank(parameter, points[row][static_cast<size_t>(parameter)]);
      const int count = space_->ValueCount(parameter);
      table.bins.push_back(static_cast<uint8_t>(count <= kForestBinsMax ? rank : rank * kForestBinsMax / count));
    }
    for (const std::vector<double>& of_source : places) table.bins.push_back(BinOfPlace(of_source[row]));
  }
  return table;
}

bool Surrogate::Update(const History& history) {
  const size_t count = FitMilestone(history.size());
  if (count < kObservationsMin) return false;
  if (count != fitted_to_) Fit(history, count);
  return value_.is_fitted();
}

void Surrogate::Fit(const History& history, size_t count) {
  fitted_to_ = count;
  std::vector<PointView> points, ok_points;
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
    points.push_back(history.PointOf(i));
    const bool ok = history.IsOk(i);
    usable.push_back(ok ? 1 : 0);
    any_failed = any_failed || !ok;
    if (!ok) continue;
    ok_points.push_back(history.PointOf(i));
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
    const FeatureTable rows = TableOf(ok_points);
    value_.Fit(rows, targets, options, random);
    if (static_cast<int>(targets.size()) <= options_.process_max) process_.Fit(rows, targets);
  }
  if (!any_failed) return;
  options.trees = std::max(5, options_.trees / 2);
  options.leaf_min = 1;
  feasible_.Fit(TableOf(points), usable, options, random);
}

std::vector<Belief> Surrogate::Predict(std::span<const PointView> points) const {
  const FeatureTable table = TableOf(points);
  std::vector<Prediction> values, feasible;
  if (process_.is_fitted()) {
    for (size_t row = 0; row < points.size(); ++row) values.push_back(process_.Predict(table.Row(row)));
  } else {
    values = value_.PredictRows(table);
  }
  if (feasible_.is_fitted()) feasible = feasible_.PredictRows(table);
  std::vector<Belief> beliefs(points.size());
  for (size_t i = 0; i < points.size(); ++i) {
    beliefs[i].mean = values[i].mean;
    beliefs[i].deviation = std::max(kDeviationMin, std::sqrt(values[i].variance));
    if (feasible_.is_fitted()) beliefs[i].feasible = feasible[i].mean;
  }
  return beliefs;
}

}  // namespace tunefarm
