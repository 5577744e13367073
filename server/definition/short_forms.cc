#include "server/definition/short_forms.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <optional>
#include <utility>

#include "server/base/status.h"
#include "server/definition/field_error.h"
#include "tunefarm/v1/kernel.pb.h"
#include "tunefarm/v1/value.pb.h"

namespace tunefarm::definition {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

namespace chars {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameChar(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsQuote(char c) { return c == '"' || c == '\''; }

}  // namespace chars

std::string InCase(std::string_view text, int (*convert)(int)) {
  std::string converted;
  for (const char c : text) converted += static_cast<char>(convert(static_cast<unsigned char>(c)));
  return converted;
}
// What the names of an enum's values begin with: "DATA_TYPE_", of DATA_TYPE_UNSPECIFIED.
std::string PrefixOf(const EnumDescriptor& type) {
  const std::string& name = type.value(0)->name();
  return name.substr(0, name.size() - std::string_view("UNSPECIFIED").size());
}

// How data of a file are written in such a message; empty: not at all.
std::string WithFile(const Descriptor& message, const std::string& path) {
  if (&message == v1::Fill::descriptor()) return "file: " + path;
  if (&message == v1::ExpectedFile::descriptor()) return "buffer: \"NAME\" file: " + path;
  if (&message == v1::Reference::descriptor()) return "files { buffer: \"NAME\" file: " + path + " }";
  const bool has_fill = &message == v1::Buffer::descriptor() || &message == v1::ConstantSymbol::descriptor();
  return has_fill ? "fill { file: " + path + " }" : "";
}

class Expander {
 public:
  explicit Expander(std::string_view text) : text_(text) {}

  ExpandedText Run(const Descriptor& root) {
    ReadFields(root, '\0', 0);
    ExpandedText expanded;
    size_t done = 0;
    for (const Edit& edit : edits_) {
      expanded.text.append(text_, done, edit.begin - done);
      const size_t begin = expanded.text.size();
      expanded.text += edit.text;
      expanded.changes.push_back({begin, expanded.text.size(), edit.begin, edit.end});
      done = edit.end;
    }
    expanded.text.append(text_, done);
    expanded.errors = std::move(errors_);
    return expanded;
  }

 private:
  static constexpr int kNestingMax = 32;    // as the parser's
  static constexpr size_t kShownMax = 64;   // bytes of a word in a message
  static constexpr size_t kErrorsMax = 20;  // of one text

  enum class Kind { kInt, kFloat, kBool, kString, kWord };
  struct Token {
    size_t begin = 0;
    size_t end = 0;
    Kind kind = Kind::kWord;
  };
  // Bytes [begin, end) become `text`.
  struct Edit {
    size_t begin = 0;
    size_t end = 0;
    std::string text;
  };

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  std::string TextOf(const Token& token) const {
    return std::string(text_.substr(token.begin, token.end - token.begin));
  }
  std::string ShownOf(const Token& token) const { return TextOf(token).substr(0, kShownMax); }
  void Insert(size_t at, std::string text) { edits_.push_back({at, at, std::move(text)}); }
  void Note(size_t offset, absl::Status status) {
    if (errors_.size() < kErrorsMax) errors_.push_back({offset, std::move(status)});
  }

