// A regression forest over small integer features: the surrogate model of searches in discrete spaces.
//
// Each tree is grown on a bootstrap sample, each split looks at a random part of the features and takes the one that
// reduces the variance most. Features are bins (at most 64), so that a split is a set of bins and one bit test.
//
// Threads: not thread-safe while fitting; const use from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "server/base/random.h"

namespace tunefarm {

inline constexpr int kForestBinsMax = 64;

struct ForestOptions {
  int trees = 20;
  int leaf_min = 2;  // observations in a leaf, at least
  int depth_max = 16;
  double feature_share = 0.8;  // of the features that each split looks at
  bool bootstrap = true;
};

// Rows of bins, one column per feature.
struct FeatureTable {
  int columns = 0;
  std::vector<uint8_t> bins;
  // By column: whether bins have an order.
  std::vector<bool> is_ordered;

  size_t rows() const { return columns == 0 ? 0 : bins.size() / static_cast<size_t>(columns); }
  std::span<const uint8_t> Row(size_t row) const {
    return {bins.data() + row * static_cast<size_t>(columns), static_cast<size_t>(columns)};
  }
};

struct Prediction {
  double mean = 0;
  double variance = 0;  // between the trees and within their leaves
};

class Forest {
 public:
  // As many targets as rows, at least one.
  void Fit(const FeatureTable& features, std::span<const double> targets, const ForestOptions& options,
           PhiloxStream& random);
  bool is_fitted() const { return !roots_.empty(); }

  Prediction Predict(std::span<const uint8_t> bins) const;
  // The same of each row, in a fraction of the time: each tree is walked by many rows before the next one is, and the
  // walks of several rows overlap.
  std::vector<Prediction> PredictRows(const FeatureTable& table) const;

  int trees() const { return static_cast<int>(roots_.size()); }
  // Every leaf of every tree, tree by tree: the bins that lead to it, as a set for each of `columns` features (a bit
  // for each bin, all bits where no split asked), and its mean. The leaves of one tree part the space of all rows.
  using LeafVisitor = std::function<void(std::span<const uint64_t> bins, double mean)>;
  void VisitLeaves(int columns, const LeafVisitor& visit) const;

 private:
  struct Node {
    uint64_t left_bins = 0;  // bins that go left; none in a leaf
    int32_t left = -1;       // the right child follows it; in a leaf the node before, so that its right child is itself
    int32_t feature = 0;
  };
  struct Value {
    float mean = 0;
    float variance = 0;
  };
  struct Grower;

  // The child of a node on the way of a row; a leaf's is the leaf. Without a branch, which could not be predicted.
  int32_t ChildOf(int32_t node, const uint8_t* bins) const {
    const Node& from = nodes_[static_cast<size_t>(node)];
    const auto is_left = static_cast<int32_t>((from.left_bins >> bins[from.feature]) & 1);
    return from.left + 1 - is_left;
  }
  void VisitBelow(int32_t at, std::vector<uint64_t>* bins, const LeafVisitor& visit) const;

  std::vector<Node> nodes_;
  std::vector<Value> values_;  // of the rows in each node
  std::vector<int32_t> roots_;
};

}  // namespace tunefarm
