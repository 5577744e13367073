#include "server/base/log_escape.h"

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>

namespace tunefarm::internal {
namespace {

// One character at the front of `bytes`: its code point and length; length 0 when the front is no valid UTF-8.
struct Character {
  uint32_t code_point = 0;
  size_t length = 0;
};

Character Decode(std::string_view bytes) {
  const auto lead = static_cast<uint8_t>(bytes[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || bytes.size() < length) return {};
  uint32_t code_point = lead & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto next = static_cast<uint8_t>(bytes[i]);
    if ((next & 0xc0) != 0x80) return {};
    code_point = code_point << 6 | (next & 0x3fu);
  }
  constexpr uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  if (code_point < kSmallest[length] || code_point > 0x10ffff || surrogate) return {};
  return {code_point, length};
}

// Control characters, marks that change the direction of the text that follows, and separators of lines.
bool IsControl(uint32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) || code_point == 0x61c ||
         code_point == 0x200e || code_point == 0x200f || (code_point >= 0x2028 && code_point <= 0x202e) ||
         (code_point >= 0x2066 && code_point <= 0x2069);
}

// `kept` are characters that stay as they are.
std::string EscapedBut(std::string_view bytes, std::string_view kept) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Character character = Decode(bytes);
    const size_t length = character.length == 0 ? 1 : character.length;
    const bool is_plain = character.length != 0 && !IsControl(character.code_point);
    if (is_plain || kept.find(bytes[0]) != std::string_view::npos) {
      text += bytes.substr(0, length);
    } else if (bytes[0] == '\n') {
      text += "\\n";
    } else if (bytes[0] == '\t') {
      text += "\\t";
    } else {
      for (const char byte : bytes.substr(0, length)) text += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
    }
    bytes.remove_prefix(length);
  }
  return text;
}

}  // namespace

std::string EscapeForText(std::string_view bytes) { return EscapedBut(bytes, ""); }

std::string EscapeLinesForText(std::string_view bytes) { return EscapedBut(bytes, "\n\t"); }

std::string EscapeForJson(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (!bytes.empty()) {
    const Character character = Decode(bytes);
    const size_t length = character.length == 0 ? 1 : character.length;
    if (character.length == 0) {
      text += "\\ufffd";
    } else if (IsControl(character.code_point)) {
      text += fmt::format("\\u{:04x}", character.code_point);
    } else {
      if (bytes[0] == '"' || bytes[0] == '\\') text += '\\';
      text += bytes.substr(0, length);
    }
    bytes.remove_prefix(length);
  }
  return text;
}

}  // namespace tunefarm::internal