  // Over white space and comments.
  void SkipSpace() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0) {
        ++at_;
      } else {
        return;
      }
    }
  }

  // The functions that read return false where the text is not well formed.

  // Fields up to `closing`, or to the end of the text where that is 0.
  bool ReadFields(const Descriptor& message, char closing, int depth) {
    if (depth > kNestingMax) return false;
    while (true) {
      SkipSpace();
      if (at_ == text_.size()) return closing == '\0';
      if (closing != '\0' && Peek() == closing) {
        ++at_;
        return true;
      }
      if (!ReadField(message, depth)) return false;
      SkipSpace();
      if (Peek() == ',' || Peek() == ';') ++at_;
    }
  }

  bool ReadField(const Descriptor& message, int depth) {
    const size_t begin = at_;
    while (chars::IsNameChar(Peek())) ++at_;
    if (at_ == begin || chars::IsDigit(text_[begin])) return false;
    const std::string name(text_.substr(begin, at_ - begin));
    const FieldDescriptor* field = message.FindFieldByName(name);
    SkipSpace();
    const bool has_colon = Peek() == ':';
    if (has_colon) ++at_;
    SkipSpace();
    if (field == nullptr) NoteUnknown(begin, message, name);
    const bool is_message = Peek() == '{' || Peek() == '<';
    if (!has_colon && !is_message && Peek() != '[') return false;
    if (field == nullptr) return SkipValue();
    if (field->message_type() == v1::ValueList::descriptor() && !is_message) return ReadValueList(name);
    if (Peek() != '[') return ReadValue(*field, depth);
    return ReadList([&] { return ReadValue(*field, depth); });
  }

  // "[a, b, ...]", each element read by the function.
  template <typename ReadElement>
  bool ReadList(ReadElement read) {
    ++at_;  // The bracket.
    SkipSpace();
    if (Peek() != ']') {
      while (true) {
        SkipSpace();
        if (!read()) return false;
        SkipSpace();
        if (Peek() != ',') break;
        ++at_;
      }
    }
    if (Peek() != ']') return false;
    ++at_;
    return true;
  }

  // One value of a field.
  bool ReadValue(const FieldDescriptor& field, int depth) {
    const Descriptor* message = field.message_type();
    if (message != nullptr && (Peek() == '{' || Peek() == '<')) {
      const char closing = Peek() == '{' ? '}' : '>';
      ++at_;
      return ReadFields(*message, closing, depth + 1);
    }
    const std::optional<Token> token = ReadToken();
    if (!token.has_value()) return false;
    if (message == v1::DataFile::descriptor()) {
      ExpandFile(field, *token);
    } else if (message == v1::Value::descriptor()) {
      ExpandValue(field, *token);
    } else if (message != nullptr) {
      NoteWithoutBraces(field, *token);
    } else if (field.enum_type() != nullptr) {
      ExpandEnum(field, *token);
    } else if (field.type() == FieldDescriptor::TYPE_STRING) {
      ExpandText(field, *token);
    }
    return true;
  }

  // The bare values of a v1.ValueList: one, or a list of one kind.
  bool ReadValueList(const std::string& field) {
    const size_t begin = at_;
    std::vector<Token> tokens;
    const auto read = [&] {
      const std::optional<Token> token = ReadToken();
      if (token.has_value()) tokens.push_back(*token);
      return token.has_value();
    };
    const bool is_well_formed = Peek() == '[' ? ReadList(read) : read();
    Kind kind = tokens.empty() ? Kind::kInt : tokens.front().kind;
    for (const Token& token : tokens) {
      const bool are_numbers =
          (kind == Kind::kInt || kind == Kind::kFloat) && (token.kind == Kind::kInt || token.kind == Kind::kFloat);
      if (token.kind == Kind::kWord) {
        NoteWord(field, token);
        break;
      }
      if (token.kind != kind && !are_numbers) {
        Note(token.begin,
             WithReason(InvalidArgument("field '{}' has values of several types: {} is not like the first, "
                                        "{}; write numbers, true and false, or texts in quotes",
                                        field, ShownOf(token), ShownOf(tokens.front())),
                        kConflictingFields));
        break;
      }
      if (token.kind == Kind::kFloat) kind = Kind::kFloat;
    }
    const std::string_view list = kind == Kind::kFloat    ? "doubles"
                                  : kind == Kind::kBool   ? "bools"
                                  : kind == Kind::kString ? "strings"
                                                          : "ints";
    Insert(begin, "{ " + std::string(list) + ": ");
    // Without the closing brace, the parser finds what is wrong with the list.
    if (is_well_formed) Insert(at_, " }");
    return is_well_formed;
  }

  void NoteUnknown(size_t begin, const Descriptor& message, const std::string& name) {
    std::vector<std::string> fields;
    for (int i = 0; i < message.field_count(); ++i) fields.push_back(message.field(i)->name());
    std::string help;
    if (name == "file" || name == "path") help = WithFile(message, PeekText());
    help = help.empty() ? DidYouMean(name, fields) : "; write " + help;
    Note(begin, WithReason(InvalidArgument("{} has no field '{}'{}", message.name(), name.substr(0, kShownMax), help),
                           kUnknownField));
  }

  // The text that comes next, in its quotes; an example where none or a long one does.
  std::string PeekText() {
    const size_t begin = at_;
    const std::optional<Token> token = chars::IsQuote(Peek()) ? ReadToken() : std::nullopt;
    at_ = begin;
    const bool is_shown = token.has_value() && token->end - token->begin <= kShownMax;
    return is_shown ? TextOf(*token) : "\"x.npy\"";
  }

  // A bare value where fields are expected.
  void NoteWithoutBraces(const FieldDescriptor& field, const Token& token) {
    const Descriptor& message = *field.message_type();
    std::string help;
    if (token.kind == Kind::kString) {
      help = WithFile(message, token.end - token.begin <= kShownMax ? TextOf(token) : "\"x.npy\"");
    } else if (const FieldDescriptor* const own = message.FindFieldByName(InCase(TextOf(token), std::tolower));
               own != nullptr && own->message_type() != nullptr) {
      help = own->name() + " {}";
    }
    std::string all;
    for (int i = 0; i < message.field_count(); ++i) all += (i == 0 ? "" : ", ") + message.field(i)->name();
    if (!help.empty()) {
      help = fmt::format(": {} {{ {} }}", field.name(), help);
    } else {
      help = all.empty() ? fmt::format(": {} {{}}", field.name()) : "; its fields are " + all;
    }
    Note(token.begin,
         WithReason(InvalidArgument("field '{}' takes fields in braces{}", field.name(), help), kSyntaxError));
  }

  void ExpandFile(const FieldDescriptor& field, const Token& token) {
    if (token.kind != Kind::kString) return NoteText(field, token);
    Insert(token.begin, "{ path: ");
    Insert(token.end, " }");
  }

  void NoteText(const FieldDescriptor& field, const Token& token) {
    Note(token.begin,
         WithReason(InvalidArgument("field '{0}' takes a text in quotes: \"{1}\"", field.name(), ShownOf(token)),
                    kSyntaxError));
  }

  void NoteWord(const std::string& field, const Token& token) {
    Note(token.begin,
         WithReason(InvalidArgument("field '{0}': {1} is neither a number nor true or false; a text stands "
                                    "in quotes: \"{1}\"",
                                    field, ShownOf(token)),
                    kSyntaxError));
  }

  void ExpandValue(const FieldDescriptor& field, const Token& token) {
    if (token.kind == Kind::kWord) return NoteWord(field.name(), token);
    const std::string_view kind = token.kind == Kind::kInt     ? "int_value"
                                  : token.kind == Kind::kFloat ? "double_value"
                                  : token.kind == Kind::kBool  ? "bool_value"
                                                               : "string_value";
    Insert(token.begin, "{ " + std::string(kind) + ": ");
    Insert(token.end, " }");
  }

  void ExpandText(const FieldDescriptor& field, const Token& token) {
    if (token.kind == Kind::kString) return;
    if (token.kind == Kind::kInt || token.kind == Kind::kFloat) {
      Insert(token.begin, "\"");
      Insert(token.end, "\"");
      return;
    }
    NoteText(field, token);
  }

  void ExpandEnum(const FieldDescriptor& field, const Token& token) {
    const EnumDescriptor& type = *field.enum_type();
    const std::string word = TextOf(token);
    if (token.kind == Kind::kInt || token.kind == Kind::kFloat || type.FindValueByName(word) != nullptr) return;
    const std::string prefix = PrefixOf(type);
    std::string name = prefix + InCase(word, std::toupper);
    if (name == "LANGUAGE_HOST") name = v1::Language_Name(v1::LANGUAGE_HOST_CXX);
    if (type.FindValueByName(name) != nullptr) {
      edits_.push_back({token.begin, token.end, std::move(name)});
      return;
    }
    const bool is_long = word.rfind(prefix, 0) == 0;
    std::vector<std::string> values;
    std::string all;
    for (int i = 1; i < type.value_count(); ++i) {
      values.push_back(is_long ? type.value(i)->name() : type.value(i)->name().substr(prefix.size()));
      all += (all.empty() ? "" : ", ") + values.back();
    }
    std::string help = DidYouMean(word, values);
    if (help.empty()) help = "; write one of " + all;
    Note(token.begin, WithReason(InvalidArgument("field '{}' has no value '{}'{}", field.name(), ShownOf(token), help),
                                 kUnknownField));
  }

  // A value of any type, of which only the extent is looked at.
  bool SkipValue() {
    if (Peek() != '{' && Peek() != '<' && Peek() != '[') return ReadToken().has_value();
    int depth = 0;
    do {
      const char c = Peek();
      if (at_ == text_.size()) return false;
      if (chars::IsQuote(c)) {
        if (!ReadQuoted()) return false;
      } else if (c == '#') {
        SkipSpace();
      } else {
        depth += c == '{' || c == '<' || c == '[' ? 1 : c == '}' || c == '>' || c == ']' ? -1 : 0;
        ++at_;
      }
    } while (depth > 0);
    return true;
  }

  bool ReadQuoted() {
    const char quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
      at_ += text_[at_] == '\\' ? 2 : 1;
    }
    at_ = std::min(at_, text_.size());
    if (Peek() != quote) return false;
    ++at_;
    return true;
  }

  // A number, a word, or a text, which may be written in several pieces.
  std::optional<Token> ReadToken() {
    Token token{at_, at_, Kind::kString};
    if (chars::IsQuote(Peek())) {
      while (chars::IsQuote(Peek())) {
        if (!ReadQuoted()) return std::nullopt;
        token.end = at_;
        SkipSpace();
      }
      at_ = token.end;
      return token;
    }
    if (Peek() == '-') {
      ++at_;
      SkipSpace();
    }
    const size_t begin = at_;
    const bool is_number = chars::IsDigit(Peek()) || Peek() == '.';
    const bool is_hex = text_.substr(at_, 2) == "0x" || text_.substr(at_, 2) == "0X";
    bool is_float = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      const bool after_exponent = at_ > begin && (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E');
      const bool is_sign = is_number && !is_hex && after_exponent && (c == '+' || c == '-');
      if (!chars::IsNameChar(c) && !is_sign && !(is_number && c == '.')) break;
      is_float = is_float || (is_number && !is_hex && std::string_view(".eEfF").find(c) != std::string_view::npos);
    }
    if (at_ == begin) return std::nullopt;
    token.end = at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    const std::string lower = InCase(word, std::tolower);
    if (is_number) {
      token.kind = is_float ? Kind::kFloat : Kind::kInt;
    } else if (lower == "inf" || lower == "infinity" || lower == "nan") {
      token.kind = Kind::kFloat;
    } else if (word == "true" || word == "false" || word == "True" || word == "False") {
      token.kind = Kind::kBool;
    } else {
      token.kind = Kind::kWord;
    }
    return token;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<Edit> edits_;
  std::vector<ExpandedText::Error> errors_;
};

}  // namespace

size_t ExpandedText::OriginalOffset(size_t offset) const {
  const auto after = std::upper_bound(changes.begin(), changes.end(), offset,
                                      [](size_t value, const Change& change) { return value < change.begin; });
  if (after == changes.begin()) return offset;
  const Change& change = *std::prev(after);
  return offset < change.end ? change.original_begin : change.original_end + (offset - change.end);
}

ExpandedText ExpandShortForms(std::string_view text, const Descriptor* root) { return Expander(text).Run(*root); }

}  // namespace tunefarm::definition
