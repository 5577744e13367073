#include "server/definition/assembled_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/cord.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/checker.h"
#include "server/definition/field_error.h"
#include "server/definition/text_location.h"
#include "server/definition/text_scanner.h"

namespace tunefarm::definition {
namespace {

constexpr int kDepthMax = 8;
constexpr size_t kIncludesMax = 64;
constexpr size_t kErrorsNotedMax = 20;
constexpr size_t kNameShownMax = 64;  // bytes of a name in a message
constexpr std::string_view kIncludedEnding = ".inc";

bool IsWordName(std::string_view name) {
  const std::optional<std::string> read = TextScanner(name).ReadName();
  return read.has_value() && read->size() == name.size();
}

// Some editors begin UTF-8 with a byte order mark, which protobuf's parser refuses.
std::string_view WithoutByteOrderMark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.substr(0, kMark.size()) == kMark) text.remove_prefix(kMark.size());
  return text;
}

std::string Shown(std::string_view name) { return std::string(name.substr(0, kNameShownMax)); }

// $(name) in the text of the include's file is `value`.
struct Word {
  std::string name;
  std::string value;
  size_t offset = 0;  // of the word in the text with the include
  bool is_used = false;
};

struct Include {
  std::string path;
  std::vector<Word> words;
};

struct OffsetError {
  size_t offset = 0;
  absl::Status status;
};

// What stands behind the word "include". The functions return false after they have set the error.
class IncludeReader {
 public:
  explicit IncludeReader(TextScanner* in) : in_(*in) {}

  bool Read(Include* include) {
    in_.SkipSpace();
    const bool has_colon = in_.Skip(':');
    in_.SkipSpace();
    if (in_.Skip('{')) return ReadFields(include);
    return has_colon ? ReadText(&include->path) : Malformed(in_.at());
  }
  const OffsetError& error() const { return error_; }

 private:
  bool ReadFields(Include* include) {
    const size_t begin = in_.at();
    bool has_file = false;
    for (in_.SkipSpace(); !in_.Skip('}'); in_.SkipSpace()) {
      const size_t at = in_.at();
      const std::optional<std::string> name = in_.ReadName();
      if (name == "words") {
        if (!ReadWord(at, include)) return false;
      } else if (name == "file" && !has_file) {
        has_file = true;
        if (!ReadTextField(&include->path)) return false;
      } else {
        return Malformed(at);
      }
      in_.SkipSeparator();
    }
    return has_file || Malformed(begin);
  }

  bool ReadWord(size_t at, Include* include) {
    Word word;
    word.offset = at;
    bool has_name = false, has_value = false;
    in_.SkipSpace();
    in_.Skip(':');
    in_.SkipSpace();
    if (!in_.Skip('{')) return Malformed(in_.at());
    for (in_.SkipSpace(); !in_.Skip('}'); in_.SkipSpace()) {
      const size_t field_at = in_.at();
      const std::optional<std::string> field = in_.ReadName();
      const bool is_name = field == "name" && !has_name;
      if (!is_name && (field != "value" || has_value)) return Malformed(field_at);
      (is_name ? has_name : has_value) = true;
      if (!ReadTextField(is_name ? &word.name : &word.value)) return false;
      in_.SkipSeparator();
    }
    if (!has_name || !has_value) return Malformed(at);
    if (!IsWordName(word.name)) {
      return Fail(
          at, WithReason(InvalidArgument("'{}' is not the name of a word: letters, digits and '_'", Shown(word.name)),
                         kInvalidField));
    }
    for (const Word& other : include->words) {
      if (other.name != word.name) continue;
      return Fail(at, WithReason(InvalidArgument("the word '{}' is given twice", Shown(word.name)), kDuplicateName));
    }
    include->words.push_back(std::move(word));
    return true;
  }

  // ": " and a text.
  bool ReadTextField(std::string* text) {
    in_.SkipSpace();
    if (!in_.Skip(':')) return Malformed(in_.at());
    in_.SkipSpace();
    return ReadText(text);
  }

  // One or more pieces in quotes, which stand for themselves: there are no escapes.
  bool ReadText(std::string* text) {
    const size_t begin = in_.at();
    const std::optional<TextToken> token = TextScanner::IsQuote(in_.Peek()) ? in_.ReadToken() : std::nullopt;
    if (!token.has_value()) return Malformed(begin);
    const std::string written = in_.TextOf(*token);
    if (written.find('\\') != std::string::npos) {
      return Fail(begin, WithReason(InvalidArgument("a text of an include has no backslash"), kSyntaxError));
    }
    TextScanner pieces(written);
    for (pieces.SkipSpace(); !pieces.AtEnd(); pieces.SkipSpace()) {
      const size_t at = pieces.at() + 1;
      const size_t end = written.find(written[pieces.at()], at);
      text->append(written, at, end - at);
      pieces.MoveTo(end + 1);
    }
    return true;
  }

