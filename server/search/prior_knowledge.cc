#include "server/search/prior_knowledge.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "server/search/random_streams.h"

namespace tunefarm {
namespace {

constexpr size_t kBestMax = 64;
constexpr float kFailedPlace = 2;

}  // namespace

std::shared_ptr<const PriorKnowledge> PriorKnowledge::Make(std::shared_ptr<const SearchSpace> space,
                                                           const Priors& priors, uint64_t seed) {
  std::vector<const PriorSource*> order;
  for (const PriorSource& source : priors) order.push_back(&source);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->rank < b->rank; });
  std::shared_ptr<PriorKnowledge> made(new PriorKnowledge(std::move(space)));
  for (const PriorSource* source : order) {
    if (made->source_count() == kSourcesMax) break;
    PhiloxStream random(seed, StreamOf(StreamUse::kPrior, made->sources_.size()));
    std::optional<Source> read = made->Read(*source, random);
    if (read.has_value()) made->sources_.push_back(*std::move(read));
  }
  if (made->sources_.empty()) return nullptr;
  return made;
}

std::optional<PriorKnowledge::Source> PriorKnowledge::Read(const PriorSource& source, PhiloxStream& random) const {
  struct Row {
    Point point;
    double objective = 0;
  };
  std::vector<Row> rows;
  Source read;
  for (const PriorResult& result : source.results) {
    const auto point = space_->space().IndicesOf(result.config);
    if (!point.ok() || !space_->Contains(*point)) continue;
    const bool ok = result.outcome == ToldOutcome::kOk && result.objective_ns > 0 && std::isfinite(result.objective_ns);
    if (ok) {
      rows.push_back({*point, result.objective_ns});
    } else if (result.outcome != ToldOutcome::kLost && read.places.size() < kResultsMax) {
      read.places[std::string(PointBytes(*point))] = kFailedPlace;
    }
  }
  if (rows.empty()) return std::nullopt;
  const auto is_better = [](const Row& a, const Row& b) { return a.objective < b.objective; };
  std::stable_sort(rows.begin(), rows.end(), is_better);
  if (rows.size() > kResultsMax) {
    // The better half of what is kept, and a random part of the rest.
    const size_t half = kResultsMax / 2;
    for (size_t i = half; i < kResultsMax; ++i) std::swap(rows[i], rows[i + random.UniformInt(rows.size() - i)]);
    rows.resize(kResultsMax);
    std::stable_sort(rows.begin(), rows.end(), is_better);
  }
  FeatureTable features = Table();
  std::vector<double> targets;
  for (size_t i = 0; i < rows.size(); ++i) {
    // Between the best (0) and the worst (1) by rank: comparable whatever the other device's speed.
    const double place = static_cast<double>(i) / static_cast<double>(std::max<size_t>(1, rows.size() - 1));
    read.places[std::string(PointBytes(rows[i].point))] = static_cast<float>(place);
    if (read.best.size() < kBestMax) read.best.push_back(rows[i].point);
    AppendBins(rows[i].point, &features.bins);
    targets.push_back(place);
  }
  ForestOptions options;
  options.leaf_min = 1;
  options.trees = 10;
  if (features.columns > 0) read.model.Fit(features, targets, options, random);
  return read;
}

std::vector<Point> PriorKnowledge::FirstPoints(size_t count) const {
  const std::vector<Point>& best = sources_.front().best;
  return {best.begin(), best.begin() + static_cast<ptrdiff_t>(std::min(count, best.size()))};
}

FeatureTable PriorKnowledge::Table() const {
  FeatureTable table;
  table.columns = static_cast<int>(space_->varying().size());
  for (const int parameter : space_->varying()) table.is_ordered.push_back(space_->IsOrdered(parameter));
  return table;
}

void PriorKnowledge::AppendBins(PointView point, std::vector<uint8_t>* bins) const {
  for (const int parameter : space_->varying()) {
    const int rank = space_->Rank(parameter, point[static_cast<size_t>(parameter)]);
    const int count = space_->ValueCount(parameter);
    bins->push_back(static_cast<uint8_t>(count <= kForestBinsMax ? rank : rank * kForestBinsMax / count));
  }
}

std::vector<double> PriorKnowledge::PlacesOf(int source, std::span<const PointView> points) const {
  const Source& from = sources_[static_cast<size_t>(source)];
  std::vector<double> places(points.size(), 0.5);
  FeatureTable unknown = Table();
  std::vector<size_t> unknown_at;
  for (size_t i = 0; i < points.size(); ++i) {
    const auto known = from.places.find(std::string(PointBytes(points[i])));
    if (known != from.places.end()) {
      places[i] = std::min(1.0, static_cast<double>(known->second));
    } else if (from.model.is_fitted()) {
      AppendBins(points[i], &unknown.bins);
      unknown_at.push_back(i);
    }
  }
  const std::vector<Prediction> predicted = from.model.PredictRows(unknown);
  for (size_t i = 0; i < unknown_at.size(); ++i) places[unknown_at[i]] = predicted[i].mean;
  return places;
}

double PriorKnowledge::Feasible(PointView point) const {
  double feasible = 1;
  for (const Source& source : sources_) {
    const auto known = source.places.find(std::string(PointBytes(point)));
    if (known == source.places.end()) continue;
    // One device's failure is a warning; its success says that the config itself is sound.
    if (known->second > 1) feasible *= 0.3;
  }
  return feasible;
}

}  // namespace tunefarm
