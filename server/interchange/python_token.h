// The words of Python's expressions. Private to this folder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/interchange/python_text.h"

namespace tunefarm::interchange {

inline constexpr int kPythonTokensMax = 100'000;

struct PythonToken {
  enum class Kind { kEnd, kName, kNumber, kString, kOperator } kind = Kind::kEnd;
  std::string text;  // of a string: its value
  PythonValue number;
  int column = 1;  // bytes from 1
};

// The last one is kEnd. Errors as PythonError makes them.
absl::StatusOr<std::vector<PythonToken>> PythonTokens(std::string_view text);

}  // namespace tunefarm::interchange
