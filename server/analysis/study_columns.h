// What happened in a study, as the analyses read it: its evaluations in the order in which they ended, small enough for
// a million of them. Each property and each parameter is an array of its own, so that a pass over all evaluations reads
// only what it uses. One evaluation takes 23 bytes, and 2 for each parameter.
//
// Threads: not thread-safe while evaluations are added; const use from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/analysis/outcome_reasons.h"
#include "server/expression/config.h"

namespace tunefarm {

struct Evaluation {
  int64_t ended_ms = 0;
  double objective_ns = 0;  // 0: failed
  uint32_t ordinal = 0;
  uint16_t reason = 0;  // of StudyColumns::reasons(), where it failed
  uint8_t outcome = 0;  // the caller's number for how it ended
  bool is_ok() const { return objective_ns > 0; }
};

// A trial that ended, to be added; LOST ones say nothing and are not added.
struct EndedTrial {
  int64_t ordinal = 0;
  int64_t ended_ms = 0;
  int outcome = 0;                // the caller's number, 0 to 255
  std::string_view config = {};   // its canonical text
  double objective_ns = 0;        // 0: the config failed
  std::string_view message = {};  // why; of no account where it did not fail
};

// What is said of evaluations that are OK; they are added in the order of their positions.
struct MeasuredSummary {
  size_t count = 0;
  std::optional<uint32_t> best;  // the position of the fastest, the first of equals; absent when there are none
  double fastest_ns = 0, slowest_ns = 0;  // 0 when there are none

  // `ns`: 0 where it failed, and nothing is added.
  void Add(uint32_t at, double ns) {
    if (ns <= 0) return;
    ++count;
    if (ns > slowest_ns) slowest_ns = ns;
    if (best.has_value() && ns >= fastest_ns) return;
    fastest_ns = ns;
    best = at;
  }
};

class StudyColumns {
 public:
  // `types` of the parameters; of a parameter that it lacks the type is inferred from each value's text.
  explicit StudyColumns(ValueTypeMap types = {}) : types_(std::move(types)) {}

  // InvalidArgument, and the trial is left out, for a config that cannot be read or whose names are not those of the
  // first, beyond 65,536 values of one parameter, and for ordinals beyond 2^32 - 1.
  absl::Status Add(const EndedTrial& trial);
  // After the last Add, before anything is read: orders evaluations by their end, then by ordinal, and values by size.
  // More may be added afterwards; positions and indices of values then change with the next Settle.
  void Settle();

  size_t size() const { return ordinals_.size(); }
  // Put together from the arrays; what the caller does not use is not read.
  Evaluation operator[](size_t at) const {
    return {ended_ms_[at], objectives_ns_[at], ordinals_[at], reason_of_[at], outcomes_[at]};
  }
  // Of all evaluations; kept, so that it takes no pass over them.
  const MeasuredSummary& measured() const { return measured_; }
  const std::vector<OutcomeReasons::Reason>& reasons() const { return reasons_.reasons(); }

  // By position: what a pass over all evaluations reads. 0 where an evaluation failed.
  std::span<const double> objectives_ns() const { return objectives_ns_; }
  std::span<const uint8_t> outcomes() const { return outcomes_; }
  std::span<const uint16_t> value_indices(size_t parameter) const { return parameters_[parameter].indices; }

  // Parameters in the order of their names, with the values that occur, ascending (strings by letters).
  size_t parameter_count() const { return parameters_.size(); }
  const std::string& parameter_name(size_t parameter) const { return parameters_[parameter].name; }
  const std::vector<Value>& values(size_t parameter) const { return parameters_[parameter].values; }
  std::optional<size_t> FindParameter(std::string_view name) const;
  // The index of the value of this text (Value::ToText), absent where no trial has it.
  std::optional<uint16_t> FindValue(size_t parameter, std::string_view text) const;
  // Which value an evaluation has: an index into values(parameter).
  uint16_t ValueIndex(size_t at, size_t parameter) const { return parameters_[parameter].indices[at]; }
  Config ConfigOf(size_t at) const;

  // Memory in use, approximately.
  size_t bytes() const;

 private:
  struct ParameterSeen {
    std::string name;
    std::vector<Value> values;
    // By "NAME=VALUE" as configs have it.
    std::map<std::string, uint16_t, std::less<>> index_of;
    size_t ordered = 0;             // values that were there at the last Settle
    std::vector<uint16_t> indices;  // into values, by position
  };

  absl::Status AddParameters(std::string_view config);
  absl::Status AddValue(ParameterSeen* seen, std::string_view assignment, int64_t ordinal);
  void OrderValues(size_t parameter);
  bool EndsBefore(size_t a, size_t b) const;
  void OrderEvaluations();
  // After evaluations were added, of which none stands before position `first` now.
  void Summarize(size_t first);

  ValueTypeMap types_;
  std::vector<ParameterSeen> parameters_;
  // What Evaluation has, by position.
  std::vector<int64_t> ended_ms_;
  std::vector<double> objectives_ns_;
  std::vector<uint32_t> ordinals_;
  std::vector<uint16_t> reason_of_;
  std::vector<uint8_t> outcomes_;
  OutcomeReasons reasons_;
  MeasuredSummary measured_;
  size_t measured_added_ = 0;  // evaluations that are OK, since the last Settle too
  size_t ordered_ = 0;         // evaluations that were there at the last Settle
};

}  // namespace tunefarm
