// A text in which parts of an original are replaced, and which knows where each byte comes from. Private to this
// folder; pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tunefarm::definition {

// Bytes [begin, end) of the original become `text`.
struct TextEdit {
  size_t begin = 0;
  size_t end = 0;
  std::string text;
};

struct EditedText {
  // Where the text differs from the original: bytes [begin, end) stand for [original_begin, original_end).
  struct Change {
    size_t begin = 0;
    size_t end = 0;
    size_t original_begin = 0;
    size_t original_end = 0;
  };

  EditedText() = default;
  // `edits` are ascending and do not overlap.
  EditedText(std::string_view original, const std::vector<TextEdit>& edits);

  // Where a byte of `text` comes from. All bytes of a replaced part come from where that begins.
  size_t OriginalOffset(size_t offset) const;

  std::string text;
  std::vector<Change> changes;  // ascending
};

}  // namespace tunefarm::definition
