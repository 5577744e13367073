#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tunefarm {

// Keeps the first and the last part of what a process writes, and how much went missing between them. A plain value.
class CapturedOutput {
 public:
  // At most `bytes_max` bytes are kept, half of them from the start.
  explicit CapturedOutput(size_t bytes_max) : half_(bytes_max / 2) {}

  void Append(std::string_view bytes);
  void Clear();
  // With a line that tells how many bytes were cut, if any were. Bytes as they came; not necessarily UTF-8.
  std::string Text() const;

 private:
  size_t half_;
  std::string head_;
  std::string tail_;  // up to twice half_, trimmed now and then
  size_t dropped_ = 0;
};

// The text with every byte that is not part of valid UTF-8, and every control character but newline and tab, replaced
// by '?': what a worker printed goes into protobuf strings and onto terminals.
std::string PrintableText(std::string_view text);

}  // namespace tunefarm