  bool Malformed(size_t offset) {
    return Fail(offset, WithReason(InvalidArgument("an include is written include: \"tiles.inc\", or include {{ file: "
                                                   "\"tiles.inc\" words {{ name: \"ROWS\" value: \"M\" }} }}"),
                                   kSyntaxError));
  }

  bool Fail(size_t offset, absl::Status status) {
    error_ = {offset, std::move(status)};
    return false;
  }

  TextScanner& in_;
  OffsetError error_;
};

}  // namespace

// Reads files and appends them to the text.
class AssembledText::Builder {
 public:
  Builder(AssembledText* out, const ReadIncluded& read) : out_(*out), read_(read) {}

  void AppendDefinition(std::string_view text) {
    File& file = out_.files_.emplace_back();
    file.original = WithoutByteOrderMark(text);
    file.text = EditedText(file.original, {});
    bytes_ = file.original.size();
    Append(file);
  }

 private:
  // Appends the text of a file, and in it those of the files that it includes. What is not well formed is left to
  // protobuf's parser: from there on nothing is looked at.
  void Append(const File& file) {
    TextScanner in(file.text.text);
    size_t done = 0;
    for (in.SkipSpace(); !in.AtEnd(); in.SkipSpace()) {
      const size_t begin = in.at();
      const std::optional<std::string> name = in.ReadName();
      if (!name.has_value()) break;
      if (name == "include") {
        Include include;
        IncludeReader reader(&in);
        if (!reader.Read(&include)) return Note(file, reader.error().offset, reader.error().status);
        in.SkipSeparator();
        AppendPiece(file, done, begin);
        AppendInclude(file, begin, std::move(include));
        done = in.at();
      } else if (!SkipField(&in)) {
        if (file.included_by == nullptr || !in.AtEnd()) break;
        return Note(file, begin,
                    WithReason(InvalidArgument("this field does not end in its file; an included file holds whole "
                                               "fields"),
                               kSyntaxError));
      } else {
        in.SkipSeparator();
      }
    }
    AppendPiece(file, done, file.text.text.size());
  }

  // What stands behind the name of a field.
  static bool SkipField(TextScanner* in) {
    in->SkipSpace();
    const bool has_colon = in->Skip(':');
    in->SkipSpace();
    if (!has_colon && in->Peek() != '{' && in->Peek() != '<' && in->Peek() != '[') return false;
    return in->SkipValue();
  }

  void AppendPiece(const File& file, size_t begin, size_t end) {
    out_.pieces_.push_back({out_.text_.size(), &file, begin});
    out_.text_.append(file.text.text, begin, end - begin);
  }

  void AppendInclude(const File& includer, size_t offset, Include include) {
    const absl::Status status = CheckInclude(includer, include.path);
    if (!status.ok()) return Note(includer, offset, status);
    const absl::StatusOr<std::string> text = read_(include.path);
    if (!text.ok()) {
      return Note(
          includer, offset,
          WithReason(InvalidArgument("the file '{}' cannot be read: {}", include.path, MessageOf(text.status())),
                     kMissingField));
    }
    File& file = out_.files_.emplace_back();
    file.path = std::move(include.path);
    file.original = WithoutByteOrderMark(*text);
    file.included_by = &includer;
    file.included_at = includer.text.OriginalOffset(offset);
    const size_t errors = out_.errors_.size();
    const std::vector<TextEdit> edits = Edits(file, &include.words);
    if (bytes_ > kTextMax) {
      return Note(includer, offset,
                  LimitError("the text of the definition and of all that it includes has more than {} "
                             "bytes",
                             kTextMax));
    }
    for (const Word& word : include.words) {
      if (word.is_used) continue;
      Note(includer, word.offset,
           WithReason(InvalidArgument("the word '{}' is not used in {}", Shown(word.name), file.path),
                      kConflictingFields));
    }
    if (out_.errors_.size() > errors) return;
    file.text = EditedText(file.original, edits);
    // Byte 0 stays the definition's own: errors about fields that it lacks are placed there.
    if (out_.text_.empty()) out_.text_ += '\n';
    Append(file);
    out_.text_ += '\n';  // a comment may end the file
  }

  // Whether the includer may include the file.
  absl::Status CheckInclude(const File& includer, const std::string& path) const {
    if (read_ == nullptr) {
      return WithReason(
          InvalidArgument("write the text of '{}' here: a definition includes files only where it is read "
                          "from a folder",
                          Shown(path)),
          kNotSupported);
    }
    if (!CheckSourcePath("", path).ok() || !path.ends_with(kIncludedEnding)) {
      return WithReason(InvalidArgument("'{}' is not the path of an included file: relative to the definition, without "
                                        "'.', '..' or empty parts, ending in {}",
                                        Shown(path), kIncludedEnding),
                        kInvalidField);
    }
    std::string chain = path;
    int depth = 1;
    for (const File* file = &includer; file->included_by != nullptr; file = file->included_by, ++depth) {
      chain.insert(0, file->path + " > ");
      if (file->path != path) continue;
      return WithReason(InvalidArgument("'{}' includes itself: {}", path, chain), kConflictingFields);
    }
    if (depth > kDepthMax) return LimitError("includes are nested more than {} deep", kDepthMax);
    if (out_.files_.size() > kIncludesMax) return LimitError("a definition has more than {} includes", kIncludesMax);
    return absl::OkStatus();
  }

