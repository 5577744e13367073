// Where a field of a parsed kernel.pbtxt stands in its text. Private to this folder.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/text_format.h"

namespace tunefarm::definition {

// Lines and columns from 1; columns count bytes.
struct TextPosition {
  int line = 1;
  int column = 1;
};

// Of a byte of a text.
TextPosition PositionIn(std::string_view text, size_t offset);

// Refers to the text and the tree, which must outlive it. Offsets are bytes of the text.
class TextLocations {
 public:
  TextLocations(std::string_view text, const google::protobuf::TextFormat::ParseInfoTree* tree);

  // Of a field by its path ("launches[0].kernel.grid[1]"); of the nearest field around it where the text lacks it. With
  // `column` > 0: of that byte of the string that is its value.
  size_t Find(std::string_view path, const google::protobuf::Descriptor* descriptor, int column) const;

  // From what protobuf's tokenizer counts: lines and columns from 0, tabs to multiples of 8.
  size_t OffsetOf(int line, int column) const;

 private:
  // The offsets of the values that one field entry at `offset` gives: one, or those of a list.
  std::vector<size_t> ValueOffsets(size_t offset) const;
  size_t SkipSpace(size_t offset) const;
  size_t SkipValue(size_t offset) const;
  size_t OffsetInString(size_t offset, int column) const;
  // The value of element `index` (-1: of a singular field); none where the text has no such element.
  std::optional<size_t> ElementOffset(const google::protobuf::TextFormat::ParseInfoTree* tree,
                                      const google::protobuf::FieldDescriptor* field, int index,
                                      std::optional<size_t>* entry) const;

  std::string_view text_;
  const google::protobuf::TextFormat::ParseInfoTree* tree_;
  std::vector<size_t> line_starts_;
};

}  // namespace tunefarm::definition
