#include "server/analysis/outcome_reasons.h"

namespace tunefarm {
namespace {

constexpr size_t kPatternMax = 160;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool IsWord(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (static_cast<unsigned char>(c) & 0x80) != 0;
}

// Where the number that begins at `start` ends: 0x7f.., 12, 1.5e-3.
size_t EndOfNumber(std::string_view text, size_t start) {
  size_t end = start;
  if (text.substr(start, 2) == "0x") {
    end = start + 2;
    while (end < text.size() && IsHexDigit(text[end])) ++end;
    return end;
  }
  while (end < text.size() &&
         (IsDigit(text[end]) || (text[end] == '.' && end + 1 < text.size() && IsDigit(text[end + 1]))))
    ++end;
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    size_t exponent = end + 1;
    if (exponent < text.size() && (text[exponent] == '-' || text[exponent] == '+')) ++exponent;
    if (exponent < text.size() && IsDigit(text[exponent])) {
      end = exponent;
      while (end < text.size() && IsDigit(text[end])) ++end;
    }
  }
  return end;
}

}  // namespace

std::string ReasonPattern(std::string_view message) {
  const std::string_view line = message.substr(0, message.find('\n'));
  std::string pattern;
  size_t at = 0;
  while (at < line.size() && pattern.size() < kPatternMax) {
    // Digits within a word (float32, sm_90) belong to it.
    if (IsDigit(line[at]) && (at == 0 || !IsWord(line[at - 1]))) {
      pattern += '#';
      at = EndOfNumber(line, at);
      continue;
    }
    pattern += line[at++];
  }
  if (at < line.size()) {
    // Never in the middle of a character.
    while (!pattern.empty() && (static_cast<unsigned char>(pattern.back()) & 0xC0) == 0x80) pattern.pop_back();
    if (!pattern.empty() && (static_cast<unsigned char>(pattern.back()) & 0x80) != 0) pattern.pop_back();
    pattern += "...";
  }
  return pattern;
}

uint16_t OutcomeReasons::NumberOf(int outcome, std::string_view message) {
  auto key = std::make_pair(outcome, ReasonPattern(message));
  auto found = numbers_.find(key);
  if (found == numbers_.end()) {
    if (numbers_.size() >= kReasonsMax) key.second = "others";
    found = numbers_.try_emplace(key, static_cast<uint16_t>(reasons_.size())).first;
    if (found->second == reasons_.size()) reasons_.push_back({outcome, key.second});
  }
  return found->second;
}

}  // namespace tunefarm
