#include "server/analysis/importance.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "server/base/format.h"
#include "server/search/forest.h"

namespace tunefarm {
namespace {

// Values of one parameter are put together beyond so many: neighbours where they have an order, the rarest where not.
constexpr int kBinsMax = 32;
constexpr size_t kFolds = 4;
constexpr size_t kDraws = 4096;
// Times that differ by less than this, as a share, are the same.
constexpr double kDeviationMin = 1e-6;

enum class Draw : uint64_t { kRows = 1, kFold = 2, kWholeFit = 3, kPoints = 4 };

PhiloxStream StreamFor(uint64_t seed, Draw use, uint64_t number = 0) {
  return PhiloxStream(seed, static_cast<uint64_t>(use) << 32 | number);
}

// What the forest sees.
struct TrainingData {
  FeatureTable features;
  std::vector<double> targets;               // logarithms of times, of mean 0 and deviation 1
  std::vector<size_t> parameter_of;          // the study's parameter of each column
  std::vector<std::vector<double>> weights;  // by column and bin: the share of the rows that have it

  size_t rows() const { return targets.size(); }
  size_t columns() const { return parameter_of.size(); }
};

// `count` positions of OK evaluations, drawn without replacement where there are more; in random order.
std::vector<uint32_t> DrawRows(const Selection& trials, size_t count, PhiloxStream random) {
  std::vector<uint32_t> rows = trials.Measured();
  count = std::min(count, rows.size());
  for (size_t i = 0; i < count; ++i) std::swap(rows[i], rows[i + random.UniformInt(rows.size() - i)]);
  rows.resize(count);
  return rows;
}

// The bin of each value of a parameter; values without rows share their neighbours' bins. `counts` is by value.
std::vector<uint8_t> BinsOf(const std::vector<int64_t>& counts, bool is_ordered) {
  std::vector<uint8_t> bins(counts.size());
  const auto used = std::count_if(counts.begin(), counts.end(), [](int64_t count) { return count > 0; });
  if (used <= kBinsMax) {
    uint8_t next = 0;
    for (size_t v = 0; v < counts.size(); ++v) bins[v] = counts[v] > 0 ? next++ : next;
    return bins;
  }
  if (is_ordered) {
    // As many rows in each as can be.
    const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    int64_t before = 0;
    for (size_t v = 0; v < counts.size(); ++v) {
      bins[v] = static_cast<uint8_t>(before * kBinsMax / all);
      before += counts[v];
    }
    return bins;
  }
  std::vector<size_t> order(counts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return counts[a] > counts[b]; });
  for (size_t i = 0; i < order.size(); ++i) bins[order[i]] = static_cast<uint8_t>(std::min<size_t>(i, kBinsMax - 1));
  return bins;
}

TrainingData Prepare(const StudyColumns& columns, const std::vector<uint32_t>& rows) {
  TrainingData data;
  std::vector<std::vector<uint8_t>> bins;  // by column and value
  for (size_t p = 0; p < columns.parameter_count(); ++p) {
    std::vector<int64_t> counts(columns.values(p).size());
    for (const uint32_t row : rows) ++counts[columns.ValueIndex(row, p)];
    if (std::count_if(counts.begin(), counts.end(), [](int64_t count) { return count > 0; }) < 2) continue;
    const bool is_ordered = !columns.values(p)[0].is_string();
    data.parameter_of.push_back(p);
    data.features.is_ordered.push_back(is_ordered);
    bins.push_back(BinsOf(counts, is_ordered));
  }
  data.features.columns = static_cast<int>(data.columns());
  data.weights.assign(data.columns(), std::vector<double>(kForestBinsMax));
  double sum = 0, squares = 0;
  for (const uint32_t row : rows) {
    for (size_t c = 0; c < data.columns(); ++c) {
      const uint8_t bin = bins[c][columns.ValueIndex(row, data.parameter_of[c])];
      data.features.bins.push_back(bin);
      data.weights[c][bin] += 1 / static_cast<double>(rows.size());
    }
    data.targets.push_back(std::log(columns[row].objective_ns));
  }
  for (const double target : data.targets) sum += target;
  const double mean = sum / static_cast<double>(data.rows());
  for (const double target : data.targets) squares += (target - mean) * (target - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(data.rows()));
  for (double& target : data.targets) target = deviation < kDeviationMin ? 0 : (target - mean) / deviation;
  return data;
}

bool IsConstant(const TrainingData& data) {
  return std::all_of(data.targets.begin(), data.targets.end(), [](double target) { return target == 0; });
}

ForestOptions OptionsOfForest(int trees) {
  ForestOptions options;
  options.trees = trees;
  options.leaf_min = 2;
  options.feature_share = 0.7;
  return options;
}

// The share of the variance of unseen rows that a forest predicts. The rows are in random order, so that a fold is
// every so-many-th of them.
double RSquared(const TrainingData& data, const ImportanceOptions& options) {
  double errors = 0, squares = 0;
  for (size_t fold = 0; fold < kFolds; ++fold) {
    FeatureTable seen = data.features;
    seen.bins.clear();
    std::vector<double> targets;
    for (size_t row = 0; row < data.rows(); ++row) {
      if (row % kFolds == fold) continue;
      const auto bins = data.features.Row(row);
      seen.bins.insert(seen.bins.end(), bins.begin(), bins.end());
      targets.push_back(data.targets[row]);
    }
    PhiloxStream random = StreamFor(options.seed, Draw::kFold, fold);
    Forest forest;
    forest.Fit(seen, targets, OptionsOfForest(options.trees), random);
    for (size_t row = fold; row < data.rows(); row += kFolds) {
      const double error = data.targets[row] - forest.Predict(data.features.Row(row)).mean;
      errors += error * error;
      squares += data.targets[row] * data.targets[row];
    }
  }
  return squares > 0 ? 1 - errors / squares : 0;
}

// The forest's mean as a function of one column's bin, and of two columns' bins, over all others.
class Marginals {
 public:
  Marginals(const Forest& forest, const TrainingData& data) : forest_(forest), data_(data) {
    one_.assign(data.columns(), std::vector<double>(kForestBinsMax));
    ForEachBox([&](std::span<const uint64_t> bins, double value, double volume, const std::vector<double>& shares) {
      mean_ += value * volume;
      for (size_t c = 0; c < shares.size(); ++c) {
        const double part = value * volume / shares[c];
        for (size_t bin = 0; bin < kBinsMax; ++bin) {
          if ((bins[c] >> bin & 1) != 0) one_[c][bin] += part;
        }
      }
    });
  }

