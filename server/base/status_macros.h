#pragma once

// Early return on error, for functions that return absl::Status or absl::StatusOr<T>.

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define TUNEFARM_STATUS_CONCAT_INNER(a, b) a##b
#define TUNEFARM_STATUS_CONCAT(a, b) TUNEFARM_STATUS_CONCAT_INNER(a, b)

// RETURN_IF_ERROR(expr): evaluates an absl::Status once and returns it from the function unless it is OK.
#define RETURN_IF_ERROR(...) TUNEFARM_RETURN_IF_ERROR(TUNEFARM_STATUS_CONCAT(status_macro_, __COUNTER__), (__VA_ARGS__))
#define TUNEFARM_RETURN_IF_ERROR(status, expr)        \
  do {                                                \
    if (::absl::Status status = expr; !status.ok()) { \
      return status;                                  \
    }                                                 \
  } while (false)

// ASSIGN_OR_RETURN(lhs, expr): evaluates an absl::StatusOr once and returns its status unless it is OK, else moves the
// value into lhs, which may be a declaration ("auto x") without a comma outside parentheses. Two statements: give it
// braces under an if.
#define ASSIGN_OR_RETURN(lhs, ...) \
  TUNEFARM_ASSIGN_OR_RETURN(TUNEFARM_STATUS_CONCAT(status_or_macro_, __COUNTER__), lhs, (__VA_ARGS__))
#define TUNEFARM_ASSIGN_OR_RETURN(status_or, lhs, expr) \
  auto status_or = expr;                                \
  if (!status_or.ok()) {                                \
    return std::move(status_or).status();               \
  }                                                     \
  lhs = *std::move(status_or)
