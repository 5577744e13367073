// What happened in a study, as the analyses read it: its evaluations in the order in which they ended, by columns,
// small enough for a million of them. One takes 24 bytes, and 2 for each parameter.
//
// Threads: not thread-safe while evaluations are added; const use from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
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

  size_t size() const { return evaluations_.size(); }
  const Evaluation& operator[](size_t at) const { return evaluations_[at]; }
  const std::vector<OutcomeReasons::Reason>& reasons() const { return reasons_.reasons(); }

  // Parameters in the order of their names, with the values that occur, ascending (strings by letters).
  size_t parameter_count() const { return parameters_.size(); }
  const std::string& parameter_name(size_t parameter) const { return parameters_[parameter].name; }
  const std::vector<Value>& values(size_t parameter) const { return parameters_[parameter].values; }
  std::optional<size_t> FindParameter(std::string_view name) const;
  // The index of the value of this text (Value::ToText), absent where no trial has it.
  std::optional<uint16_t> FindValue(size_t parameter, std::string_view text) const;
  // Which value an evaluation has: an index into values(parameter).
  uint16_t ValueIndex(size_t at, size_t parameter) const { return indices_[at * parameters_.size() + parameter]; }
  Config ConfigOf(size_t at) const;

  // Memory in use, approximately.
  size_t bytes() const;

 private:
  struct ParameterSeen {
    std::string name;
    std::vector<Value> values;
    // By "NAME=VALUE" as configs have it.
    std::map<std::string, uint16_t, std::less<>> index_of;
    size_t ordered = 0;  // values that were there at the last Settle
  };

  absl::Status AddParameters(std::string_view config);
  absl::Status AddValue(ParameterSeen* seen, std::string_view assignment, int64_t ordinal);
  void OrderValues(size_t parameter);
  void OrderEvaluations();

  ValueTypeMap types_;
  std::vector<ParameterSeen> parameters_;
  std::vector<Evaluation> evaluations_;
  std::vector<uint16_t> indices_;  // parameter_count() for each evaluation
  OutcomeReasons reasons_;
  size_t ordered_ = 0;  // evaluations that were there at the last Settle
};

}  // namespace tunefarm
