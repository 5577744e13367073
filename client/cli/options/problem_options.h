// --dim and --pin: the problems of a command line. --dim NAME=V1,V2 and several --dim options make the grid of all
// combinations, the last --dim varying fastest. A value may be a range of integers: 1..4 is 1,2,3,4; 1..8192*2 is
// 1,2,4,...,8192; 64..256+64 is 64,128,192,256. The last number belongs to it where the steps meet it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tunefarm/v1/problem.pb.h"

namespace tunefarm::cli {

inline constexpr size_t kProblemsMax = 256;      // of a job
inline constexpr size_t kDimValuesMax = 10'000;  // of one dim

struct ProblemOptions {
  std::vector<std::string> dims;  // "M=4096" or "M=1024,2048"
  std::vector<std::string> pins;  // "BLOCK_M=128"; the value may be empty
  std::vector<uint64_t> seeds;

  void AddTo(CLI::App* command, bool many);
  // " --dim N=64 --pin MODE=1": as words of a shell's command line, with a blank before each option; empty for none.
  std::string ToText() const;
};

// A NAME=VALUE option that may be repeated and takes one value each time.
CLI::Option* AddListOption(CLI::App* command, const std::string& flag, std::vector<std::string>* values,
                           const std::string& help);

// Name and values of one --dim, ranges written out. InvalidArgument for text without '=', an empty value, and a range
// that never ends or has more than kDimValuesMax values.
struct DimValues {
  std::string name;
  std::vector<std::string> values;
};
absl::StatusOr<DimValues> ParseDim(const std::string& text);

// As ParseDim, and InvalidArgument for a repeated name or more than `problems_max` problems.
absl::StatusOr<std::vector<v1::Problem>> MakeProblems(const ProblemOptions& options,
                                                      size_t problems_max = kProblemsMax);
// As above, but exactly one.
absl::StatusOr<v1::Problem> MakeProblem(const ProblemOptions& options);

// true/false, integers, floats, else text. What would not be printed as it is written ("007", "1e3"), and what is no
// number ("nan", "inf"), stays text: the daemon reads each value by the declared type of its dim or parameter.
v1::Value InferValue(std::string_view text);
std::string ValueText(const v1::Value& value);
// The text as one word of a shell's command line: in quotes where it needs them.
std::string ShellWord(const std::string& text);
// "A=1 B=true", sorted by name; values as words of a shell, fit for a line of a terminal.
std::string ConfigText(const v1::Config& config);

}  // namespace tunefarm::cli
