// JSON that remembers where each value stands, so that every complaint about a file names a line, a column and a JSON
// pointer. Numbers, nesting and sizes of foreign files are bounded while they are read.
//
// A JsonDocument is read by one thread; once parsed it never changes and any thread may read it. A JsonRef is a view
// into its document, which must outlive it.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/status.h"

namespace tunefarm::interchange {

// Reasons of errors (ReasonOf).
inline constexpr std::string_view kBadJson = "BAD_JSON";          // not JSON, or over a limit of the reader
inline constexpr std::string_view kBadField = "BAD_FIELD";        // missing, of the wrong type or value
inline constexpr std::string_view kNotMappable = "NOT_MAPPABLE";  // read, but has no counterpart here

enum class JsonKind : uint8_t { kNull, kBool, kInt, kFloat, kString, kArray, kObject };
// "null", "a boolean", "a number", "a string", "an array", "an object".
std::string_view JsonKindName(JsonKind kind);

class JsonDocument;

class JsonRef {
 public:
  JsonKind kind() const;
  bool is_string() const { return kind() == JsonKind::kString; }
  bool is_object() const { return kind() == JsonKind::kObject; }
  bool is_array() const { return kind() == JsonKind::kArray; }
  bool is_int() const { return kind() == JsonKind::kInt; }
  bool is_number() const { return kind() == JsonKind::kInt || kind() == JsonKind::kFloat; }
  bool is_null() const { return kind() == JsonKind::kNull; }
  // An integer that does not fit in 64 bits: its kind is kFloat, and number() is rounded.
  bool is_rounded_int() const;

  // Each requires the kind it names; number() takes an int too.
  bool bool_value() const;
  int64_t int_value() const;
  double number() const;
  const std::string& text() const;

  // The member of an object; none for other kinds too. null counts as absent.
  std::optional<JsonRef> Find(std::string_view key) const;
  // Elements or members in the order of the file.
  std::vector<JsonRef> Children() const;
  // The name of a member; empty for the root and for elements.
  const std::string& key() const;

  // "/results/3/times" (RFC 6901).
  std::string Pointer() const;
  // InvalidArgument "FILE:12:7: /results/3/times: message".
  template <typename... Args>
  absl::Status Error(std::string_view reason, fmt::format_string<Args...> format, Args&&... args) const {
    return MakeError(reason, fmt::vformat(format, fmt::make_format_args(args...)));
  }

 private:
  friend class JsonDocument;
  friend class JsonBuilder;
  JsonRef(const JsonDocument* document, uint32_t index) : document_(document), index_(index) {}
  absl::Status MakeError(std::string_view reason, std::string_view message) const;

  const JsonDocument* document_;
  uint32_t index_;
};

struct JsonLimits {
  uint64_t bytes_max = uint64_t{1} << 20;
  uint32_t depth_max = 32;
  uint32_t values_max = 200'000;  // held at once
  // Reads NaN, Infinity and -Infinity, which Python writes and JSON does not have, as a NaN.
  bool takes_non_finite = false;
};

class JsonDocument {
 public:
  // InvalidArgument, located, for what is no JSON, repeats a key of an object, or is over a limit.
  static absl::StatusOr<std::unique_ptr<const JsonDocument>> Parse(std::string text, std::string file_name,
                                                                   const JsonLimits& limits = {});

  // For large files: the elements (or members) of the root's member `rows_key` are handed to `on_row` one by one in the
  // order of the file, and forgotten; an error of on_row ends the reading with it. The document returned holds the
  // rest. A text that just ends within or between rows, as that of a killed tuner does, is accepted where
  // `is_truncated` is given, and sets it; the row that is cut is dropped.
  static absl::StatusOr<std::unique_ptr<const JsonDocument>> ParseRows(
      std::string text, std::string file_name, std::string_view rows_key, const JsonLimits& limits, bool* is_truncated,
      const std::function<absl::Status(const JsonRef& row)>& on_row);

  JsonRef root() const { return JsonRef(this, 0); }
  const std::string& file_name() const { return file_name_; }

 private:
  friend class JsonRef;
  friend class JsonBuilder;
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Node {
    JsonKind kind = JsonKind::kNull;
    bool bool_value = false;
    bool is_rounded_int = false;
    int64_t int_value = 0;
    double number = 0;
    std::string text;
    std::string key;
    size_t offset = 0;      // of the value's first byte in the file
    uint32_t position = 0;  // among its siblings
    uint32_t parent = kNone, first_child = kNone, last_child = kNone, next = kNone, children = 0;
  };
  JsonDocument(std::string text, std::string file_name) : text_(std::move(text)), file_name_(std::move(file_name)) {}
  // "FILE:line:column" of a byte.
  std::string PlaceOf(size_t offset) const;

  std::string text_;
  std::string file_name_;
  std::vector<Node> nodes_;
};

}  // namespace tunefarm::interchange
