// T1: the JSON in which tuning tools exchange problems (TuningSchema 1.0.0). Its values, conditions and sizes are
// Python, and so is what reads it: the modules of server/interchange/t1, run by any python3 from 3.9 on with nothing
// but its standard library. Here is what that needs of this program: a request for the interpreter, and a checked
// definition made of its answer.
//
// Pure: text in, values out. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::interchange {

inline constexpr uint64_t kT1BytesMax = uint64_t{1} << 20;
inline constexpr uint64_t kT1AnswerBytesMax = uint64_t{32} << 20;  // sources of 8 MiB in base64, and the rest

// What kT1Program, run as `python3 -I -S -c`, reads from standard input comes from T1Request; what it writes to
// standard output is for KernelOfT1.
extern const std::string_view kT1Program;

struct T1Options {
  std::string folder;                              // with the sources; nothing outside of it is read
  std::string display_name;                        // empty: from the file
  std::optional<tunefarm::v1::Language> language;  // default: the file's
  std::string source;                              // instead of KernelFile
  // Kernel Tuner's silent rule block_size_x * block_size_y * block_size_z <= this, over the parameters of exactly these
  // names. 0: no such rule.
  int64_t thread_limit = 0;
  // A kernel to compare with, from a file of its own; empty: none. The grid and block are expressions of the
  // definition's language, needed for CUDA; no arguments: those of the kernel, in their order.
  std::string reference_file, reference_entry;
  std::vector<std::string> reference_grid, reference_block, reference_arguments;
  bool is_unverified = false;  // no reference at all
  std::optional<double> atol, rtol;
};

std::string T1Request(std::string_view t1, const T1Options& options);

struct ImportedKernel {
  tunefarm::v1::Kernel kernel;     // checked, with its sources
  std::string text;                // kernel.pbtxt
  std::vector<std::string> notes;  // what has no meaning here or was put right, in sentences for people
  std::string budget_options;      // the file's budget in the words of `tunefarm tune`: "--max-trials 10"
  std::string space_text;          // "20 valid configs of 24"
};

// The kernel of the interpreter's answer about the T1 file `file`. What is wrong with that file is InvalidArgument
// "FILE:12:7: /JSON/POINTER: message"; NotFound for a file that the options name.
//   - A condition that the expression language reads is kept letter by letter; others are as the answer translates
//     them.
//   - Where the defaults break a condition, the valid config that differs from them in the fewest values is the
//     default.
//   - Conditions that cannot be evaluated somewhere, or that no config satisfies, are refused where the space is small
//     enough to be counted.
absl::StatusOr<ImportedKernel> KernelOfT1(std::string answer, const std::string& file, const T1Options& options);

}  // namespace tunefarm::interchange
