#pragma once

// Checks for programmer errors, on in every build. A failed check logs one critical line to stderr and aborts; whatever
// can go wrong in operation (a file, a peer, a user's input) is an absl::Status instead.

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tunefarm::internal {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);
[[noreturn]] void CheckOkFailed(const char* file, int line, const char* expression, const absl::Status& status);

inline void CheckOk(const char* file, int line, const char* expression, const absl::Status& status) {
  if (!status.ok()) CheckOkFailed(file, line, expression, status);
}
template <typename T>
void CheckOk(const char* file, int line, const char* expression, const absl::StatusOr<T>& value) {
  if (!value.ok()) CheckOkFailed(file, line, expression, value.status());
}

}  // namespace tunefarm::internal

#define TUNEFARM_CHECK(...) \
  (__builtin_expect(!(__VA_ARGS__), 0) ? ::tunefarm::internal::CheckFailed(__FILE__, __LINE__, #__VA_ARGS__) : (void)0)

// For a Status or a StatusOr that only a programmer error can make fail.
#define TUNEFARM_CHECK_OK(...) ::tunefarm::internal::CheckOk(__FILE__, __LINE__, #__VA_ARGS__, (__VA_ARGS__))
