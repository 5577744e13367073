#include "server/analysis/value_effects.h"

#include <algorithm>
#include <span>

#include "server/measure/statistics.h"

namespace tunefarm {
namespace {

// Of times of measured trials, which are put into another order.
void SetTimes(std::span<double> times, ValueEffect* effect) {
  effect->measured = static_cast<int64_t>(times.size());
  if (times.empty()) return;
  const std::span<double> good = times.first((times.size() + 9) / 10);
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(good.size()) - 1, times.end());
  effect->best_ns = *std::min_element(good.begin(), good.end());
  effect->good_ns = Median(good);
}

// One for each of `groups`; `group_of` tells an evaluation's, by its position.
template <typename GroupOf>
std::vector<ValueEffect> EffectsBy(const Selection& trials, size_t groups, const GroupOf& group_of) {
  const StudyColumns& columns = trials.columns();
  std::vector<ValueEffect> effects(groups);
  for (const uint32_t at : trials.positions()) {
    ValueEffect& effect = effects[group_of(at)];
    ++(columns[at].is_ok() ? effect.measured : effect.failed);
  }
  // All times, group after group.
  std::vector<double> times(trials.measured().size());
  std::vector<size_t> ends;
  size_t start = 0;
  for (const ValueEffect& effect : effects) {
    ends.push_back(start);
    start += static_cast<size_t>(effect.measured);
  }
  for (const uint32_t at : trials.measured()) times[ends[group_of(at)]++] = columns[at].objective_ns;
  start = 0;
  for (size_t group = 0; group < groups; ++group) {
    SetTimes(std::span(times).subspan(start, ends[group] - start), &effects[group]);
    start = ends[group];
  }
  return effects;
}

}  // namespace

std::vector<ParameterEffect> EffectsOf(const Selection& trials) {
  const StudyColumns& columns = trials.columns();
  std::vector<ParameterEffect> effects;
  for (size_t p = 0; p < columns.parameter_count(); ++p) {
    ParameterEffect effect;
    effect.values = EffectsBy(trials, columns.values(p).size(), [&](uint32_t at) { return columns.ValueIndex(at, p); });
    for (size_t v = 0; v < effect.values.size(); ++v) {
      if (effect.values[v].measured == 0) continue;
      if (!effect.best_value.has_value() || effect.values[v].good_ns < effect.values[*effect.best_value].good_ns)
        effect.best_value = v;
    }
    effects.push_back(std::move(effect));
  }
  return effects;
}

std::vector<GridCell> GridOf(const Selection& trials, size_t column_parameter, size_t row_parameter) {
  const StudyColumns& columns = trials.columns();
  const size_t width = columns.values(column_parameter).size();
  const auto cell_of = [&](uint32_t at) {
    return columns.ValueIndex(at, row_parameter) * width + columns.ValueIndex(at, column_parameter);
  };
  const std::vector<ValueEffect> effects = EffectsBy(trials, width * columns.values(row_parameter).size(), cell_of);
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> examples(effects.size(), kNone);
  for (const uint32_t at : trials.positions()) {
    uint32_t& example = examples[cell_of(at)];
    if (example == kNone) {
      example = at;
    } else if (columns[at].is_ok() &&
               !(columns[example].is_ok() && columns[example].objective_ns <= columns[at].objective_ns)) {
      example = at;
    }
  }
  std::vector<GridCell> cells;
  for (size_t cell = 0; cell < effects.size(); ++cell) {
    if (examples[cell] == kNone) continue;
    cells.push_back({static_cast<uint16_t>(cell % width), static_cast<uint16_t>(cell / width), effects[cell],
                     columns[examples[cell]].ordinal});
  }
  return cells;
}

TopShare TopShareOf(const Selection& trials) {
  const StudyColumns& columns = trials.columns();
  TopShare share;
  share.shared.resize(columns.parameter_count());
  std::vector<uint32_t> order = trials.measured();
  const size_t count = std::max(kTopMin, (order.size() + 99) / 100);
  if (4 * count > order.size()) return share;
  share.count = count;
  std::nth_element(order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(),
                   [&](uint32_t a, uint32_t b) {
                     const double first = columns[a].objective_ns, second = columns[b].objective_ns;
                     return first != second ? first < second : a < b;
                   });
  for (size_t p = 0; p < columns.parameter_count(); ++p) {
    if (columns.values(p).size() < 2) continue;
    const uint16_t value = columns.ValueIndex(order[0], p);
    const bool all = std::all_of(order.begin(), order.begin() + static_cast<ptrdiff_t>(count),
                                 [&](uint32_t at) { return columns.ValueIndex(at, p) == value; });
    if (all) share.shared[p] = value;
  }
  return share;
}

}  // namespace tunefarm
