// PriorKnowledge: results of other studies, made comparable and looked up by point. Of each source a model fills in
// what it did not measure.
//
// Threads: never changes after it was made; const use from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/search/forest.h"
#include "server/search/search_space.h"
#include "server/search/strategy.h"

namespace tunefarm {

class PriorKnowledge {
 public:
  // How many sources are used, the most similar ones, and how many results of each, the best ones and random others.
  static constexpr int kSourcesMax = 4;
  static constexpr size_t kResultsMax = 5000;

  // nullptr when no source has a usable result in this space.
  static std::shared_ptr<const PriorKnowledge> Make(std::shared_ptr<const SearchSpace> space, const Priors& priors,
                                                    uint64_t seed);

  // Sources in the order of their rank, the most similar first.
  int source_count() const { return static_cast<int>(sources_.size()); }
  // The places of points among the source's results, from 0 (best) to 1, as measured there or else as predicted.
  std::vector<double> PlacesOf(int source, std::span<const PointView> points) const;
  // The probability that the point works, from all sources' failures.
  double Feasible(PointView point) const;
  // The source's best results, best first.
  const std::vector<Point>& BestOf(int source) const { return sources_[static_cast<size_t>(source)].best; }
  // What a search tries first: the best of the most similar source, at most `count`.
  std::vector<Point> FirstPoints(size_t count) const;

 private:
  struct Source {
    std::unordered_map<std::string, float> places;  // by the point's bytes; above 1 where it failed
    std::vector<Point> best;
    Forest model;
  };

  explicit PriorKnowledge(std::shared_ptr<const SearchSpace> space) : space_(std::move(space)) {}
  std::optional<Source> Read(const PriorSource& source, PhiloxStream& random) const;
  // A table of the varying parameters without rows, and the row of a point in it.
  FeatureTable Table() const;
  void AppendBins(PointView point, std::vector<uint8_t>* bins) const;

  const std::shared_ptr<const SearchSpace> space_;
  std::vector<Source> sources_;
};

}  // namespace tunefarm
