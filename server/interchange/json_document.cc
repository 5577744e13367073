#include "server/interchange/json_document.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "server/base/log_escape.h"
#include "server/base/status_macros.h"

namespace tunefarm::interchange {
namespace {

constexpr size_t kMessageMax = 300;

// What stands for a NaN while nlohmann reads, as long as its name: a string of a control character that JSON allows.
constexpr std::string_view kNanString = "\x7f";
constexpr std::string_view kNanToken = "\"\x7f\"";

// Replaces NaN, Infinity and -Infinity outside strings by kNanToken and blanks; places stay.
void ReplaceNonFinite(std::string* text) {
  bool is_in_string = false;
  for (size_t at = 0; at < text->size(); ++at) {
    const char c = (*text)[at];
    if (is_in_string && c == '\\') {
      ++at;
    } else if (c == '"') {
      is_in_string = !is_in_string;
    } else if (!is_in_string && (c == 'N' || c == 'I')) {
      const std::string_view word = c == 'N' ? "NaN" : "Infinity";
      if (text->compare(at, word.size(), word) != 0) continue;
      const size_t start = at > 0 && (*text)[at - 1] == '-' ? at - 1 : at;
      std::string blank(at + word.size() - start, ' ');
      blank.replace(0, kNanToken.size(), kNanToken);
      text->replace(start, blank.size(), blank);
      at = start + blank.size() - 1;
    }
  }
}

// Reads the text and tells how far reading has come: nlohmann's handlers are not told where a value stands.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** seen) : at_(at), seen_(seen) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    if (seen_ != nullptr) *seen_ = at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator old = *this;
    ++*this;
    return old;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }
  friend bool operator!=(const CountingIterator& a, const CountingIterator& b) { return a.at_ != b.at_; }

 private:
  const char* at_;
  const char** seen_;
};

// What nlohmann says without its own prefix and place: "syntax error while parsing value - ...".
std::string SyntaxMessage(const char* what) {
  std::string message = what;
  if (const size_t column = message.find("column "); column != std::string::npos) {
    if (const size_t colon = message.find(": ", column); colon != std::string::npos) message.erase(0, colon + 2);
  }
  if (message.size() > kMessageMax) {
    message.resize(kMessageMax);
    message += "...";
  }
  return message;
}

}  // namespace

std::string_view JsonKindName(JsonKind kind) {
  switch (kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBool:
      return "a boolean";
    case JsonKind::kInt:
    case JsonKind::kFloat:
      return "a number";
    case JsonKind::kString:
      return "a string";
    case JsonKind::kArray:
      return "an array";
    case JsonKind::kObject:
      return "an object";
  }
  return "a value";
}

JsonKind JsonRef::kind() const { return document_->nodes_[index_].kind; }
bool JsonRef::bool_value() const { return document_->nodes_[index_].bool_value; }
int64_t JsonRef::int_value() const { return document_->nodes_[index_].int_value; }
double JsonRef::number() const { return document_->nodes_[index_].number; }
bool JsonRef::is_rounded_int() const { return document_->nodes_[index_].is_rounded_int; }
const std::string& JsonRef::text() const { return document_->nodes_[index_].text; }
const std::string& JsonRef::key() const { return document_->nodes_[index_].key; }

std::optional<JsonRef> JsonRef::Find(std::string_view key) const {
  if (!is_object()) return std::nullopt;
  for (uint32_t child = document_->nodes_[index_].first_child; child != JsonDocument::kNone;
       child = document_->nodes_[child].next) {
    const JsonDocument::Node& node = document_->nodes_[child];
    if (node.key == key) return node.kind == JsonKind::kNull ? std::nullopt : std::optional(JsonRef(document_, child));
  }
  return std::nullopt;
}

std::vector<JsonRef> JsonRef::Children() const {
  std::vector<JsonRef> children;
  children.reserve(document_->nodes_[index_].children);
  for (uint32_t child = document_->nodes_[index_].first_child; child != JsonDocument::kNone;
       child = document_->nodes_[child].next) {
    children.push_back(JsonRef(document_, child));
  }
  return children;
}

std::string JsonRef::Pointer() const {
  std::vector<std::string> parts;
  for (uint32_t at = index_; document_->nodes_[at].parent != JsonDocument::kNone; at = document_->nodes_[at].parent) {
    const JsonDocument::Node& node = document_->nodes_[at];
    if (document_->nodes_[node.parent].kind == JsonKind::kArray) {
      parts.push_back(std::to_string(node.position));
      continue;
    }
    std::string part;
    for (const char c : node.key) part += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    parts.push_back(std::move(part));
  }
  std::string pointer;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) pointer += "/" + *part;
  return pointer;
}

