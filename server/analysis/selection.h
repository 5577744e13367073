// Which of a study's evaluations are looked at. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "server/analysis/study_columns.h"

namespace tunefarm {

// Both ends included.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool Has(double number) const { return number >= min && number <= max; }
};

// An evaluation passes that satisfies each of them.
struct TrialConditions {
  // Any of these outcomes (StudyColumns' numbers); absent: all.
  std::optional<std::vector<bool>> outcomes;
  // By parameter: whether each of its values passes.
  std::vector<std::pair<size_t, std::vector<bool>>> values;
  std::optional<Range> objective_ns;  // only what was measured passes
  std::optional<Range> evaluation;    // its position in the order of the ends, from 1
  std::optional<Range> seconds;       // its end, since start_ms
  int64_t start_ms = 0;

  bool AreNone() const {
    return !outcomes.has_value() && values.empty() && !objective_ns.has_value() && !evaluation.has_value() &&
           !seconds.has_value();
  }
};

// Seconds from the start of a study to an end; not below 0.
double SecondsFrom(int64_t start_ms, int64_t ended_ms);

// Evaluations, told by their positions, in the order of their ends. The columns outlive it and do not change meanwhile.
// With conditions it takes 4 bytes for each that passes, and to construct it a time in proportion to the study;
// without, neither. Functions that visit or copy take a time in proportion to what they visit or copy, all others a
// constant one.
class Selection {
 public:
  explicit Selection(const StudyColumns& columns) : Selection(columns, {}) {}  // all
  Selection(const StudyColumns& columns, const TrialConditions& conditions);

  const StudyColumns& columns() const { return *columns_; }
  size_t size() const { return is_all_ ? columns_->size() : positions_.size(); }
  // How many of them are OK.
  size_t measured_count() const { return measured_.count; }
  // The fastest, the first of equals; absent when none is OK.
  std::optional<uint32_t> best() const { return measured_.best; }
  // Nanoseconds; 0 when none is OK.
  double fastest_ns() const { return measured_.fastest_ns; }
  double slowest_ns() const { return measured_.slowest_ns; }

  // Calls visit(position) for each of them, in their order.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    ForEachIn(0, static_cast<uint32_t>(columns_->size()), visit);
  }
  // For each from position `first` to before `end`.
  template <typename Visit>
  void ForEachIn(uint32_t first, uint32_t end, const Visit& visit) const {
    if (is_all_) {
      for (uint32_t at = first; at < end; ++at) visit(at);
      return;
    }
    auto next = std::lower_bound(positions_.begin(), positions_.end(), first);
    for (; next != positions_.end() && *next < end; ++next) visit(*next);
  }

  std::vector<uint32_t> Measured() const;  // those that are OK; 4 bytes each

 private:
  const StudyColumns* columns_;
  bool is_all_ = false;
  std::vector<uint32_t> positions_;  // empty where is_all_
  MeasuredSummary measured_;
};

struct ReasonCount {
  int outcome = 0;
  std::string reason;
  int64_t count = 0;
  int64_t example_ordinal = 0;  // the smallest of them
};

// Of those that failed: the most frequent reason first, then in the order of the examples.
std::vector<ReasonCount> CountReasons(const Selection& trials);

}  // namespace tunefarm
