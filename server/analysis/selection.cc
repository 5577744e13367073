#include "server/analysis/selection.h"

#include <algorithm>

namespace tunefarm {

double SecondsFrom(int64_t start_ms, int64_t ended_ms) {
  return static_cast<double>(std::max<int64_t>(0, ended_ms - start_ms)) / 1e3;
}

Selection::Selection(const StudyColumns& columns, const TrialConditions& conditions) : columns_(&columns) {
  const auto passes = [&](uint32_t at) {
    const Evaluation& one = columns[at];
    if (conditions.outcomes.has_value()) {
      if (one.outcome >= conditions.outcomes->size() || !(*conditions.outcomes)[one.outcome]) return false;
    }
    if (conditions.objective_ns.has_value() && !(one.is_ok() && conditions.objective_ns->Has(one.objective_ns)))
      return false;
    if (conditions.evaluation.has_value() && !conditions.evaluation->Has(at + 1.0)) return false;
    if (conditions.seconds.has_value() && !conditions.seconds->Has(SecondsFrom(conditions.start_ms, one.ended_ms)))
      return false;
    for (const auto& [parameter, wanted] : conditions.values) {
      if (!wanted[columns.ValueIndex(at, parameter)]) return false;
    }
    return true;
  };
  double best_ns = std::numeric_limits<double>::infinity();
  for (uint32_t at = 0; at < columns.size(); ++at) {
    if (!passes(at)) continue;
    positions_.push_back(at);
    const Evaluation& one = columns[at];
    if (!one.is_ok()) continue;
    measured_.push_back(at);
    if (one.objective_ns >= best_ns) continue;
    best_ns = one.objective_ns;
    best_ = at;
  }
}

std::vector<ReasonCount> CountReasons(const Selection& trials) {
  const StudyColumns& columns = trials.columns();
  std::vector<ReasonCount> counts;
  for (const OutcomeReasons::Reason& reason : columns.reasons()) counts.push_back({reason.outcome, reason.text, 0, 0});
  for (const uint32_t at : trials.positions()) {
    const Evaluation& one = columns[at];
    if (one.is_ok()) continue;
    ReasonCount& count = counts[one.reason];
    if (count.count == 0 || one.ordinal < count.example_ordinal) count.example_ordinal = one.ordinal;
    ++count.count;
  }
  std::erase_if(counts, [](const ReasonCount& count) { return count.count == 0; });
  std::sort(counts.begin(), counts.end(), [](const ReasonCount& a, const ReasonCount& b) {
    return a.count != b.count ? a.count > b.count : a.example_ordinal < b.example_ordinal;
  });
  return counts;
}

}  // namespace tunefarm
