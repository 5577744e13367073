#pragma once

// One line per event, to stderr: "2026-01-02T03:04:05.678Z info exec message key=value". The layer that handles an
// error logs it once; layers that return it do not. error: a human must act. warn: degraded and healing itself. info:
// state transitions. debug: per trial. Thread-safe; usable before InitLogging (stderr, level info). A message stays one
// line: control characters in it are escaped.

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace tunefarm {

enum class LogLevel : int { kDebug = 0, kInfo = 1, kWarn = 2, kError = 3, kOff = 4 };

// "debug", "info", "warn", "error" or "off". InvalidArgument otherwise.
absl::StatusOr<LogLevel> ParseLogLevel(std::string_view text);
std::string_view LogLevelName(LogLevel level);

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  // Exceptions by subsystem, "exec=debug,store=info"; an item without "=" replaces `level`. At most 64 items.
  std::string subsystem_levels = {};
  // One JSON object a line: {"ts":…,"level":…,"subsystem":…,"message":…}.
  bool json_lines = false;
};

// Replaces the settings. InvalidArgument, and nothing changed, when subsystem_levels cannot be parsed.
absl::Status InitLogging(const LogOptions& options);

// Receives what would have gone to stderr, on the logging thread, one call at a time; it must not log. An empty sink
// restores stderr. For tests.
using LogSink = std::function<void(LogLevel level, std::string_view subsystem, std::string_view message)>;
void SetLogSink(LogSink sink);

bool LogEnabled(LogLevel level, std::string_view subsystem);

namespace internal {
void LogFormatted(LogLevel level, std::string_view subsystem, fmt::string_view format, fmt::format_args args);
// The last line of a process that is about to abort; skips levels and sinks.
void LogCritical(std::string_view message);
}  // namespace internal

// Arguments are formatted only if the line will be written. `subsystem` is the folder's name: "exec", "store".
template <typename... Args>
void LogDebug(std::string_view subsystem, fmt::format_string<Args...> format, Args&&... args) {
  if (!LogEnabled(LogLevel::kDebug, subsystem)) return;
  internal::LogFormatted(LogLevel::kDebug, subsystem, format, fmt::make_format_args(args...));
}
template <typename... Args>
void LogInfo(std::string_view subsystem, fmt::format_string<Args...> format, Args&&... args) {
  if (!LogEnabled(LogLevel::kInfo, subsystem)) return;
  internal::LogFormatted(LogLevel::kInfo, subsystem, format, fmt::make_format_args(args...));
}
template <typename... Args>
void LogWarn(std::string_view subsystem, fmt::format_string<Args...> format, Args&&... args) {
  if (!LogEnabled(LogLevel::kWarn, subsystem)) return;
  internal::LogFormatted(LogLevel::kWarn, subsystem, format, fmt::make_format_args(args...));
}
template <typename... Args>
void LogError(std::string_view subsystem, fmt::format_string<Args...> format, Args&&... args) {
  if (!LogEnabled(LogLevel::kError, subsystem)) return;
  internal::LogFormatted(LogLevel::kError, subsystem, format, fmt::make_format_args(args...));
}

// Thins out a repeated warning: at most one per interval. Thread-safe. The clock must outlive it.
//   uint64_t skipped;
//   if (limit_.Allow(&skipped)) LogWarn("agent", "GPU throttled skipped={}", skipped);
class LogRateLimit {
 public:
  LogRateLimit(Clock* clock, Duration interval) : clock_(clock), interval_(interval) {}

  // True for the first call and whenever the interval has passed since the last true; `skipped` (may be null) then gets
  // the number of calls refused in between.
  bool Allow(uint64_t* skipped) LOCKS_EXCLUDED(mutex_);

 private:
  Clock* const clock_;
  const Duration interval_;
  Mutex mutex_;
  bool allowed_once_ GUARDED_BY(mutex_) = false;
  MonotonicTime last_ GUARDED_BY(mutex_);
  uint64_t skipped_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tunefarm
