#pragma once

// Building absl::Status values from fmt format strings, and reading them back.
//
// absl::string_view is not std::string_view on every platform this builds on, so nothing else in the project calls the
// absl constructors. Messages are one clear sentence for the user: what failed, with which value, and what to do.
// Everything here is a pure function and may be called from any thread.

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace tunefarm {

namespace internal {
absl::Status MakeStatus(absl::StatusCode code, fmt::string_view format, fmt::format_args args);
absl::Status MakeAnnotated(const absl::Status& status, fmt::string_view format, fmt::format_args args);
absl::Status MakeErrnoStatus(int error, fmt::string_view format, fmt::format_args args);
std::string StatusText(const absl::Status& status);
}  // namespace internal

// One constructor per code. The format string is checked at compile time.
template <typename... Args>
absl::Status InvalidArgument(fmt::format_string<Args...> format, Args&&... args) {
  return internal::MakeStatus(absl::StatusCode::kInvalidArgument, format, fmt::make_format_args(args...));
}
template <typename... Args>
absl::Status NotFound(fmt::format_string<Args...> format, Args&&... args) {
  return internal::MakeStatus(absl::StatusCode::kNotFound, format, fmt::make_format_args(args...));
}
template <typename... Args>
absl::Status AlreadyExists(fmt::format_string<Args...> format, Args&&... args) {
  return internal::MakeStatus(absl::StatusCode::kAlreadyExists, format, fmt::make_format_args(args...));
}
template <typename... Args>
absl::Status FailedPrecondition(fmt::format_string<Args...> format, Args&&... args) {
  return internal::MakeStatus(absl::StatusCode::kFailedPrecondition, format, fmt::make_format_args(args...));
}
template <typename... Args>
absl::Status ResourceExhausted(fmt::format_string<Args...> format, Args&&... args) {
  return internal::MakeStatus(absl::StatusCode::kResourceExhausted, format, fmt::make_format_args(args...));
}
template <typename... Args>
absl::Status Unavailable(fmt::format_string<Args...> format, Args&&... args) {
  return internal::MakeStatus(absl::StatusCode::kUnavailable, format, fmt::make_format_args(args...));
}
template <typename... Args>
absl::Status Aborted(fmt::format_string<Args...> format, Args&&... args) {
  return internal::MakeStatus(absl::StatusCode::kAborted, format, fmt::make_format_args(args...));
}
template <typename... Args>
absl::Status DeadlineExceeded(fmt::format_string<Args...> format, Args&&... args) {
  return internal::MakeStatus(absl::StatusCode::kDeadlineExceeded, format, fmt::make_format_args(args...));
}
template <typename... Args>
absl::Status PermissionDenied(fmt::format_string<Args...> format, Args&&... args) {
  return internal::MakeStatus(absl::StatusCode::kPermissionDenied, format, fmt::make_format_args(args...));
}
template <typename... Args>
absl::Status Unauthenticated(fmt::format_string<Args...> format, Args&&... args) {
  return internal::MakeStatus(absl::StatusCode::kUnauthenticated, format, fmt::make_format_args(args...));
}
template <typename... Args>
absl::Status DataLoss(fmt::format_string<Args...> format, Args&&... args) {
  return internal::MakeStatus(absl::StatusCode::kDataLoss, format, fmt::make_format_args(args...));
}
template <typename... Args>
absl::Status Unimplemented(fmt::format_string<Args...> format, Args&&... args) {
  return internal::MakeStatus(absl::StatusCode::kUnimplemented, format, fmt::make_format_args(args...));
}
template <typename... Args>
absl::Status OutOfRange(fmt::format_string<Args...> format, Args&&... args) {
  return internal::MakeStatus(absl::StatusCode::kOutOfRange, format, fmt::make_format_args(args...));
}
template <typename... Args>
absl::Status Cancelled(fmt::format_string<Args...> format, Args&&... args) {
  return internal::MakeStatus(absl::StatusCode::kCancelled, format, fmt::make_format_args(args...));
}
template <typename... Args>
absl::Status Internal(fmt::format_string<Args...> format, Args&&... args) {
  return internal::MakeStatus(absl::StatusCode::kInternal, format, fmt::make_format_args(args...));
}

// The status with "context: " before its message; code and payloads are kept. An OK status stays OK.
template <typename... Args>
absl::Status Annotate(const absl::Status& status, fmt::format_string<Args...> format, Args&&... args) {
  if (status.ok()) return status;
  return internal::MakeAnnotated(status, format, fmt::make_format_args(args...));
}

// The one map from errno to a status: "context: No such file or directory" with the matching code (ENOENT is NotFound).
// `error` must be an errno value, not 0 (0 gives Internal).
template <typename... Args>
absl::Status ErrnoStatus(int error, fmt::format_string<Args...> format, Args&&... args) {
  return internal::MakeErrnoStatus(error, format, fmt::make_format_args(args...));
}

// The message; empty for OK. Valid while `status` lives and is not changed.
std::string_view MessageOf(const absl::Status& status);

// Attaches a machine-readable reason (UPPER_SNAKE, e.g. "LOCK_HELD") that survives Annotate and goes to clients. It
// replaces an earlier reason. No effect on an OK status.
absl::Status WithReason(absl::Status status, std::string_view reason);

// The attached reason, or an empty string.
std::string ReasonOf(const absl::Status& status);

// Attaches one value that the reason speaks of ("retry_after_ms"), which goes to clients with it. It replaces an
// earlier one of that name. No effect on an OK status.
absl::Status WithMetadata(absl::Status status, std::string_view name, std::string_view value);
std::map<std::string, std::string> MetadataOf(const absl::Status& status);

}  // namespace tunefarm

// "{}" prints "NOT_FOUND: message", or "OK".
template <>
struct fmt::formatter<absl::Status> {
  constexpr auto parse(format_parse_context& context) -> decltype(context.begin()) { return context.begin(); }
  template <typename Context>
  auto format(const absl::Status& status, Context& context) const -> decltype(context.out()) {
    // Not format_to: clang 14 names its instance otherwise than Debian's libfmt, which g++ built, and cannot link.
    const std::string text = tunefarm::internal::StatusText(status);
    return std::copy(text.begin(), text.end(), context.out());
  }
};
