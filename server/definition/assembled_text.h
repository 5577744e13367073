// The text of a definition with the files that it includes in their places. Private to this folder.
//
//   include: "tiles.inc"                                               the text of that file stands here
//   include { file: "tiles.inc" words { name: "ROWS" value: "M" } }    and $(ROWS) in it is M
//
// An include stands outside of all braces. Its file lies in or below the folder of the definition, ends in .inc and
// holds whole fields. It may include further files, by paths from the definition's folder, and gives them the words
// that they need: a file knows the words of its own include alone. Comments are left as they are.
//
// client/python/tunefarm/_assembled_text.py does the same for the Python client; tests/data/definitions/includes has
// the cases that both must pass.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/definition/edited_text.h"

namespace tunefarm::definition {

inline constexpr size_t kTextMax = 1 << 20;  // bytes of a definition with all that it includes

class AssembledText {
 public:
  // Gives a file by its path from the definition's folder.
  using ReadIncluded = std::function<absl::StatusOr<std::string>(const std::string& path)>;

  // `file_name` is what errors call the definition. `read` may be empty: an include is an error then.
  AssembledText(std::string_view text, std::string_view file_name, const ReadIncluded& read);
  AssembledText(const AssembledText&) = delete;
  AssembledText& operator=(const AssembledText&) = delete;

  const std::string& text() const { return text_; }
  // What is wrong with includes, each with its place. The text is not to be parsed where there are any.
  const std::vector<absl::Status>& errors() const { return errors_; }

  // The error with the place where byte `offset` of text() was written: "tiles.inc:3:7: ...". Where that is an included
  // file, the first line of the message ends in " (included at kernel.pbtxt:12:1)".
  absl::Status Place(const absl::Status& status, size_t offset) const;

 private:
  struct File {
    std::string path;                   // from the definition's folder; empty: the definition
    std::string original;               // as it was written
    const File* included_by = nullptr;  // none: the definition
    size_t included_at = 0;             // in the original of included_by
    EditedText text;                    // with the values of words in the places of their names
  };
  // From `begin` to the next piece, text() is that of a file from `offset` on.
  struct Piece {
    size_t begin = 0;
    const File* file = nullptr;
    size_t offset = 0;
  };
  class Builder;

  // `offset`: in the original of the file.
  std::string PositionText(const File& file, size_t offset) const;
  absl::Status PlaceIn(const File& file, size_t offset, const absl::Status& status) const;

  std::string file_name_;
  std::deque<File> files_;  // the definition, then what is included; their addresses are kept
  std::string text_;
  std::vector<Piece> pieces_;  // ascending; the first begins at 0
  std::vector<absl::Status> errors_;
};

}  // namespace tunefarm::definition
