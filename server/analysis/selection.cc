#include "server/analysis/selection.h"

#include <algorithm>
#include <array>
#include <span>

namespace tunefarm {

double SecondsFrom(int64_t start_ms, int64_t ended_ms) {
  return static_cast<double>(std::max<int64_t>(0, ended_ms - start_ms)) / 1e3;
}

namespace {

// Evaluations are judged so many at a time: what is written about them stays in the processor's first cache, and no
// memory is taken that is large enough to come from the operating system page by page.
constexpr size_t kBlock = 4096;

// Which evaluations of a block satisfy all conditions that were required of them.
class Passes {
 public:
  Passes(size_t first, size_t end) : first_(first), end_(end) { std::fill_n(passes_.begin(), end - first, uint8_t{1}); }

  // Of `passes_at`, by position.
  template <typename PassesAt>
  void Require(const PassesAt& passes_at) {
    for (size_t at = first_; at < end_; ++at) {
      uint8_t& passes = passes_[at - first_];
      passes = static_cast<uint8_t>(passes & passes_at(at));
    }
  }

  void AppendTo(std::vector<uint32_t>* positions) const {
    // Each position is written and kept only if it passes: whether it does is often as good as random, and a branch
    // that cannot be predicted takes longer.
    std::array<uint32_t, kBlock> kept;
    size_t count = 0;
    for (size_t at = first_; at < end_; ++at) {
      kept[count] = static_cast<uint32_t>(at);
      count += passes_[at - first_];
    }
    positions->insert(positions->end(), kept.begin(), kept.begin() + static_cast<ptrdiff_t>(count));
  }

 private:
  const size_t first_, end_;
  std::array<uint8_t, kBlock> passes_;  // from first_ on, 1 or 0
};

std::vector<uint32_t> PositionsOf(const StudyColumns& columns, const TrialConditions& conditions) {
  std::vector<uint8_t> outcomes;
  if (conditions.outcomes.has_value()) {
    outcomes.assign(conditions.outcomes->begin(), conditions.outcomes->end());
    outcomes.resize(std::max<size_t>(outcomes.size(), UINT8_MAX + 1));
  }
  std::vector<std::vector<uint8_t>> values;
  for (const auto& [parameter, wanted] : conditions.values) values.emplace_back(wanted.begin(), wanted.end());
  std::vector<uint32_t> positions;
  for (size_t first = 0; first < columns.size(); first += kBlock) {
    // A condition at a time, so that each reads the one column that it is about.
    Passes passes(first, std::min(columns.size(), first + kBlock));
    if (!outcomes.empty()) passes.Require([&, of = columns.outcomes()](size_t at) { return outcomes[of[at]]; });
    for (size_t i = 0; i < values.size(); ++i) {
      passes.Require([&, wanted = values[i].data(), indices = columns.value_indices(conditions.values[i].first)](
                         size_t at) { return wanted[indices[at]]; });
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
    passes.AppendTo(&positions);
  }
  return positions;
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
