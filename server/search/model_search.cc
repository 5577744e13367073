#include "server/search/model_search.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "server/search/genetic.h"
#include "server/search/near_points.h"
#include "server/search/random_streams.h"

namespace tunefarm {
namespace {

constexpr int kNeighbourValuesMax = 16;
// Fresh samples are one in so many where a pool serves several proposals.
constexpr int kPoolServes = 10;
constexpr size_t kParentPool = 12;
constexpr size_t kCrossPool = 24;
// Of all parents together, and of the points nearest to the best; of more a random part is looked at, so that a
// proposal's cost does not grow with the space.
constexpr size_t kNeighbourCandidatesMax = 240;

void KeepSome(std::vector<Point>* points, PhiloxStream& random) {
  if (points->size() <= kNeighbourCandidatesMax) return;
  for (size_t i = 0; i < kNeighbourCandidatesMax; ++i) {
    std::swap((*points)[i], (*points)[i + random.UniformInt(points->size() - i)]);
  }
  points->resize(kNeighbourCandidatesMax);
}

}  // namespace

double ExpectedImprovement(double mean, double deviation, double best) {
  const double z = (best - mean) / deviation;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  const double below = std::erfc(-z / std::numbers::sqrt2) / 2;
  return deviation * (z * below + density);
}

ModelSearch::ModelSearch(std::shared_ptr<const SearchSpace> space, uint64_t seed, const ModelSearchOptions& options,
                         std::shared_ptr<const PriorKnowledge> prior)
    : seed_(seed),
      options_(options),
      prior_(std::move(prior)),
      surrogate_(std::move(space), seed, options.surrogate, prior_) {
  const int sources = prior_ == nullptr ? 0 : prior_->source_count();
  for (int source = 0; source < sources; ++source) {
    const std::vector<Point>& best = prior_->BestOf(source);
    prior_points_.insert(prior_points_.end(), best.begin(), best.end());
  }
}

void ModelSearch::FillPool(const History& history) {
  const size_t milestone = FitMilestone(history.size());
  if (milestone == pool_of_) return;
  pool_of_ = milestone;
  pool_.clear();
  PhiloxStream random(seed_, StreamOf(StreamUse::kPool, milestone));
  for (int i = 0; i < options_.random_candidates; ++i) {
    absl::StatusOr<Point> point = history.space().Sample(random);
    if (!point.ok()) break;
    pool_.push_back(*std::move(point));
  }
}

void ModelSearch::FindNearestOfBest(const History& history) {
  if (history.elite().empty() || history.elite().front() == nearest_of_) return;
  nearest_of_ = history.elite().front();
  PhiloxStream random(seed_, StreamOf(StreamUse::kNearest, nearest_of_));
  nearest_ = NearestWithOtherValues(history.space(), history.PointOf(nearest_of_), random);
  KeepSome(&nearest_, random);
}

std::vector<Point> ModelSearch::Candidates(const History& history, PhiloxStream& random) {
  const SearchSpace& space = history.space();
  std::vector<Point> candidates;
  const auto add = [&](Point&& point) {
    if (!history.IsProposed(point)) candidates.push_back(std::move(point));
  };
  const std::vector<uint32_t>& elite = history.elite();
  const size_t pool = std::min(elite.size(), kParentPool);
  for (int i = 0; i < options_.parents && pool > 0; ++i) {
    // The best always, others by chance.
    const size_t which = i == 0 ? 0 : random.UniformInt(pool);
    for (Point& point :
         NearPoints(space, history.PointOf(elite[which]), Moves::kAnyValue, kNeighbourValuesMax, random)) {
      add(std::move(point));
    }
  }
  KeepSome(&candidates, random);
  FindNearestOfBest(history);
  for (const Point& point : nearest_) add(Point(point));
  const size_t cross = std::min(elite.size(), kCrossPool);
  for (int i = 0; i < options_.child_candidates && cross > 0; ++i) {
    const auto a = history.PointOf(elite[random.UniformInt(cross)]),
               b = history.PointOf(elite[random.UniformInt(cross)]);
    Point child = ChildOf(space, a, b, 1.0, 0.5, random);
    if (space.Contains(child)) add(std::move(child));
  }
  // A sample of a space that is not listed may cost much: most are drawn once per model and serve all of its proposals.
  int fresh = options_.random_candidates;
  if (!space.is_listed()) {
    FillPool(history);
    for (const Point& point : pool_) add(Point(point));
    fresh = fresh / kPoolServes + 1;
  }
  for (int i = 0; i < fresh; ++i) {
    absl::StatusOr<Point> point = space.Sample(random);
    if (!point.ok()) break;
    add(*std::move(point));
  }
  return candidates;
}

std::vector<double> ModelSearch::GainsOf(const std::vector<Point>& points) const {
  const std::vector<Belief> beliefs = surrogate_.Predict(std::vector<PointView>(points.begin(), points.end()));
  std::vector<double> gains(points.size());
  for (size_t i = 0; i < points.size(); ++i) {
    const Belief& belief = beliefs[i];
    gains[i] =
        ExpectedImprovement(belief.mean, belief.deviation * options_.explore, surrogate_.best()) * belief.feasible;
    if (prior_ != nullptr) gains[i] *= prior_->Feasible(points[i]);
  }
  return gains;
}

std::optional<Point> ModelSearch::Propose(const History& history, PhiloxStream& random) {
  if (random.NextDouble() < options_.random_share) return std::nullopt;
  if (!surrogate_.Update(history)) return std::nullopt;
  const std::vector<Point> candidates = Candidates(history, random);
  const std::vector<double> gains = GainsOf(candidates);
  if (const size_t milestone = FitMilestone(history.size()); milestone != prior_gains_of_) {
    prior_gains_of_ = milestone;
    prior_gains_ = GainsOf(prior_points_);
  }
  const Point* chosen = nullptr;
  double most = -1;
  const auto consider = [&](const Point& point, double gain) {
    if (gain <= most) return;
    most = gain;
    chosen = &point;
  };
  for (size_t i = 0; i < candidates.size(); ++i) consider(candidates[i], gains[i]);
  for (size_t i = 0; i < prior_points_.size(); ++i) {
    if (prior_gains_[i] > most && !history.IsProposed(prior_points_[i])) consider(prior_points_[i], prior_gains_[i]);
  }
  if (chosen == nullptr) return std::nullopt;
  return *chosen;
}

}  // namespace tunefarm
