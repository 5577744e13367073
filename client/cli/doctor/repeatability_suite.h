// The problems that doctor --repeatability measures where none is named: from about 5 us to 10 ms, some bound by
// arithmetic and some by memory, since a clock, a power limit or another process does not disturb all of them alike.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace tunefarm::cli {

struct SuiteProblem {
  const char* kernel;             // a built-in one
  std::vector<std::string> dims;  // NAME=VALUE
  const char* bound;              // "compute" or "memory"
};

// For GPUs (times are those of an H200) or for CPUs.
std::span<const SuiteProblem> RepeatabilitySuite(bool on_gpu);

// "matmul dtype=bf16 M=512 N=512 K=512"
std::string LabelOf(const SuiteProblem& problem);

}  // namespace tunefarm::cli
