// What happened in a study, as the analyses read it: its evaluations in the order in which they ended, small enough for
// a million of them.
//
// Threads: not thread-safe while evaluations are added; const use from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/expression/config.h"

namespace tunefarm {

struct Evaluation {
  int64_t ordinal = 0;
  int64_t ended_ms = 0;
  int outcome = 0;          // the caller's number for how it ended
  double objective_ns = 0;  // 0: failed
  bool is_ok() const { return objective_ns > 0; }
};

class StudyHistory {
 public:
  // One trial that ended; LOST ones say nothing and are not added. No objective: the config failed. InvalidArgument for
  // a config whose names are not those of the first, and beyond 65,536 values of one parameter.
  absl::Status Add(int64_t ordinal, int64_t ended_ms, int outcome, const Config& config,
                   std::optional<double> objective_ns);
  // After the last Add, before anything is read: orders evaluations by their end and values by size.
  void Settle();

  size_t size() const { return evaluations_.size(); }
  const Evaluation& operator[](size_t at) const { return evaluations_[at]; }
  // The evaluations that are OK, as positions in the order of their ends.
  const std::vector<uint32_t>& measured() const { return measured_; }
  // The position of the fastest, the first of equals; absent when none is OK.
  std::optional<uint32_t> best() const { return best_; }

  // Parameters in the order of their names, with the values that occur, ascending (strings by letters).
  size_t parameter_count() const { return parameters_.size(); }
  const std::string& parameter_name(size_t parameter) const { return parameters_[parameter].name; }
  const std::vector<Value>& values(size_t parameter) const { return parameters_[parameter].values; }
  // Which value an evaluation has: an index into values(parameter).
  uint16_t ValueIndex(size_t at, size_t parameter) const { return indices_[at * parameters_.size() + parameter]; }
  Config ConfigOf(size_t at) const;

 private:
  struct ParameterSeen {
    std::string name;
    std::vector<Value> values;
    std::map<std::string, uint16_t, std::less<>> index_of;  // by text; only while evaluations are added
  };

  std::vector<ParameterSeen> parameters_;
  std::vector<Evaluation> evaluations_;
  std::vector<uint16_t> indices_;  // parameter_count() for each evaluation
  std::vector<uint32_t> measured_;
  std::optional<uint32_t> best_;
};

}  // namespace tunefarm
