#include "server/analysis/selection.h"

#include <algorithm>
#include <span>

namespace tunefarm {

double SecondsFrom(int64_t start_ms, int64_t ended_ms) {
  return static_cast<double>(std::max<int64_t>(0, ended_ms - start_ms)) / 1e3;
}

namespace {

// Which evaluations satisfy all conditions that were required of them.
class Passes {
 public:
  explicit Passes(size_t evaluations) : passes_(evaluations, 1) {}

  // Of `passes_at`, by position.
  template <typename PassesAt>
  void Require(const PassesAt& passes_at) {
    for (size_t at = 0; at < passes_.size(); ++at) passes_[at] = static_cast<uint8_t>(passes_[at] & passes_at(at));
  }

  std::vector<uint32_t> Positions() const {
    // Each position is written and kept only if it passes: whether it does is often as good as random, and a branch
    // that cannot be predicted takes longer.
    std::vector<uint32_t> positions(passes_.size() + 1);
    size_t count = 0;
    for (size_t at = 0; at < passes_.size(); ++at) {
      positions[count] = static_cast<uint32_t>(at);
      count += passes_[at];
    }
    positions.resize(count);
    return positions;
  }

 private:
  std::vector<uint8_t> passes_;  // by position, 1 or 0
};

std::vector<uint32_t> PositionsOf(const StudyColumns& columns, const TrialConditions& conditions) {
  // A condition at a time, so that each reads the one column that it is about.
  Passes passes(columns.size());
  if (conditions.outcomes.has_value()) {
    std::vector<uint8_t> wanted(conditions.outcomes->begin(), conditions.outcomes->end());
    wanted.resize(std::max<size_t>(wanted.size(), UINT8_MAX + 1));
    passes.Require([&, outcomes = columns.outcomes()](size_t at) { return wanted[outcomes[at]]; });
  }
  for (const auto& [parameter, values] : conditions.values) {
    const std::vector<uint8_t> wanted(values.begin(), values.end());
    passes.Require([&, indices = columns.value_indices(parameter)](size_t at) { return wanted[indices[at]]; });
  }
  if (const auto& range = conditions.objective_ns; range.has_value()) {
    passes.Require([&, objectives = columns.objectives_ns()](size_t at) {
      return static_cast<int>(objectives[at] > 0) & static_cast<int>(range->Has(objectives[at]));
    });
  }
  if (const auto& range = conditions.evaluation; range.has_value())
    passes.Require([&](size_t at) { return range->Has(static_cast<double>(at) + 1); });
  if (const auto& range = conditions.seconds; range.has_value())
    passes.Require([&](size_t at) { return range->Has(SecondsFrom(conditions.start_ms, columns[at].ended_ms)); });
  return passes.Positions();
}

}  // namespace

Selection::Selection(const StudyColumns& columns, const TrialConditions& conditions)
    : columns_(&columns), is_all_(conditions.AreNone()) {
  if (is_all_) {
    measured_ = columns.measured();
    return;
  }
  positions_ = PositionsOf(columns, conditions);
  const std::span<const double> objectives = columns.objectives_ns();
  for (const uint32_t at : positions_) measured_.Add(at, objectives[at]);
}

std::vector<uint32_t> Selection::Measured() const {
  std::vector<uint32_t> positions;
  positions.reserve(measured_.count);
  ForEach([&, objectives = columns_->objectives_ns()](uint32_t at) {
    if (objectives[at] > 0) positions.push_back(at);
  });
  return positions;
}

std::vector<ReasonCount> CountReasons(const Selection& trials) {
  const StudyColumns& columns = trials.columns();
  std::vector<ReasonCount> counts;
  for (const OutcomeReasons::Reason& reason : columns.reasons()) counts.push_back({reason.outcome, reason.text, 0, 0});
  trials.ForEach([&](uint32_t at) {
    const Evaluation one = columns[at];
    if (one.is_ok()) return;
    ReasonCount& count = counts[one.reason];
    if (count.count == 0 || one.ordinal < count.example_ordinal) count.example_ordinal = one.ordinal;
    ++count.count;
  });
  std::erase_if(counts, [](const ReasonCount& count) { return count.count == 0; });
  std::sort(counts.begin(), counts.end(), [](const ReasonCount& a, const ReasonCount& b) {
    return a.count != b.count ? a.count > b.count : a.example_ordinal < b.example_ordinal;
  });
  return counts;
}

}  // namespace tunefarm
