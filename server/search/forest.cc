#include "server/search/forest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace tunefarm {
namespace {

struct Bin {
  double sum = 0;
  int count = 0;
};

// What the trees say of one row.
struct Votes {
  double sum = 0, squares = 0, within = 0;

  void Add(const auto& value) {
    const double mean = value.mean;
    sum += mean;
    squares += mean * mean;
    within += value.variance;
  }
  Prediction Of(size_t trees) const {
    const auto count = static_cast<double>(trees);
    const double mean = sum / count;
    return {mean, std::max(0.0, squares / count - mean * mean) + within / count};
  }
};

// Rows that walk down a tree side by side.
constexpr size_t kWalks = 16;

struct Split {
  double gain = 0;
  int feature = -1;
  uint64_t left_bins = 0;
};

uint64_t BinsBelow(int bin) { return bin >= kForestBinsMax ? ~uint64_t{0} : (uint64_t{1} << bin) - 1; }

}  // namespace

struct Forest::Grower {
  const FeatureTable& features;
  std::span<const double> targets;
  const ForestOptions& options;
  PhiloxStream& random;
  std::vector<Node>& nodes;
  std::vector<Value>& values;
  std::vector<uint32_t> rows;  // of the tree being grown; each node owns a range
  std::vector<int> columns;    // shuffled for each split

  // The best way to part rows[begin, end) by one feature.
  void TryFeature(int feature, size_t begin, size_t end, double sum, Split* best) {
    std::array<Bin, kForestBinsMax> bins = {};
    int lowest = kForestBinsMax, highest = -1;
    for (size_t i = begin; i < end; ++i) {
      const int bin = features.bins[rows[i] * static_cast<size_t>(features.columns) + static_cast<size_t>(feature)];
      bins[static_cast<size_t>(bin)].sum += targets[rows[i]];
      ++bins[static_cast<size_t>(bin)].count;
      lowest = std::min(lowest, bin);
      highest = std::max(highest, bin);
    }
    if (lowest == highest) return;
    std::array<int, kForestBinsMax> order = {};
    int used = 0;
    for (int bin = lowest; bin <= highest; ++bin) {
      if (bins[static_cast<size_t>(bin)].count > 0) order[static_cast<size_t>(used++)] = bin;
    }
    const bool ordered = features.is_ordered[static_cast<size_t>(feature)];
    if (!ordered) {
      // For a squared error the best set of categories is a prefix in the order of their means.
      std::sort(order.begin(), order.begin() + used, [&](int a, int b) {
        const Bin &first = bins[static_cast<size_t>(a)], &second = bins[static_cast<size_t>(b)];
        const double left = first.sum * second.count, right = second.sum * first.count;
        return left < right || (left == right && a < b);
      });
    }
    const auto total = static_cast<double>(end - begin);
    double left_sum = 0;
    int left_count = 0;
    int cut = -1;
    for (int i = 0; i + 1 < used; ++i) {
      const Bin& bin = bins[static_cast<size_t>(order[static_cast<size_t>(i)])];
      left_sum += bin.sum;
      left_count += bin.count;
      const double right_count = total - left_count;
      if (left_count < options.leaf_min || right_count < options.leaf_min) continue;
      const double right_sum = sum - left_sum;
      const double gain = left_sum * left_sum / left_count + right_sum * right_sum / right_count - sum * sum / total;
      if (gain <= best->gain) continue;
      best->gain = gain;
      best->feature = feature;
      cut = i;
    }
    if (cut < 0) return;
    if (ordered) {
      // Anywhere in the gap, so that trees differ about what lies in it.
      const int low = order[static_cast<size_t>(cut)], high = order[static_cast<size_t>(cut) + 1];
      const int edge = low + 1 + static_cast<int>(random.UniformInt(static_cast<uint64_t>(high - low)));
      best->left_bins = BinsBelow(edge);
      return;
    }
    best->left_bins = 0;
    for (int i = 0; i <= cut; ++i) best->left_bins |= uint64_t{1} << order[static_cast<size_t>(i)];
  }

  Split FindSplit(size_t begin, size_t end, double sum) {
    Split best;
    best.gain = 1e-9;
    const size_t wanted = std::max<size_t>(
        1, static_cast<size_t>(std::ceil(options.feature_share * static_cast<double>(columns.size()))));
    for (size_t i = 0; i < columns.size(); ++i) {
      // Past the wanted part only until something splits.
      if (i >= wanted && best.feature >= 0) break;
      std::swap(columns[i], columns[i + random.UniformInt(columns.size() - i)]);
      TryFeature(columns[i], begin, end, sum, &best);
    }
    return best;
  }