  // The variance that a column answers for alone.
  double VarianceOf(size_t column) const {
    double variance = 0;
    for (size_t bin = 0; bin < kBinsMax; ++bin) {
      const double difference = one_[column][bin] - mean_;
      variance += data_.weights[column][bin] * difference * difference;
    }
    return variance;
  }

  // What two columns answer for beyond that.
  double VarianceOfPair(size_t first, size_t second) const {
    std::vector<double> two(kBinsMax * kBinsMax);
    ForEachBox([&](std::span<const uint64_t> bins, double value, double volume, const std::vector<double>& shares) {
      const double part = value * volume / (shares[first] * shares[second]);
      for (size_t a = 0; a < kBinsMax; ++a) {
        if ((bins[first] >> a & 1) == 0) continue;
        for (size_t b = 0; b < kBinsMax; ++b) {
          if ((bins[second] >> b & 1) != 0) two[a * kBinsMax + b] += part;
        }
      }
    });
    double variance = 0;
    for (size_t a = 0; a < kBinsMax; ++a) {
      for (size_t b = 0; b < kBinsMax; ++b) {
        const double difference = two[a * kBinsMax + b] - mean_;
        variance += data_.weights[first][a] * data_.weights[second][b] * difference * difference;
      }
    }
    return variance - VarianceOf(first) - VarianceOf(second);
  }

 private:
  // Calls with each leaf's bins, its value divided among the trees, its volume, and its share of each column.
  template <typename Visit>
  void ForEachBox(const Visit& visit) const {
    std::vector<double> shares(data_.columns());
    forest_.VisitLeaves(static_cast<int>(data_.columns()), [&](std::span<const uint64_t> bins, double value) {
      double volume = 1;
      for (size_t c = 0; c < shares.size(); ++c) {
        shares[c] = 0;
        for (size_t bin = 0; bin < kBinsMax; ++bin) {
          if ((bins[c] >> bin & 1) != 0) shares[c] += data_.weights[c][bin];
        }
        volume *= shares[c];
      }
      if (volume > 0) visit(bins, value / forest_.trees(), volume, shares);
    });
  }

