// kernel.pbtxt: protobuf text to a Kernel, with every error placed in the text.
#include <fmt/core.h>

#include <optional>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/checker.h"
#include "server/definition/field_error.h"
#include "server/definition/kernel_plan.h"
#include "server/definition/text_location.h"

namespace tunefarm {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

constexpr size_t kTextMax = 1 << 20;
constexpr int kNestingMax = 32;

// Keeps the first error: later ones are mostly its consequences.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (!message_.empty()) return;
    line_ = line;
    column_ = column;
    message_ = message;
  }
  int line() const { return line_; }
  int column() const { return column_; }
  const std::string& message() const { return message_; }

 private:
  int line_ = 0;
  int column_ = 0;
  std::string message_;
};

// The text between the first two quotes after `anchor`.
std::string QuotedAfter(const std::string& message, std::string_view anchor) {
  const size_t at = message.find(anchor);
  if (at == std::string::npos) return {};
  const size_t open = message.find('"', at);
  const size_t close = open == std::string::npos ? open : message.find('"', open + 1);
  return close == std::string::npos ? std::string() : message.substr(open + 1, close - open - 1);
}

// protobuf's message in our words where a typing error is likely, else as it is. `word` becomes the mistyped one.
absl::Status Improve(const std::string& message, std::string* word) {
  const FileDescriptor* file = v1::Kernel::descriptor()->file();
  if (const std::string name = QuotedAfter(message, "has no field named"); !name.empty()) {
    *word = name;
    const Descriptor* type = file->pool()->FindMessageTypeByName(QuotedAfter(message, "Message type"));
    std::vector<std::string> fields;
    for (int i = 0; type != nullptr && i < type->field_count(); ++i) fields.push_back(type->field(i)->name());
    return WithReason(InvalidArgument("{} has no field '{}'{}", type == nullptr ? "the message" : type->name(),
                                      name.substr(0, 64), definition::DidYouMean(name, fields)),
                      definition::kUnknownField);
  }
  if (const std::string name = QuotedAfter(message, "Unknown enumeration value of"); !name.empty()) {
    *word = name;
    std::vector<std::string> values;
    for (int i = 0; i < file->enum_type_count(); ++i) {
      for (int j = 0; j < file->enum_type(i)->value_count(); ++j)
        values.push_back(file->enum_type(i)->value(j)->name());
    }
    return WithReason(InvalidArgument("field '{}' has no value '{}'{}", QuotedAfter(message, "for field"),
                                      name.substr(0, 64), definition::DidYouMean(name, values)),
                      definition::kUnknownField);
  }
  return WithReason(InvalidArgument("{}", message), definition::kSyntaxError);
}

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
    if (length == 0 || i + length > text.size()) return false;
    uint32_t code = length == 1 ? lead : lead & (0xffU >> (length + 1));
    for (size_t j = 1; j < length; ++j) {
      const auto next = static_cast<unsigned char>(text[i + j]);
      if (next >> 6 != 2) return false;
      code = code << 6 | (next & 0x3f);
    }
    constexpr uint32_t kLowest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < kLowest[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return false;
    i += length;
  }
  return true;
}

// The path of the first string field that is not UTF-8: no peer would read such a message.
std::optional<std::string> FirstBadText(const Message& message, const std::string& prefix) {
  std::vector<const FieldDescriptor*> fields;
  const auto* reflection = message.GetReflection();
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool repeated = field->is_repeated();
    const int count = repeated ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const std::string path =
          repeated ? fmt::format("{}{}[{}]", prefix, field->name(), i) : fmt::format("{}{}", prefix, field->name());
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        const Message& nested =
            repeated ? reflection->GetRepeatedMessage(message, field, i) : reflection->GetMessage(message, field);
        if (auto bad = FirstBadText(nested, path + "."); bad.has_value()) return bad;
      } else if (field->type() == FieldDescriptor::TYPE_STRING) {
        const std::string text =
            repeated ? reflection->GetRepeatedString(message, field, i) : reflection->GetString(message, field);
        if (!IsUtf8(text)) return path;
      }
    }
  }
  return std::nullopt;
}

absl::Status Place(const absl::Status& status, std::string_view file_name, definition::TextPosition position) {
  return Annotate(status, "{}:{}:{}", file_name, position.line, position.column);
}

absl::Status PlaceField(const absl::Status& status, std::string_view file_name, std::string_view text,
                        const TextFormat::ParseInfoTree& tree) {
  const definition::TextLocations locations(text, &tree);
  return Place(status, file_name,
               locations.Find(FieldPathOf(status), v1::Kernel::descriptor(), definition::ExpressionColumnOf(status)));
}

absl::StatusOr<v1::Kernel> Parse(std::string_view text, std::string_view file_name, TextFormat::ParseInfoTree* tree) {
  if (text.size() > kTextMax) {
    return WithReason(InvalidArgument("{}:1:1: the definition has {} bytes; at most {} are allowed", file_name,
                                      text.size(), kTextMax),
                      definition::kLimitExceeded);
  }
  FirstError error;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(tree);
  parser.SetRecursionLimit(kNestingMax);
  v1::Kernel kernel;
  if (!parser.ParseFromString(std::string(text), &kernel)) {
    const definition::TextLocations locations(text, tree);
    std::string word;
    const absl::Status status = Improve(error.message().empty() ? "the text cannot be parsed" : error.message(), &word);
    return Place(status, file_name, locations.FromTokenizer(error.line(), error.column(), word));
  }
  if (const auto path = FirstBadText(kernel, ""); path.has_value()) {
    return PlaceField(definition::FieldError(*path, definition::kInvalidField, "the text is not UTF-8"), file_name,
                      text, *tree);
  }
  return kernel;
}

}  // namespace

absl::StatusOr<v1::Kernel> ParseKernelText(std::string_view text, std::string_view file_name) {
  TextFormat::ParseInfoTree tree;
  return Parse(text, file_name, &tree);
}

absl::StatusOr<v1::Kernel> LoadKernelText(
    std::string_view text, std::string_view file_name,
    const std::function<absl::StatusOr<std::string>(const std::string& path)>& read_source) {
  TextFormat::ParseInfoTree tree;
  ASSIGN_OR_RETURN(v1::Kernel kernel, Parse(text, file_name, &tree));
  // Also before Compile says so: nothing is read that a definition may not name.
  const int sources = std::min(kernel.sources_size(), definition::kSourcesMax);
  for (int i = 0; i < sources; ++i) {
    v1::SourceFile* source = kernel.mutable_sources(i);
    if (!source->content().empty()) continue;
    const std::string field = fmt::format("sources[{}].path", i);
    if (const absl::Status status = definition::CheckSourcePath(field, source->path()); !status.ok()) {
      return PlaceField(status, file_name, text, tree);
    }
    auto content = read_source(source->path());
    if (!content.ok()) {
      return PlaceField(definition::FieldError(field, definition::kMissingField, "the source '{}' cannot be read: {}",
                                               source->path(), MessageOf(content.status())),
                        file_name, text, tree);
    }
    source->set_content(*std::move(content));
  }
  const auto plan = KernelPlan::Compile(kernel);
  if (!plan.ok()) return PlaceField(plan.status(), file_name, text, tree);
  return (*plan)->kernel();
}

}  // namespace tunefarm