absl::Status JsonRef::MakeError(std::string_view reason, std::string_view message) const {
  const size_t offset = document_->nodes_[index_].offset;
  const std::string pointer = Pointer();
  return WithReason(InvalidArgument("{}: {}{}", document_->PlaceOf(std::min(offset, document_->text_.size())),
                                    pointer.empty() ? "" : internal::EscapeForText(pointer) + ": ", message),
                    reason);
}

std::string JsonDocument::PlaceOf(size_t offset) const {
  const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
  const size_t line_start = offset == 0 ? std::string::npos : text_.rfind('\n', offset - 1);
  const size_t column = line_start == std::string::npos ? offset + 1 : offset - line_start;
  return fmt::format("{}:{}:{}", file_name_, line, column);
}

// Receives nlohmann's events and builds the nodes.
class JsonBuilder {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  JsonBuilder(JsonDocument* document, const JsonLimits& limits, std::string_view rows_key,
              const std::function<absl::Status(const JsonRef&)>* on_row)
      : document_(document), limits_(limits), rows_key_(rows_key), on_row_(on_row), seen_(document->text_.data()) {}

  absl::Status Run(bool* is_truncated) {
    const std::string& text = document_->text_;
    if (text.size() > limits_.bytes_max) {
      return WithReason(InvalidArgument("{}:1:1: the file has {} bytes; at most {} are read", document_->file_name_,
                                        text.size(), limits_.bytes_max),
                        kBadJson);
    }
    if (limits_.takes_non_finite) ReplaceNonFinite(&document_->text_);
    const char* const end = text.data() + text.size();
    const bool is_complete =
        nlohmann::json::sax_parse(CountingIterator(text.data(), &seen_), CountingIterator(end, nullptr), this,
                                  nlohmann::json::input_format_t::json);
    if (is_complete) return absl::OkStatus();
    if (is_syntax_error_ && is_truncated != nullptr && rows_ != JsonDocument::kNone && error_offset_ >= text.size()) {
      *is_truncated = true;
      return absl::OkStatus();
    }
    return status_;
  }