  void Grow(int32_t node, size_t begin, size_t end, int depth) {
    double sum = 0, squares = 0;
    for (size_t i = begin; i < end; ++i) {
      sum += targets[rows[i]];
      squares += targets[rows[i]] * targets[rows[i]];
    }
    const auto count = static_cast<double>(end - begin);
    const double mean = sum / count;
    const double spread = std::max(0.0, squares / count - mean * mean);
    nodes[static_cast<size_t>(node)].left = node - 1;
    values[static_cast<size_t>(node)] = {static_cast<float>(mean), static_cast<float>(spread)};
    if (depth >= options.depth_max || count < 2 * options.leaf_min || spread < 1e-12) return;
    const Split split = FindSplit(begin, end, sum);
    if (split.feature < 0) return;
    const auto middle = std::partition(
        rows.begin() + static_cast<ptrdiff_t>(begin), rows.begin() + static_cast<ptrdiff_t>(end), [&](uint32_t row) {
          const uint8_t bin =
              features.bins[row * static_cast<size_t>(features.columns) + static_cast<size_t>(split.feature)];
          return ((split.left_bins >> bin) & 1) != 0;
        });
    const auto cut = static_cast<size_t>(middle - rows.begin());
    const auto left = static_cast<int32_t>(nodes.size());
    nodes[static_cast<size_t>(node)].left = left;
    nodes[static_cast<size_t>(node)].feature = split.feature;
    nodes[static_cast<size_t>(node)].left_bins = split.left_bins;
    nodes.resize(nodes.size() + 2);
    values.resize(nodes.size());
    Grow(left, begin, cut, depth + 1);
    Grow(left + 1, cut, end, depth + 1);
  }
};

void Forest::Fit(const FeatureTable& features, std::span<const double> targets, const ForestOptions& options,
                 PhiloxStream& random) {
  nodes_.clear();
  values_.clear();
  roots_.clear();
  const size_t count = features.rows();
  Grower grower{features, targets, options, random,
                nodes_,   values_, {},      std::vector<int>(static_cast<size_t>(features.columns))};
  std::iota(grower.columns.begin(), grower.columns.end(), 0);
  grower.rows.resize(count);
  for (int tree = 0; tree < options.trees; ++tree) {
    for (size_t i = 0; i < count; ++i) {
      grower.rows[i] = static_cast<uint32_t>(options.bootstrap ? random.UniformInt(count) : i);
    }
    const auto root = static_cast<int32_t>(nodes_.size());
    roots_.push_back(root);
    nodes_.emplace_back();
    values_.emplace_back();
    grower.Grow(root, 0, count, 0);
  }
}

Prediction Forest::Predict(std::span<const uint8_t> bins) const {
  Votes votes;
  for (const int32_t root : roots_) {
    int32_t at = root;
    while (true) {
      const int32_t child = ChildOf(at, bins.data());
      if (child == at) break;
      at = child;
    }
    votes.Add(values_[static_cast<size_t>(at)]);
  }
  return votes.Of(roots_.size());
}

std::vector<Prediction> Forest::PredictRows(const FeatureTable& table) const {
  const size_t rows = table.rows();
  std::vector<Votes> votes(rows);
  for (const int32_t root : roots_) {
    for (size_t first = 0; first < rows; first += kWalks) {
      const size_t walks = std::min(kWalks, rows - first);
      std::array<int32_t, kWalks> at;
      at.fill(root);
      int32_t moved = 1;
      while (moved != 0) {
        moved = 0;
        for (size_t i = 0; i < walks; ++i) {
          const int32_t child = ChildOf(at[i], table.Row(first + i).data());
          moved |= child ^ at[i];
          at[i] = child;
        }
      }
      for (size_t i = 0; i < walks; ++i) votes[first + i].Add(values_[static_cast<size_t>(at[i])]);
    }
  }
  std::vector<Prediction> predictions(rows);
  for (size_t row = 0; row < rows; ++row) predictions[row] = votes[row].Of(roots_.size());
  return predictions;
}

void Forest::VisitBelow(int32_t at, std::vector<uint64_t>* bins, const LeafVisitor& visit) const {
  const Node& node = nodes_[static_cast<size_t>(at)];
  if (node.left < at) {
    visit(*bins, values_[static_cast<size_t>(at)].mean);
    return;
  }
  uint64_t& here = (*bins)[static_cast<size_t>(node.feature)];
  const uint64_t before = here;
  here = before & node.left_bins;
  VisitBelow(node.left, bins, visit);
  here = before & ~node.left_bins;
  VisitBelow(node.left + 1, bins, visit);
  here = before;
}

void Forest::VisitLeaves(int columns, const LeafVisitor& visit) const {
  std::vector<uint64_t> bins(static_cast<size_t>(columns), ~uint64_t{0});
  for (const int32_t root : roots_) VisitBelow(root, &bins, visit);
}

}  // namespace tunefarm
