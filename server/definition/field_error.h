// Errors about one field of a definition or problem. Private to this folder.
//
// The status carries where it belongs, beside the message that says so: the path of the field, and for an expression
// the column in its text. The text loader turns both into a line and column of a file.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/base/status.h"

namespace tunefarm::definition {

// Limits on fields that are checked in several files.
inline constexpr int kDimsMax = 32;
inline constexpr size_t kNoteMax = 1024;  // bytes of a description or a reason

// Machine-readable reasons.
inline constexpr std::string_view kUnknownName = "UNKNOWN_NAME";
inline constexpr std::string_view kExpressionError = "EXPRESSION_ERROR";
inline constexpr std::string_view kDuplicateName = "DUPLICATE_NAME";
inline constexpr std::string_view kMissingField = "MISSING_FIELD";
inline constexpr std::string_view kInvalidField = "INVALID_FIELD";
inline constexpr std::string_view kConflictingFields = "CONFLICTING_FIELDS";
inline constexpr std::string_view kLimitExceeded = "LIMIT_EXCEEDED";
inline constexpr std::string_view kUnknownParameter = "UNKNOWN_PARAMETER";
inline constexpr std::string_view kUnknownDim = "UNKNOWN_DIM";
inline constexpr std::string_view kTypeMismatch = "TYPE_MISMATCH";
inline constexpr std::string_view kValueOutOfRange = "VALUE_OUT_OF_RANGE";
inline constexpr std::string_view kNotSupported = "NOT_SUPPORTED";
inline constexpr std::string_view kOptionNotAllowed = "OPTION_NOT_ALLOWED";
inline constexpr std::string_view kSyntaxError = "SYNTAX_ERROR";
inline constexpr std::string_view kUnknownField = "UNKNOWN_FIELD";
inline constexpr std::string_view kDeviceMismatch = "DEVICE_MISMATCH";

namespace internal {
absl::Status MakeFieldError(std::string_view path, std::string_view reason, fmt::string_view format,
                            fmt::format_args args);
}

// InvalidArgument "path: message". `path` may be empty (the whole message).
template <typename... Args>
absl::Status FieldError(std::string_view path, std::string_view reason, fmt::format_string<Args...> format,
                        Args&&... args) {
  return internal::MakeFieldError(path, reason, format, fmt::make_format_args(args...));
}

// From an error of the expression language: "path: expression error at column 7: ...", with a caret.
absl::Status ExpressionError(std::string_view path, const absl::Status& status);

// As the expression language would report it: for what only this folder knows to be wrong. `column` counts from 1.
absl::Status ExpressionErrorAt(std::string_view path, std::string_view text, int column, std::string_view reason,
                               std::string_view message);

// The column in the expression, 0 for errors that are not inside one.
int ExpressionColumnOf(const absl::Status& status);

// " (did you mean 'X'?)", or nothing.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace tunefarm::definition
