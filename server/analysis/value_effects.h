// How the values of each parameter did, alone and in pairs, and what the fastest configs have in common. Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "server/analysis/selection.h"

namespace tunefarm {

struct ValueEffect {
  int64_t measured = 0;
  int64_t failed = 0;
  double best_ns = 0;  // 0: none was measured
  double good_ns = 0;  // the median of the fastest tenth, at least one
};

struct ParameterEffect {
  std::vector<ValueEffect> values;  // as StudyColumns::values
  // The value whose fastest tenth is fastest. The best config need not have it: it says what is good with much else.
  std::optional<size_t> best_value;
};

// In the order of the columns' parameters. Two passes over the trials for each.
std::vector<ParameterEffect> EffectsOf(const Selection& trials);

// The trials with one value of each of two parameters.
struct GridCell {
  uint16_t column = 0, row = 0;  // indices of the values
  ValueEffect effect;
  int64_t example_ordinal = 0;  // of the fastest, or the first to end where none was measured
};

// Cells in which trials lie, row after row. Two passes over the trials. Needs memory for
// all pairs of values, some 100 bytes each.
std::vector<GridCell> GridOf(const Selection& trials, size_t column_parameter, size_t row_parameter);

struct TopShare {
  size_t count = 0;  // configs looked at; 0: too few were measured
  // By parameter, the value that all of them have; absent also for parameters that never had another value.
  std::vector<std::optional<uint16_t>> shared;
};

// Of the fastest hundredth of what was measured, at least kTopMin of them. Where that is more than a quarter of all,
// sharing a value would say nothing, and nothing is said.
TopShare TopShareOf(const Selection& trials);
inline constexpr size_t kTopMin = 5;

}  // namespace tunefarm
