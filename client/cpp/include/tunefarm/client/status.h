// How a call ended: the library throws nothing. Plain values; one object is used by one thread at a time.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace tunefarm::client {

// The numbers are those of gRPC's status codes.
enum class Code {
  kOk = 0,
  kCancelled = 1,         // the client was closed, or the watch stopped
  kUnknown = 2,           // the daemon said something that this library does not know
  kInvalidArgument = 3,   // the message names the value and what to write instead
  kDeadlineExceeded = 4,  // the daemon may or may not have carried it out
  kNotFound = 5,          // no such kernel, job, device or file
  kAlreadyExists = 6,
  kPermissionDenied = 7,    // only the admin socket may do that
  kResourceExhausted = 8,   // a limit, of the daemon or of this library
  kFailedPrecondition = 9,  // not in this state
  kAborted = 10,            // may be repeated
  kOutOfRange = 11,
  kUnimplemented = 12,  // an older daemon, or a client without one (offline)
  kInternal = 13,       // a fault of the daemon's or of this library's
  kUnavailable = 14,    // no daemon answers; the message and the reason say why, where that is known
  kDataLoss = 15,       // a file is damaged
  kUnauthenticated = 16,
};

// "NOT_FOUND".
const char* CodeName(Code code);

struct Status {
  Code code = Code::kOk;
  std::string message;  // one sentence for people; empty for kOk
  std::string reason;   // stable UPPER_SNAKE word for programs ("KERNEL_NOT_FOUND"); empty where there is none

  bool ok() const { return code == Code::kOk; }
  // "NOT_FOUND: message [REASON]", or "OK".
  std::string ToText() const;
};

// A value, or why there is none. Asking a failed result for its value is a programming error: test ok() first.
template <typename T>
class Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: meant to convert
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: meant to convert; never of an OK status

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }

  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace tunefarm::client
