#include "server/definition/text_location.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace tunefarm::definition {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::TextFormat;

constexpr int kTabWidth = 8;  // of protobuf's tokenizer

bool IsNameChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsQuote(char c) { return c == '"' || c == '\''; }
bool IsOctal(char c) { return c >= '0' && c <= '7'; }

struct Segment {
  std::string name;
  int index = -1;
};

// "launches[0].kernel" to its parts. Paths are made by this library, so that nothing is refused here.
std::vector<Segment> Split(std::string_view path) {
  std::vector<Segment> segments;
  while (!path.empty()) {
    const size_t dot = path.find('.');
    std::string_view part = path.substr(0, dot);
    path.remove_prefix(dot == std::string_view::npos ? path.size() : dot + 1);
    Segment segment;
    if (const size_t bracket = part.find('['); bracket != std::string_view::npos) {
      std::from_chars(part.data() + bracket + 1, part.data() + part.size(), segment.index);
      part = part.substr(0, bracket);
    }
    segment.name = std::string(part);
    segments.push_back(std::move(segment));
  }
  return segments;
}

}  // namespace

TextPosition PositionIn(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const size_t line_start = before.rfind('\n') + 1;  // 0 on the first line: npos + 1.
  return {static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(before.size() - line_start) + 1};
}

TextLocations::TextLocations(std::string_view text, const TextFormat::ParseInfoTree* tree) : text_(text), tree_(tree) {
  line_starts_.push_back(0);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') line_starts_.push_back(i + 1);
  }
}

size_t TextLocations::OffsetOf(int line, int column) const {
  if (line < 0) return 0;
  if (static_cast<size_t>(line) >= line_starts_.size()) return text_.size();
  size_t offset = line_starts_[static_cast<size_t>(line)];
  for (int at = 0; at < column && offset < text_.size() && text_[offset] != '\n'; ++offset) {
    at += text_[offset] == '\t' ? kTabWidth - at % kTabWidth : 1;
  }
  return offset;
}

// Over white space and comments.
size_t TextLocations::SkipSpace(size_t offset) const {
  while (offset < text_.size()) {
    if (text_[offset] == '#') {
      offset = std::min(text_.find('\n', offset), text_.size());
    } else if (std::isspace(static_cast<unsigned char>(text_[offset])) != 0) {
      ++offset;
    } else {
      break;
    }
  }
  return offset;
}

// Over one value of a list: to the comma or bracket after it. The text has been parsed, so that it is well formed.
size_t TextLocations::SkipValue(size_t offset) const {
  int depth = 0;
  while (offset < text_.size()) {
    const char c = text_[offset];
    if (IsQuote(c)) {
      for (++offset; offset < text_.size() && text_[offset] != c; ++offset) {
        if (text_[offset] == '\\') ++offset;
      }
    } else if (c == '#') {
      offset = SkipSpace(offset);
      continue;
    } else if (c == '{' || c == '[' || c == '<') {
      ++depth;
    } else if (c == '}' || c == ']' || c == '>') {
      if (depth == 0) break;
      --depth;
    } else if (c == ',' && depth == 0) {
      break;
    }
    ++offset;
  }
  return std::min(offset, text_.size());
}

std::vector<size_t> TextLocations::ValueOffsets(size_t offset) const {
  while (offset < text_.size() && IsNameChar(text_[offset])) ++offset;
  offset = SkipSpace(offset);
  if (offset < text_.size() && text_[offset] == ':') offset = SkipSpace(offset + 1);
  if (offset >= text_.size() || text_[offset] != '[') return {offset};
  std::vector<size_t> offsets;
  while (offset < text_.size()) {
    offset = SkipSpace(offset + 1);  // After '[' or ','.
    if (offset >= text_.size() || text_[offset] == ']') break;
    offsets.push_back(offset);
    offset = SkipValue(offset);
    if (offset >= text_.size() || text_[offset] != ',') break;
  }
  return offsets;
}

// The place of byte `column` (from 1) of a string that may be written in several pieces and with escapes.
size_t TextLocations::OffsetInString(size_t offset, int column) const {
  int left = column - 1;
  size_t last = offset;
  while (offset < text_.size() && IsQuote(text_[offset])) {
    const char quote = text_[offset++];
    while (offset < text_.size() && text_[offset] != quote) {
      last = offset;
      if (left-- == 0) return offset;
      if (text_[offset] != '\\') {
        ++offset;
        continue;
      }
      ++offset;
      if (offset < text_.size() && IsOctal(text_[offset])) {
        for (int digits = 0; digits < 3 && offset < text_.size() && IsOctal(text_[offset]); ++digits) ++offset;
      } else if (offset < text_.size() && (text_[offset] == 'x' || text_[offset] == 'X')) {
        ++offset;
        for (int digits = 0;
             digits < 2 && offset < text_.size() && std::isxdigit(static_cast<unsigned char>(text_[offset])) != 0;
             ++digits) {
          ++offset;
        }
      } else {
        ++offset;
      }
    }
    last = offset;
    const size_t next = SkipSpace(offset + 1);
    if (next >= text_.size() || !IsQuote(text_[next])) break;
    offset = next;
  }
  return std::min(last, text_.size());
}

std::optional<size_t> TextLocations::ElementOffset(const TextFormat::ParseInfoTree* tree, const FieldDescriptor* field,
                                                   int index, std::optional<size_t>* entry) const {
  int wanted = std::max(index, 0);
  const int most = field->is_repeated() ? wanted + 1 : 1;
  for (int i = 0; i < most; ++i) {
    const auto location = tree->GetLocation(field, field->is_repeated() ? i : -1);
    if (location.line < 0) break;
    const size_t start = OffsetOf(location.line, location.column);
    const std::vector<size_t> values = ValueOffsets(start);
    if (static_cast<size_t>(wanted) < values.size()) {
      *entry = values.size() > 1 ? values[static_cast<size_t>(wanted)] : start;
      return values[static_cast<size_t>(wanted)];
    }
    *entry = start;
    wanted -= static_cast<int>(values.size());
  }
  return std::nullopt;
}

size_t TextLocations::Find(std::string_view path, const Descriptor* descriptor, int column) const {
  const TextFormat::ParseInfoTree* tree = tree_;
  size_t found = 0;
  for (const Segment& segment : Split(path)) {
    const FieldDescriptor* field =
        descriptor == nullptr || tree == nullptr ? nullptr : descriptor->FindFieldByName(segment.name);
    if (field == nullptr) return found;
    std::optional<size_t> entry;
    const std::optional<size_t> value = ElementOffset(tree, field, segment.index, &entry);
    if (!value.has_value()) return entry.value_or(found);
    found = *entry;
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      // Values of list fields and expressions are found by themselves, others by the name of their field.
      if (column > 0) return OffsetInString(*value, column);
      return found;
    }
    descriptor = field->message_type();
    // A list as a whole is found by its first element.
    tree = tree->GetTreeForNested(field, field->is_repeated() ? std::max(segment.index, 0) : -1);
  }
  return found;
}

}  // namespace tunefarm::definition
