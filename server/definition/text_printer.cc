// A definition as kernel.pbtxt, in its short forms.
#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/text_format.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm {
namespace {

class TextPrinter {
 public:
  // Fields of `message`, each on lines of its own.
  static void Print(const google::protobuf::Message& message, size_t indent, std::string* out) {
    for (const Piece& piece : PiecesOf(message)) {
      const std::string line = piece.name + InlineValue(piece);
      if (piece.message == nullptr || indent + line.size() <= kColumns) {
        *out += std::string(indent, ' ') + line + "\n";
        continue;
      }
      *out += std::string(indent, ' ') + piece.name + " {\n";
      Print(*piece.message, indent + 2, out);
      *out += std::string(indent, ' ') + "}\n";
    }
  }

 private:
  using Message = google::protobuf::Message;
  using FieldDescriptor = google::protobuf::FieldDescriptor;

  static constexpr size_t kColumns = 110;

  // A field with its value: text, or a message that is written between braces.
  struct Piece {
    std::string name;
    std::string value;
    const Message* message = nullptr;
  };

  static std::string InlineValue(const Piece& piece) {
    if (piece.message == nullptr) return ": " + piece.value;
    std::string text;
    for (const Piece& part : PiecesOf(*piece.message)) text += part.name + InlineValue(part) + " ";
    return text.empty() ? " {}" : " { " + text + "}";
  }

  static std::vector<Piece> PiecesOf(const Message& message) {
    std::vector<const FieldDescriptor*> fields;
    const auto* reflection = message.GetReflection();
    reflection->ListFields(message, &fields);
    std::vector<Piece> pieces;
    for (const FieldDescriptor* field : fields) {
      const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
      if (!field->is_repeated()) {
        pieces.push_back(is_message ? PieceOf(field->name(), reflection->GetMessage(message, field))
                                    : Piece{field->name(), ScalarText(message, *field, -1)});
        continue;
      }
      const int count = reflection->FieldSize(message, field);
      std::vector<std::string> values;
      for (int i = 0; i < count; ++i) {
        Piece piece = is_message ? PieceOf(field->name(), reflection->GetRepeatedMessage(message, field, i))
                                 : Piece{field->name(), ScalarText(message, *field, i)};
        if (piece.message != nullptr) {
          pieces.push_back(std::move(piece));
        } else {
          values.push_back(std::move(piece.value));
        }
      }
      if (!values.empty()) pieces.push_back({field->name(), ListText(values)});
    }
    return pieces;
  }

  static Piece PieceOf(const std::string& name, const Message& message) {
    if (message.GetDescriptor() == v1::Value::descriptor()) {
      const auto& value = static_cast<const v1::Value&>(message);
      std::vector<const FieldDescriptor*> set;
      value.GetReflection()->ListFields(value, &set);
      if (set.size() == 1) {
        const std::string text = ScalarText(value, *set[0], -1);
        return {name, value.has_double_value() ? AsFloat(text) : text};
      }
    }
    if (message.GetDescriptor() == v1::ValueList::descriptor()) {
      const auto& list = static_cast<const v1::ValueList&>(message);
      std::vector<const FieldDescriptor*> set;
      list.GetReflection()->ListFields(list, &set);
      if (set.size() == 1) {
        std::vector<std::string> values;
        for (int i = 0; i < list.GetReflection()->FieldSize(list, set[0]); ++i) {
          const std::string text = ScalarText(list, *set[0], i);
          values.push_back(list.doubles_size() > 0 ? AsFloat(text) : text);
        }
        return {name, "[" + Joined(values) + "]"};
      }
    }
    return {name, "", &message};
  }

  static std::string Joined(const std::vector<std::string>& values) {
    std::string text;
    for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
    return text;
  }

  static std::string ListText(const std::vector<std::string>& values) {
    return values.size() == 1 ? values.front() : "[" + Joined(values) + "]";
  }

  // 2 would be read as an int.
  static std::string AsFloat(const std::string& text) {
    const bool is_whole = std::all_of(
        text.begin(), text.end(), [](char c) { return c == '-' || std::isdigit(static_cast<unsigned char>(c)) != 0; });
    return is_whole ? text + ".0" : text;
  }

  static std::string ScalarText(const Message& message, const FieldDescriptor& field, int index) {
    std::string text;
    google::protobuf::TextFormat::PrintFieldValueToString(message, &field, index, &text);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM) return text;
    const std::string& unset = field.enum_type()->value(0)->name();
    const std::string prefix = unset.substr(0, unset.size() - std::string_view("UNSPECIFIED").size());
    return text.rfind(prefix, 0) == 0 ? text.substr(prefix.size()) : text;
  }
};

}  // namespace

std::string KernelText(const v1::Kernel& kernel) {
  v1::Kernel shown = kernel;
  shown.clear_name();
  shown.clear_program_digest();
  for (v1::SourceFile& source : *shown.mutable_sources()) source.clear_content();
  std::string text;
  TextPrinter::Print(shown, 0, &text);
  return text;
}

}  // namespace tunefarm
