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
  FeatureTable features;
  features.columns = static_cast<int>(space_->varying().size());
  for (const int parameter : space_->varying()) features.is_ordered.push_back(space_->IsOrdered(parameter));
  std::vector<double> targets;
  for (size_t i = 0; i < rows.size(); ++i) {
    // Between the best (0) and the worst (1) by rank: comparable whatever the other device's speed.
    const double place = static_cast<double>(i) / static_cast<double>(std::max<size_t>(1, rows.size() - 1));
    read.places[std::string(PointBytes(rows[i].point))] = static_cast<float>(place);
    if (read.best.size() < kBestMax) read.best.push_back(rows[i].point);
    const std::vector<uint8_t> bins = BinsOf(rows[i].point);
    features.bins.insert(features.bins.end(), bins.begin(), bins.end());
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

std::vector<uint8_t> PriorKnowledge::BinsOf(std::span<const uint16_t> point) const {
  std::vector<uint8_t> bins;
  for (const int parameter : space_->varying()) {
    const int rank = space_->Rank(parameter, point[static_cast<size_t>(parameter)]);
    const int count = space_->ValueCount(parameter);
    bins.push_back(static_cast<uint8_t>(count <= kForestBinsMax ? rank : rank * kForestBinsMax / count));
  }
  return bins;
}

double PriorKnowledge::PlaceOf(int source, std::span<const uint16_t> point) const {
  const Source& from = sources_[static_cast<size_t>(source)];
  const auto known = from.places.find(std::string(PointBytes(point)));
  if (known != from.places.end()) return std::min(1.0, static_cast<double>(known->second));
  return from.model.is_fitted() ? from.model.Predict(BinsOf(point)).mean : 0.5;
}

uint8_t PriorKnowledge::BinOf(int source, std::span<const uint16_t> point) const {
  // Finer at the good end, where it matters: the square root spreads the best quarter over half of the bins.
  const double place = std::sqrt(std::clamp(PlaceOf(source, point), 0.0, 1.0));
  return static_cast<uint8_t>(std::min(kForestBinsMax - 1, static_cast<int>(place * kForestBinsMax)));
}

double PriorKnowledge::Feasible(std::span<const uint16_t> point) const {
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
