// What a snapshot says, as plain values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tunefarm::snapshot {

using Scalar = std::variant<std::monostate, int64_t, double, bool, std::string>;  // nothing: a dim without a default
using NamedScalars = std::vector<std::pair<std::string, Scalar>>;

// A best of the kernel's program.
struct Best {
  std::string class_id, class_name;
  std::string problem;  // canonical text
  std::string job, driver, toolkit;
  NamedScalars dims, config;
  bool pinned = false;
  double median_ns = 0, ci_low_ns = 0, ci_high_ns = 0, baseline_ns = 0;
  int64_t revision = 0, promoted_at_ms = 0;
};

// A kernel's newest definition, and its bests. Bests of older programs are not in a snapshot: whether they hold can
// only be judged with the definition.
struct Kernel {
  std::string name, kernel_id, program_digest;
  NamedScalars dims;
  std::vector<Best> bests;
  uint32_t inputs_only = 0;  // bit i: dims[i] only describes inputs, and no question has to match it
};

struct Contents {
  int64_t revision = 0, made_at_ms = 0;
  std::vector<Kernel> kernels;
};

}  // namespace tunefarm::snapshot
