#include "server/definition/edited_text.h"

#include <algorithm>
#include <iterator>

namespace tunefarm::definition {

EditedText::EditedText(std::string_view original, const std::vector<TextEdit>& edits) {
  size_t done = 0;
  for (const TextEdit& edit : edits) {
    text.append(original, done, edit.begin - done);
    const size_t begin = text.size();
    text += edit.text;
    changes.push_back({begin, text.size(), edit.begin, edit.end});
    done = edit.end;
  }
  text.append(original, done);
}

size_t EditedText::OriginalOffset(size_t offset) const {
  const auto after = std::upper_bound(changes.begin(), changes.end(), offset,
                                      [](size_t value, const Change& change) { return value < change.begin; });
  if (after == changes.begin()) return offset;
  const Change& change = *std::prev(after);
  return offset < change.end ? change.original_begin : change.original_end + (offset - change.end);
}

}  // namespace tunefarm::definition
