#include "server/definition/short_forms.h"

#include <fmt/core.h>

#include <cctype>
#include <optional>
#include <utility>

#include "server/base/status.h"
#include "server/definition/field_error.h"
#include "server/definition/text_scanner.h"
#include "tunefarm/v1/kernel.pb.h"
#include "tunefarm/v1/value.pb.h"

namespace tunefarm::definition {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

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
  explicit Expander(std::string_view text) : text_(text), in_(text) {}

  ExpandedText Run(const Descriptor& root) {
    ReadFields(root, '\0', 0);
    return {EditedText(text_, edits_), std::move(errors_)};
  }

 private:
  static constexpr int kNestingMax = 32;    // as the parser's
  static constexpr size_t kShownMax = 64;   // bytes of a word in a message
  static constexpr size_t kErrorsMax = 20;  // of one text

  using Token = TextToken;
  using Kind = TextToken::Kind;

  std::string TextOf(const Token& token) const { return in_.TextOf(token); }
  std::string ShownOf(const Token& token) const { return TextOf(token).substr(0, kShownMax); }
  void Insert(size_t at, std::string text) { edits_.push_back({at, at, std::move(text)}); }
  void Note(size_t offset, absl::Status status) {
    if (errors_.size() < kErrorsMax) errors_.push_back({offset, std::move(status)});
  }

  // The functions that read return false where the text is not well formed.

  // Fields up to `closing`, or to the end of the text where that is 0.
  bool ReadFields(const Descriptor& message, char closing, int depth) {
    if (depth > kNestingMax) return false;
    while (true) {
      in_.SkipSpace();
      if (in_.AtEnd()) return closing == '\0';
      if (closing != '\0' && in_.Skip(closing)) return true;
      if (!ReadField(message, depth)) return false;
      in_.SkipSeparator();
    }
  }

  bool ReadField(const Descriptor& message, int depth) {
    const size_t begin = in_.at();
    const std::optional<std::string> name = in_.ReadName();
    if (!name.has_value()) return false;
    const FieldDescriptor* field = message.FindFieldByName(*name);
    in_.SkipSpace();
    const bool has_colon = in_.Skip(':');
    in_.SkipSpace();
    if (field == nullptr) NoteUnknown(begin, message, *name);
    const bool is_message = in_.Peek() == '{' || in_.Peek() == '<';
    if (!has_colon && !is_message && in_.Peek() != '[') return false;
    if (field == nullptr) return in_.SkipValue();
    if (field->message_type() == v1::ValueList::descriptor() && !is_message) return ReadValueList(*name);
    if (in_.Peek() != '[') return ReadValue(*field, depth);
    return in_.ReadList([&] { return ReadValue(*field, depth); });
  }

  // One value of a field.
  bool ReadValue(const FieldDescriptor& field, int depth) {
    const Descriptor* message = field.message_type();
    if (message != nullptr) {
      if (in_.Skip('{')) return ReadFields(*message, '}', depth + 1);
      if (in_.Skip('<')) return ReadFields(*message, '>', depth + 1);
    }
    const std::optional<Token> token = in_.ReadToken();
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
    const size_t begin = in_.at();
    std::vector<Token> tokens;
    const auto read = [&] {
      const std::optional<Token> token = in_.ReadToken();
      if (token.has_value()) tokens.push_back(*token);
      return token.has_value();
    };
    const bool is_well_formed = in_.Peek() == '[' ? in_.ReadList(read) : read();
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
    if (is_well_formed) Insert(in_.at(), " }");
    return is_well_formed;
  }

  void NoteUnknown(size_t begin, const Descriptor& message, const std::string& name) {
    std::vector<std::string> fields;
    for (int i = 0; i < message.field_count(); ++i) fields.push_back(message.field(i)->name());
    std::string help;
    if (name == "file" || name == "path") help = WithFile(message, PeekText());
    if (name == "include") help = "it outside of all braces";
    help = help.empty() ? DidYouMean(name, fields) : "; write " + help;
    Note(begin, WithReason(InvalidArgument("{} has no field '{}'{}", message.name(), name.substr(0, kShownMax), help),
                           kUnknownField));
  }

  // The text that comes next, in its quotes; an example where none or a long one does.
  std::string PeekText() {
    const std::optional<Token> token = TextScanner::IsQuote(in_.Peek()) ? in_.PeekToken() : std::nullopt;
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

  std::string_view text_;
  TextScanner in_;
  std::vector<TextEdit> edits_;
  std::vector<ExpandedText::Error> errors_;
};

}  // namespace

ExpandedText ExpandShortForms(std::string_view text, const Descriptor* root) { return Expander(text).Run(*root); }

}  // namespace tunefarm::definition