  const Forest& forest_;
  const TrainingData& data_;
  std::vector<std::vector<double>> one_;  // by column and bin
  double mean_ = 0;
};

struct TotalEffects {
  double variance = 0;          // of the forest
  std::vector<double> redrawn;  // by column: the variance that goes with redrawing it alone
};

TotalEffects DrawTotalEffects(const Forest& forest, const TrainingData& data, uint64_t seed) {
  PhiloxStream random = StreamFor(seed, Draw::kPoints);
  const auto draw = [&](size_t column) { return data.features.Row(random.UniformInt(data.rows()))[column]; };
  TotalEffects effects;
  effects.redrawn.resize(data.columns());
  std::vector<uint8_t> point(data.columns());
  double sum = 0, squares = 0;
  for (size_t i = 0; i < kDraws; ++i) {
    for (size_t c = 0; c < point.size(); ++c) point[c] = draw(c);
    const double value = forest.Predict(point).mean;
    sum += value;
    squares += value * value;
    for (size_t c = 0; c < point.size(); ++c) {
      const uint8_t before = point[c];
      point[c] = draw(c);
      const double difference = point[c] == before ? 0 : forest.Predict(point).mean - value;
      effects.redrawn[c] += difference * difference / (2.0 * kDraws);
      point[c] = before;
    }
  }
  effects.variance = squares / kDraws - sum / kDraws * (sum / kDraws);
  return effects;
}

void TakeApart(const Forest& forest, const TrainingData& data, const ImportanceOptions& options, Importance* result) {
  const Marginals marginals(forest, data);
  const TotalEffects effects = DrawTotalEffects(forest, data, options.seed);
  if (effects.variance <= 0) return;
  const auto share = [&](double variance) { return std::clamp(variance / effects.variance, 0.0, 1.0); };
  std::vector<size_t> order(data.columns());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return effects.redrawn[a] > effects.redrawn[b]; });
  for (const size_t c : order) {
    const double alone = share(marginals.VarianceOf(c));
    // The one is computed, the other drawn: where they are the same the draw may fall short.
    result->parameters.push_back({data.parameter_of[c], alone, std::max(alone, share(effects.redrawn[c]))});
  }
  order.resize(std::min(order.size(), options.pair_parameters));
  for (size_t i = 0; i < order.size(); ++i) {
    for (size_t j = i + 1; j < order.size(); ++j) {
      const double pair = share(marginals.VarianceOfPair(order[i], order[j]));
      if (pair >= options.pair_share_min)
        result->pairs.push_back({data.parameter_of[order[i]], data.parameter_of[order[j]], pair});
    }
  }
  std::stable_sort(result->pairs.begin(), result->pairs.end(),
                   [](const PairImportance& a, const PairImportance& b) { return a.share > b.share; });
  result->pairs.resize(std::min(result->pairs.size(), options.pairs_max));
}

}  // namespace

struct ImportanceSample::Data {
  ImportanceOptions options;
  size_t rows_of = 0;
  TrainingData training;  // without rows where there are too few
};

ImportanceSample::ImportanceSample(const Selection& trials, const ImportanceOptions& options) {
  auto data = std::make_unique<Data>();
  data->options = options;
  data->rows_of = trials.measured_count();
  if (data->rows_of >= options.rows_min) {
    data->training =
        Prepare(trials.columns(), DrawRows(trials, options.rows_max, StreamFor(options.seed, Draw::kRows)));
  }
  data_ = std::move(data);
}

ImportanceSample::ImportanceSample(ImportanceSample&&) noexcept = default;
ImportanceSample& ImportanceSample::operator=(ImportanceSample&&) noexcept = default;
ImportanceSample::~ImportanceSample() = default;

Importance ImportanceSample::Compute() const {
  const ImportanceOptions& options = data_->options;
  const TrainingData& data = data_->training;
  Importance result;
  result.rows_of = data_->rows_of;
  if (result.rows_of < options.rows_min) {
    result.unusable_because =
        fmt::format("{} too few, {} are the least",
                    FormatCount(static_cast<int64_t>(result.rows_of), "measured config is", "measured configs are"),
                    options.rows_min);
    return result;
  }
  result.rows = data.rows();
  if (data.columns() == 0) {
    result.unusable_because = "no parameter has more than one value";
    return result;
  }
  if (IsConstant(data)) {
    result.unusable_because = "all times are the same";
    return result;
  }
  result.r_squared = RSquared(data, options);
  if (result.r_squared < options.r_squared_min) {
    result.unusable_because =
        fmt::format("the model predicts configs that it has not seen too poorly (R² {:.2f}, {:.2f} is the least)",
                    result.r_squared, options.r_squared_min);
    return result;
  }
  PhiloxStream random = StreamFor(options.seed, Draw::kWholeFit);
  Forest forest;
  forest.Fit(data.features, data.targets, OptionsOfForest(options.trees), random);
  TakeApart(forest, data, options, &result);
  return result;
}

}  // namespace tunefarm
