// How much the time depends on each parameter: functional analysis of variance of a regression forest.
//
// A forest is fitted to the logarithm of the times of what was measured. Its variance, with every parameter drawn
// independently from the values that were tried, as often as they were, is then taken apart. A parameter answers alone
// for the variance of the forest's mean over all others (main effect; computed exactly from the leaves, each of which
// is a box of values: Hutter, Hoos and Leyton-Brown, "An efficient approach for assessing hyperparameter importance",
// ICML 2014), and in total for what redrawing it alone changes (total effect, which is permutation importance with the
// model in the place of new measurements; Jansen, "Analysis of variance designs for model output", Computer Physics
// Communications 117, 1999). The difference of the two are interactions: of two parameters that matter only together
// each answers for nothing alone. How well the forest predicts trials that it has not seen says whether to believe it.
//
// Pure functions of the trials and the seed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "server/analysis/selection.h"

namespace tunefarm {

struct ImportanceOptions {
  uint64_t seed = 1;
  size_t rows_max = 3000;      // of more, so many are drawn
  size_t rows_min = 30;        // of fewer, nothing is said
  double r_squared_min = 0.3;  // below, nothing is said
  int trees = 48;
  size_t pair_parameters = 6;  // pairs of the most important are looked at
  double pair_share_min = 0.01;
  size_t pairs_max = 5;
};

struct ParameterImportance {
  size_t parameter = 0;  // of the columns
  double alone = 0;      // shares of the variance
  double total = 0;
};

struct PairImportance {
  size_t first = 0, second = 0;
  double share = 0;  // beyond what the two answer for alone
};

struct Importance {
  std::string unusable_because;  // not empty: nothing below counts but the rows, and r_squared where it was the reason
  size_t rows = 0, rows_of = 0;
  double r_squared = 0;                         // cross-validated
  std::vector<ParameterImportance> parameters;  // by total, descending; those that never varied are left out
  std::vector<PairImportance> pairs;            // by share, descending
};

// Two steps: what the importance needs of the trials, which is quickly taken, and the rest, which may take a second and
// needs neither the trials nor their columns. Move-only; const use from any thread.
class ImportanceSample {
 public:
  explicit ImportanceSample(const Selection& trials, const ImportanceOptions& options = {});
  ImportanceSample(ImportanceSample&&) noexcept;
  ImportanceSample& operator=(ImportanceSample&&) noexcept;
  ~ImportanceSample();

  Importance Compute() const;

 private:
  struct Data;
  std::unique_ptr<const Data> data_;
};

}  // namespace tunefarm
