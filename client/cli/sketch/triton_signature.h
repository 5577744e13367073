// What the text of a Python source shows of its functions with @triton.jit, for a first definition. A best effort, not
// an interpreter: comments and strings are skipped, nothing is imported. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tunefarm::cli {

struct TritonParameter {
  std::string name;
  bool is_constexpr = false;
  std::string default_text;  // "128", "None", "\"relu\" (without the closing quote); empty: it has none
  bool is_pointer = false;   // by its name, or because memory is read or written through it
  bool is_read = false;
  bool is_written = false;
};

struct TritonFunction {
  std::string name;
  std::vector<TritonParameter> parameters;
  int grid_axes = 1;  // 1 to 3: those whose tl.program_id is asked for
};

// The functions that no other one calls, in their order.
std::vector<TritonFunction> ReadTritonKernels(std::string_view source);

}  // namespace tunefarm::cli