  // NOLINTBEGIN(readability-identifier-naming): the names are nlohmann's.
  bool null() { return Add(JsonKind::kNull, Seen() - 4) != nullptr && Closed(); }
  bool boolean(bool value) {
    JsonDocument::Node* node = Add(JsonKind::kBool, Seen() - (value ? 4 : 5));
    if (node == nullptr) return false;
    node->bool_value = value;
    return Closed();
  }
  bool number_integer(number_integer_t value) { return AddInt(value); }
  bool number_unsigned(number_unsigned_t value) {
    if (value <= static_cast<number_unsigned_t>(INT64_MAX)) return AddInt(static_cast<int64_t>(value));
    return number_float(static_cast<double>(value), "9223372036854775808");
  }
  bool number_float(number_float_t value, const string_t& text) {
    JsonDocument::Node* node = Add(JsonKind::kFloat, NumberStart());
    if (node == nullptr) return false;
    node->number = value;
    node->is_rounded_int = text.find_first_of(".eE") == string_t::npos;
    return Closed();
  }
  bool string(string_t& value) {
    const bool is_nan = limits_.takes_non_finite && value == kNanString;
    JsonDocument::Node* node = Add(is_nan ? JsonKind::kFloat : JsonKind::kString, StringStart());
    if (node == nullptr) return false;
    if (is_nan) node->number = std::numeric_limits<double>::quiet_NaN();
    node->text = std::move(value);
    return Closed();
  }
  bool binary(binary_t& /*value*/) { return false; }
  bool start_object(size_t /*size*/) { return Open(JsonKind::kObject); }
  bool start_array(size_t /*size*/) { return Open(JsonKind::kArray); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(string_t& value) {
    const size_t offset = StringStart();
    if (!open_.back().keys.insert(value).second) {
      return Fail(offset,
                  fmt::format("the key \"{}\" stands here twice", internal::EscapeForText(value.substr(0, 64))));
    }
    key_ = std::move(value);
    return true;
  }
  bool parse_error(size_t position, const std::string& last_token, const nlohmann::json::exception& error) {
    is_syntax_error_ = true;
    error_offset_ = Seen();
    // The token's beginning; where it was printed with escapes, its end.
    const size_t end = std::min(position, document_->text_.size());
    const size_t start = last_token.size() <= end ? end - last_token.size() : end;
    const bool is_as_written = document_->text_.compare(start, end - start, last_token) == 0;
    return Fail(is_as_written || end == 0 ? start : end - 1,
                "this is not valid JSON: " + internal::EscapeForText(SyntaxMessage(error.what())));
  }
  // NOLINTEND(readability-identifier-naming)

 private:
  struct OpenContainer {
    uint32_t index;
    std::set<std::string, std::less<>> keys;
  };

  size_t Seen() const { return static_cast<size_t>(seen_ - document_->text_.data()); }

  // The reader stands behind the closing quote; quotes inside are escaped.
  size_t StringStart() const {
    const std::string& text = document_->text_;
    size_t at = Seen() - 1;
    while (at > 0) {
      --at;
      if (text[at] != '"') continue;
      size_t backslashes = 0;
      while (backslashes < at && text[at - 1 - backslashes] == '\\') ++backslashes;
      if (backslashes % 2 == 0) break;
    }
    return at;
  }

  // The reader stands behind the number or one byte further.
  size_t NumberStart() const {
    const std::string& text = document_->text_;
    const auto is_part = [](char c) {
      return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
    };
    size_t at = Seen();
    if (at > 0 && !is_part(text[at - 1])) --at;
    while (at > 0 && is_part(text[at - 1])) --at;
    return at;
  }

  bool Fail(size_t offset, const std::string& message) {
    status_ = WithReason(InvalidArgument("{}: {}", document_->PlaceOf(offset), message), kBadJson);
    return false;
  }

  bool AddInt(int64_t value) {
    JsonDocument::Node* node = Add(JsonKind::kInt, NumberStart());
    if (node == nullptr) return false;
    node->int_value = value;
    node->number = static_cast<double>(value);
    return Closed();
  }

  JsonDocument::Node* Add(JsonKind kind, size_t offset) {
    std::vector<JsonDocument::Node>& nodes = document_->nodes_;
    if (nodes.size() >= limits_.values_max) {
      Fail(offset, fmt::format("there are more than {} values", limits_.values_max));
      return nullptr;
    }
    const auto index = static_cast<uint32_t>(nodes.size());
    JsonDocument::Node node;
    node.kind = kind;
    node.offset = offset;
    if (!open_.empty()) {
      node.parent = open_.back().index;
      JsonDocument::Node& parent = nodes[node.parent];
      if (parent.kind == JsonKind::kObject) node.key = std::move(key_);
      node.position = parent.children++;
      if (parent.last_child == JsonDocument::kNone) {
        parent.first_child = index;
      } else {
        nodes[parent.last_child].next = index;
      }
      parent.last_child = index;
    }
    key_.clear();
    nodes.push_back(std::move(node));
    return &nodes.back();
  }

  bool Open(JsonKind kind) {
    if (open_.size() >= limits_.depth_max) {
      return Fail(Seen() - 1, fmt::format("values are nested more than {} deep", limits_.depth_max));
    }
    if (Add(kind, Seen() - 1) == nullptr) return false;
    const auto index = static_cast<uint32_t>(document_->nodes_.size() - 1);
    if (on_row_ != nullptr && open_.size() == 1 && document_->nodes_[index].key == rows_key_) rows_ = index;
    open_.push_back({index, {}});
    return true;
  }

  bool Close() {
    open_.pop_back();
    return Closed();
  }

  // A value is complete: a row is handed on and forgotten.
  bool Closed() {
    if (on_row_ == nullptr || open_.size() != 2 || open_.back().index != rows_) return true;
    std::vector<JsonDocument::Node>& nodes = document_->nodes_;
    const uint32_t row = nodes[rows_].last_child;
    status_ = (*on_row_)(JsonRef(document_, row));
    if (!status_.ok()) return false;
    nodes.resize(row);
    // The count stays: it numbers the next row.
    nodes[rows_].first_child = nodes[rows_].last_child = JsonDocument::kNone;
    // Which names of a table of millions were seen is not remembered; readers that care look themselves.
    open_.back().keys.clear();
    return true;
  }

  JsonDocument* const document_;
  const JsonLimits& limits_;
  const std::string_view rows_key_;
  const std::function<absl::Status(const JsonRef&)>* const on_row_;
  const char* seen_;
  std::string key_;
  std::vector<OpenContainer> open_;
  uint32_t rows_ = JsonDocument::kNone;
  bool is_syntax_error_ = false;
  size_t error_offset_ = 0;
  absl::Status status_;
};

absl::StatusOr<std::unique_ptr<const JsonDocument>> JsonDocument::Parse(std::string text, std::string file_name,
                                                                        const JsonLimits& limits) {
  std::unique_ptr<JsonDocument> document(new JsonDocument(std::move(text), std::move(file_name)));
  RETURN_IF_ERROR(JsonBuilder(document.get(), limits, "", nullptr).Run(nullptr));
  return document;
}

absl::StatusOr<std::unique_ptr<const JsonDocument>> JsonDocument::ParseRows(
    std::string text, std::string file_name, std::string_view rows_key, const JsonLimits& limits, bool* is_truncated,
    const std::function<absl::Status(const JsonRef& row)>& on_row) {
  std::unique_ptr<JsonDocument> document(new JsonDocument(std::move(text), std::move(file_name)));
  RETURN_IF_ERROR(JsonBuilder(document.get(), limits, rows_key, &on_row).Run(is_truncated));
  return document;
}

}  // namespace tunefarm::interchange
