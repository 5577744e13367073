#include "server/analysis/value_effects.h"

#include <algorithm>

#include "server/measure/statistics.h"

namespace tunefarm {

std::vector<ParameterEffect> EffectsOf(const StudyHistory& history) {
  std::vector<ParameterEffect> effects;
  for (size_t p = 0; p < history.parameter_count(); ++p) {
    ParameterEffect effect;
    effect.values.resize(history.values(p).size());
    std::vector<std::vector<double>> times(effect.values.size());
    for (size_t at = 0; at < history.size(); ++at) {
      const uint16_t value = history.ValueIndex(at, p);
      if (history[at].is_ok()) {
        times[value].push_back(history[at].objective_ns);
      } else {
        ++effect.values[value].failed;
      }
    }
    for (size_t v = 0; v < times.size(); ++v) {
      std::vector<double>& of_value = times[v];
      ValueEffect& result = effect.values[v];
      result.measured = static_cast<int64_t>(of_value.size());
      if (of_value.empty()) continue;
      std::sort(of_value.begin(), of_value.end());
      result.best_ns = of_value.front();
      of_value.resize((of_value.size() + 9) / 10);
      result.good_ns = Median(of_value);
      if (!effect.best_value.has_value() || result.good_ns < effect.values[*effect.best_value].good_ns)
        effect.best_value = v;
    }
    effects.push_back(std::move(effect));
  }
  return effects;
}

TopShare TopShareOf(const StudyHistory& history) {
  TopShare share;
  share.shared.resize(history.parameter_count());
  std::vector<uint32_t> order = history.measured();
  const size_t count = std::max(kTopMin, (order.size() + 99) / 100);
  if (4 * count > order.size()) return share;
  share.count = count;
  std::nth_element(order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(),
                   [&](uint32_t a, uint32_t b) {
                     const double first = history[a].objective_ns, second = history[b].objective_ns;
                     return first != second ? first < second : a < b;
                   });
  for (size_t p = 0; p < history.parameter_count(); ++p) {
    if (history.values(p).size() < 2) continue;
    const uint16_t value = history.ValueIndex(order[0], p);
    const bool all = std::all_of(order.begin(), order.begin() + static_cast<ptrdiff_t>(count),
                                 [&](uint32_t at) { return history.ValueIndex(at, p) == value; });
    if (all) share.shared[p] = value;
  }
  return share;
}

}  // namespace tunefarm