  template <typename... Args>
  static absl::Status LimitError(fmt::format_string<Args...> format, Args&&... args) {
    return WithReason(InvalidArgument(format, std::forward<Args>(args)...), kLimitExceeded);
  }

  // The values of words for $(NAME) outside of comments; adds the bytes of the file and of the values, and notes names
  // that have none. Not all of them where there is an error.
  std::vector<TextEdit> Edits(const File& file, std::vector<Word>* words) {
    std::vector<TextEdit> edits;
    std::vector<std::string_view> unknown;
    const std::string_view text = file.original;
    bytes_ += text.size();
    char quote = '\0';
    for (size_t at = 0; at < text.size() && bytes_ <= kTextMax && out_.errors_.size() < kErrorsNotedMax; ++at) {
      const char c = text[at];
      if (quote == '\0' && c == '#') {
        at = std::min(text.find('\n', at), text.size());
      } else if (quote == '\0' && TextScanner::IsQuote(c)) {
        quote = c;
      } else if (c == quote || c == '\n') {
        quote = '\0';
      } else if (c == '\\') {
        ++at;
      } else if (text.substr(at, 2) == "$(") {
        const size_t close = std::min(text.find_first_of(")\n", at), text.size());
        const std::string_view name = text.substr(at + 2, close - at - 2);
        if (!IsWordName(name) || text.substr(close, 1) != ")") {
          Note(file, at, WithReason(InvalidArgument("'$(' begins a word, which is written $(NAME)"), kSyntaxError));
          continue;
        }
        const auto word =
            std::find_if(words->begin(), words->end(), [name](const Word& known) { return known.name == name; });
        if (word != words->end()) {
          word->is_used = true;
          edits.push_back({at, close + 1, word->value});
          bytes_ += word->value.size();
        } else if (std::find(unknown.begin(), unknown.end(), name) == unknown.end()) {
          unknown.push_back(name);
          Note(file, at,
               WithReason(InvalidArgument("$({0}) has no value; the include gives it: words {{ name: \"{0}\" value: "
                                          "\"...\" }}",
                                          Shown(name)),
                          kUnknownName));
        }
        at = close;
      }
    }
    return edits;
  }

  // Errors of a file without the values of its words are placed as they are.
  void Note(const File& file, size_t offset, const absl::Status& status) {
    if (out_.errors_.size() == kErrorsNotedMax) return;
    out_.errors_.push_back(out_.PlaceIn(file, file.text.OriginalOffset(offset), status));
  }

  AssembledText& out_;
  const ReadIncluded& read_;
  size_t bytes_ = 0;  // of all files, and of the values that stand in them
};

AssembledText::AssembledText(std::string_view text, std::string_view file_name, const ReadIncluded& read)
    : file_name_(file_name) {
  Builder(this, read).AppendDefinition(text);
}

absl::Status AssembledText::Place(const absl::Status& status, size_t offset) const {
  const auto after = std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                                      [](size_t value, const Piece& piece) { return value < piece.begin; });
  const Piece& piece = *std::prev(after);
  return PlaceIn(*piece.file, piece.file->text.OriginalOffset(piece.offset + (offset - piece.begin)), status);
}

std::string AssembledText::PositionText(const File& file, size_t offset) const {
  const TextPosition position = PositionIn(file.original, offset);
  const size_t folder = file.path.empty() ? file_name_.size() : file_name_.rfind('/') + 1;  // 0 without a folder
  return fmt::format("{}{}:{}:{}", file_name_.substr(0, folder), file.path, position.line, position.column);
}

absl::Status AssembledText::PlaceIn(const File& file, size_t offset, const absl::Status& status) const {
  std::string included;
  for (const File* at = &file; at->included_by != nullptr; at = at->included_by) {
    included += (included.empty() ? " (included at " : ", at ") + PositionText(*at->included_by, at->included_at);
  }
  if (included.empty()) return Annotate(status, "{}", PositionText(file, offset));
  std::string message(MessageOf(status));
  message.insert(std::min(message.find('\n'), message.size()), included + ")");
  absl::Status placed = InvalidArgument("{}: {}", PositionText(file, offset), message);
  status.ForEachPayload(
      [&placed](absl::string_view url, const absl::Cord& payload) { placed.SetPayload(url, payload); });
  return placed;
}

}  // namespace tunefarm::definition
