// kernel.pbtxt: protobuf text to a Kernel, with every error placed in the text.
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/assembled_text.h"
#include "server/definition/checker.h"
#include "server/definition/field_error.h"
#include "server/definition/kernel_plan.h"
#include "server/definition/plan_impl.h"
#include "server/definition/short_forms.h"
#include "server/definition/text_location.h"

namespace tunefarm {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

constexpr int kNestingMax = 32;
constexpr size_t kErrorsShownMax = 20;

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

// A definition's text while it is read: all errors are placed in the files that people wrote.
class DefinitionText {
 public:
  DefinitionText(std::string_view text, std::string_view file_name,
                 const definition::AssembledText::ReadIncluded& read_included)
      : assembled_(text, file_name, read_included),
        expanded_(definition::ExpandShortForms(assembled_.text(), v1::Kernel::descriptor())) {}

  absl::StatusOr<v1::Kernel> Parse() {
    if (!assembled_.errors().empty()) return Joined(assembled_.errors(), assembled_.errors().size());
    if (!expanded_.errors.empty()) {
      std::vector<absl::Status> errors;
      for (const auto& error : expanded_.errors) errors.push_back(assembled_.Place(error.status, error.offset));
      return Joined(errors, errors.size());
    }
    FirstError error;
    TextFormat::Parser parser;
    parser.RecordErrorsTo(&error);
    parser.WriteLocationsTo(&tree_);
    parser.SetRecursionLimit(kNestingMax);
    v1::Kernel kernel;
    if (!parser.ParseFromString(expanded_.text, &kernel)) {
      const size_t offset = definition::TextLocations(expanded_.text, &tree_).OffsetOf(error.line(), error.column());
      const std::string message = error.message().empty() ? "the text cannot be parsed" : error.message();
      return assembled_.Place(WithReason(InvalidArgument("{}", message), definition::kSyntaxError),
                              expanded_.OriginalOffset(offset));
    }
    if (const auto path = FirstBadText(kernel, ""); path.has_value()) {
      return PlaceFields({definition::FieldError(*path, definition::kInvalidField, "the text is not UTF-8")});
    }
    return kernel;
  }

  // Errors about fields of the message that Parse returned, as one. There is at least one.
  absl::Status PlaceFields(const std::vector<absl::Status>& errors) const {
    const definition::TextLocations locations(expanded_.text, &tree_);
    std::vector<absl::Status> placed;
    for (const absl::Status& error : errors) {
      if (placed.size() == kErrorsShownMax) break;
      const size_t offset =
          locations.Find(FieldPathOf(error), v1::Kernel::descriptor(), definition::ExpressionColumnOf(error));
      placed.push_back(assembled_.Place(error, expanded_.OriginalOffset(offset)));
    }
    return Joined(placed, errors.size());
  }

 private:
  // The first error with the lines of all: of those that are given, and how many more there are of `total`.
  static absl::Status Joined(const std::vector<absl::Status>& errors, size_t total) {
    if (total == 1) return errors.front();
    std::string message;
    for (const absl::Status& error : errors)
      message += fmt::format("{}{}", message.empty() ? "" : "\n", MessageOf(error));
    if (total > errors.size()) message += fmt::format("\nand {} more errors", total - errors.size());
    absl::Status joined = InvalidArgument("{}", message);
    errors.front().ForEachPayload(
        [&joined](absl::string_view url, const absl::Cord& payload) { joined.SetPayload(url, payload); });
    return joined;
  }

  definition::AssembledText assembled_;
  definition::ExpandedText expanded_;
  TextFormat::ParseInfoTree tree_;
};

absl::Status CheckSize(std::string_view text, std::string_view file_name) {
  if (text.size() <= definition::kTextMax) return absl::OkStatus();
  return WithReason(InvalidArgument("{}:1:1: the definition has {} bytes; at most {} are allowed", file_name,
                                    text.size(), definition::kTextMax),
                    definition::kLimitExceeded);
}

}  // namespace

absl::StatusOr<v1::Kernel> ParseKernelText(std::string_view text, std::string_view file_name) {
  RETURN_IF_ERROR(CheckSize(text, file_name));
  return DefinitionText(text, file_name, nullptr).Parse();
}

absl::StatusOr<v1::Kernel> LoadKernelText(
    std::string_view text, std::string_view file_name,
    const std::function<absl::StatusOr<std::string>(const std::string& path)>& read_file) {
  RETURN_IF_ERROR(CheckSize(text, file_name));
  DefinitionText definition_text(text, file_name, read_file);
  ASSIGN_OR_RETURN(v1::Kernel kernel, definition_text.Parse());
  std::vector<absl::Status> errors;
  // Nothing is read that a definition may not name; the checks say so.
  const int sources = std::min(kernel.sources_size(), definition::kSourcesMax);
  for (int i = 0; i < sources; ++i) {
    v1::SourceFile* source = kernel.mutable_sources(i);
    if (!source->content().empty()) continue;
    const std::string field = fmt::format("sources[{}].path", i);
    if (!definition::CheckSourcePath(field, source->path()).ok()) continue;
    auto content = read_file(source->path());
    if (!content.ok()) {
      errors.push_back(definition::FieldError(field, definition::kMissingField, "the source '{}' cannot be read: {}",
                                              source->path(), MessageOf(content.status())));
      content = "\n";  // So that the rest is checked too.
    }
    source->set_content(*std::move(content));
  }
  const auto checked = definition::CheckDefinition(kernel, &errors);
  if (!errors.empty()) return definition_text.PlaceFields(errors);
  return (*checked)->kernel;
}

}  // namespace tunefarm
