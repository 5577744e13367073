#include "server/exec/captured_output.h"

#include <fmt/core.h>

#include <algorithm>

namespace tunefarm {
namespace {

// Length of the valid UTF-8 sequence at the start of `text`, or 0.
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                        : lead >= 0xE0 && lead <= 0xEF ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if (lead == 0xE0 && byte(1) < 0xA0) return 0;  // overlong
  if (lead == 0xED && byte(1) > 0x9F) return 0;  // surrogates
  if (lead == 0xF0 && byte(1) < 0x90) return 0;  // overlong
  if (lead == 0xF4 && byte(1) > 0x8F) return 0;  // beyond U+10FFFF
  return length;
}

}  // namespace

void CapturedOutput::Append(std::string_view bytes) {
  const size_t to_head = std::min(bytes.size(), half_ - head_.size());
  head_.append(bytes.substr(0, to_head));
  tail_.append(bytes.substr(to_head));
  if (tail_.size() > 2 * half_) {
    dropped_ += tail_.size() - half_;
    tail_.erase(0, tail_.size() - half_);
  }
}

void CapturedOutput::Clear() {
  head_.clear();
  tail_.clear();
  dropped_ = 0;
}

std::string CapturedOutput::Text() const {
  const size_t cut = tail_.size() > half_ ? tail_.size() - half_ : 0;
  if (dropped_ + cut == 0) return head_ + tail_;
  return fmt::format("{}\n[... {} bytes cut ...]\n{}", head_, dropped_ + cut, tail_.substr(cut));
}

std::string PrintableText(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const auto first = static_cast<unsigned char>(text[0]);
    const bool control = first == 0x7F || (first < 0x20 && first != '\n' && first != '\t');
    if (length == 0 || control) {
      clean += '?';
      text.remove_prefix(1);
    } else {
      clean.append(text.substr(0, length));
      text.remove_prefix(length);
    }
  }
  return clean;
}

}  // namespace tunefarm
