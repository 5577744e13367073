// Reads protobuf text token by token; of the fields it knows nothing. Private to this folder; pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tunefarm::definition {

// A scalar value: bytes [begin, end) of the text.
struct TextToken {
  enum class Kind { kInt, kFloat, kBool, kString, kWord };
  size_t begin = 0;
  size_t end = 0;
  Kind kind = Kind::kWord;
};

// The functions that read return false or none where the text is not well formed. Refers to the text.
class TextScanner {
 public:
  explicit TextScanner(std::string_view text) : text_(text) {}

  static bool IsQuote(char c) { return c == '"' || c == '\''; }

  size_t at() const { return at_; }
  void MoveTo(size_t at) { at_ = at; }
  bool AtEnd() const { return at_ == text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  std::string TextOf(const TextToken& token) const {
    return std::string(text_.substr(token.begin, token.end - token.begin));
  }

  // Over the next byte where it is `c`.
  bool Skip(char c);
  // Over white space and comments.
  void SkipSpace();
  // Over the comma or semicolon that may stand after a field.
  void SkipSeparator();
  // A value of any type, of which only the extent is looked at.
  bool SkipValue();
  // The name of a field.
  std::optional<std::string> ReadName();
  // A number, a word, or a text, which may be written in several pieces.
  std::optional<TextToken> ReadToken();
  // The same without moving on.
  std::optional<TextToken> PeekToken();
  // "[a, b, ...]", each element read by the function.
  template <typename ReadElement>
  bool ReadList(ReadElement read);

 private:
  bool ReadQuoted();

  std::string_view text_;
  size_t at_ = 0;
};

template <typename ReadElement>
bool TextScanner::ReadList(ReadElement read) {
  if (!Skip('[')) return false;
  SkipSpace();
  if (Peek() != ']') {
    do {
      SkipSpace();
      if (!read()) return false;
      SkipSpace();
    } while (Skip(','));
  }
  return Skip(']');
}

}  // namespace tunefarm::definition
