// Which of a study's evaluations are looked at. Pure.
#pragma once

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
};

// Seconds from the start of a study to an end; not below 0.
double SecondsFrom(int64_t start_ms, int64_t ended_ms);

// Positions of evaluations, in the order of their ends. The columns outlive it and do not change meanwhile.
class Selection {
 public:
  explicit Selection(const StudyColumns& columns) : Selection(columns, {}) {}  // all
  Selection(const StudyColumns& columns, const TrialConditions& conditions);

  const StudyColumns& columns() const { return *columns_; }
  size_t size() const { return positions_.size(); }
  const std::vector<uint32_t>& positions() const { return positions_; }
  // Those that are OK.
  const std::vector<uint32_t>& measured() const { return measured_; }
  // The fastest, the first of equals; absent when none is OK.
  std::optional<uint32_t> best() const { return best_; }

 private:
  const StudyColumns* columns_;
  std::vector<uint32_t> positions_, measured_;
  std::optional<uint32_t> best_;
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
