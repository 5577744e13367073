#include "server/analysis/value_effects.h"

#include <algorithm>
#include <span>

#include "server/analysis/middle_times.h"

namespace tunefarm {
namespace {

struct Group {
  ValueEffect effect;
  uint32_t example = 0;  // position of the fastest, the first of equals; of the first to end where none was measured
};

// One for each of `groups`; `group_of` tells an evaluation's, by its position. Two passes over the trials.
template <typename GroupOf>
std::vector<Group> GroupsBy(const Selection& trials, size_t groups, const GroupOf& group_of) {
  const std::span<const double> objectives = trials.columns().objectives_ns();
  std::vector<Group> found(groups);
  MiddleTimes middles(groups, trials.fastest_ns(), trials.slowest_ns());
  trials.ForEach([&](uint32_t at) {
    const size_t number = group_of(at);
    Group& group = found[number];
    ValueEffect& effect = group.effect;
    const double ns = objectives[at];
    if (ns > 0) {
      middles.Count(number, ns);
      if (effect.measured++ > 0 && ns >= effect.best_ns) return;
      effect.best_ns = ns;
      group.example = at;
    } else if (effect.failed++ == 0 && effect.measured == 0) {
      group.example = at;
    }
  });
  middles.Choose([](size_t measured) { return (measured + 9) / 10; });
  trials.ForEach([&](uint32_t at) {
    if (objectives[at] > 0) middles.Collect(group_of(at), objectives[at]);
  });
  for (size_t g = 0; g < groups; ++g) {
    const MiddleTimes::Middle good = middles.Of(g);
    found[g].effect.good_ns = good.lower_ns + 0.5 * (good.upper_ns - good.lower_ns);
  }
  return found;
}

}  // namespace

std::vector<ParameterEffect> EffectsOf(const Selection& trials) {
  const StudyColumns& columns = trials.columns();
  std::vector<ParameterEffect> effects;
  for (size_t p = 0; p < columns.parameter_count(); ++p) {
    ParameterEffect effect;
    const std::span<const uint16_t> indices = columns.value_indices(p);
    for (const Group& group : GroupsBy(trials, columns.values(p).size(), [&](uint32_t at) { return indices[at]; }))
      effect.values.push_back(group.effect);
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
  const std::span<const uint16_t> in_column = columns.value_indices(column_parameter);
  const std::span<const uint16_t> in_row = columns.value_indices(row_parameter);
  const std::vector<Group> groups = GroupsBy(trials, width * columns.values(row_parameter).size(),
                                             [&](uint32_t at) { return in_row[at] * width + in_column[at]; });
  std::vector<GridCell> cells;
  for (size_t cell = 0; cell < groups.size(); ++cell) {
    const auto& [effect, example] = groups[cell];
    if (effect.measured + effect.failed == 0) continue;
    cells.push_back(
        {static_cast<uint16_t>(cell % width), static_cast<uint16_t>(cell / width), effect, columns[example].ordinal});
  }
  return cells;
}

TopShare TopShareOf(const Selection& trials) {
  const StudyColumns& columns = trials.columns();
  TopShare share;
  share.shared.resize(columns.parameter_count());
  std::vector<uint32_t> order = trials.Measured();
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
