#include "server/base/log.h"

#include <fcntl.h>
#include <spdlog/details/log_msg.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "server/base/file.h"
#include "server/base/log_escape.h"
#include "server/base/log_file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/unique_fd.h"

namespace tunefarm {
namespace {

constexpr size_t kSubsystemLevelsMax = 64;
constexpr size_t kMessageBytesMax = 16 * 1024;

struct Levels {
  LogLevel fallback = LogLevel::kInfo;
  std::vector<std::pair<std::string, LogLevel>> by_subsystem;
};

// Null until InitLogging: the defaults.
std::atomic<const Levels*> current_levels = nullptr;
std::atomic<bool> json_lines = false;

std::unique_ptr<spdlog::pattern_formatter> NewFormatter(bool json) {
  const char* pattern = json ? R"({"ts":"%Y-%m-%dT%H:%M:%S.%eZ",%v})" : "%Y-%m-%dT%H:%M:%S.%eZ %v";
  return std::make_unique<spdlog::pattern_formatter>(pattern, spdlog::pattern_time_type::utc);
}

// Everything behind the mutex. Never destroyed: threads may log while the process exits.
struct Output {
  Output() { stderr_sink.set_formatter(NewFormatter(false)); }

  static Output& Get() {
    static Output* const output = new Output;
    return *output;
  }

  Mutex mutex;
  spdlog::sinks::stderr_sink_st stderr_sink GUARDED_BY(mutex);
  std::unique_ptr<spdlog::sinks::rotating_file_sink_st> file_sink GUARDED_BY(mutex);  // null: stderr
  LogSink sink GUARDED_BY(mutex);
  // Old settings stay alive, since LogEnabled reads them without the mutex; there are a few in a process's life.
  std::vector<std::unique_ptr<const Levels>> all_levels GUARDED_BY(mutex);
};

spdlog::string_view_t ToSpdlog(std::string_view text) { return {text.data(), text.size()}; }

// What follows the time stamp.
std::string Payload(bool json, std::string_view level, std::string_view subsystem, std::string_view message) {
  if (!json) return fmt::format("{} {} {}", level, subsystem, internal::EscapeForText(message));
  return fmt::format(R"("level":"{}","subsystem":"{}","message":"{}")", level, internal::EscapeForJson(subsystem),
                     internal::EscapeForJson(message));
}

absl::StatusOr<Levels> ParseLevels(const LogOptions& options) {
  Levels levels;
  levels.fallback = options.level;
  std::string_view rest = options.subsystem_levels;
  size_t items = 0;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    if (++items > kSubsystemLevelsMax) return InvalidArgument("more than {} log levels", kSubsystemLevelsMax);
    const size_t equals = item.find('=');
    const std::string_view name = equals == std::string_view::npos ? "" : item.substr(0, equals);
    if (equals == 0) return InvalidArgument("log level \"{}\" lacks the subsystem before \"=\"", item);
    ASSIGN_OR_RETURN(const LogLevel level,
                     ParseLogLevel(item.substr(equals == std::string_view::npos ? 0 : equals + 1)));
    if (name.empty()) {
      levels.fallback = level;
    } else {
      levels.by_subsystem.emplace_back(name, level);
    }
  }
  // The last one given for a name wins.
  std::reverse(levels.by_subsystem.begin(), levels.by_subsystem.end());
  return levels;
}

}  // namespace

std::string_view LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kError:
      return "error";
    case LogLevel::kOff:
      return "off";
  }
  return "unknown";
}

absl::StatusOr<LogLevel> ParseLogLevel(std::string_view text) {
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError, LogLevel::kOff}) {
    if (text == LogLevelName(level)) return level;
  }
  return InvalidArgument("unknown log level \"{}\"; use debug, info, warn, error or off", text);
}

absl::Status InitLogging(const LogOptions& options) {
  ASSIGN_OR_RETURN(Levels levels, ParseLevels(options));
  Output& output = Output::Get();
  MutexLock lock(&output.mutex);
  output.all_levels.push_back(std::make_unique<const Levels>(std::move(levels)));
  current_levels.store(output.all_levels.back().get(), std::memory_order_release);
  json_lines.store(options.json_lines, std::memory_order_relaxed);
  output.stderr_sink.set_formatter(NewFormatter(options.json_lines));
  if (output.file_sink != nullptr) output.file_sink->set_formatter(NewFormatter(options.json_lines));
  return absl::OkStatus();
}

absl::Status LogToFile(const std::string& path, int64_t bytes_max, int files_max) {
  Output& output = Output::Get();
  if (path.empty()) {
    MutexLock lock(&output.mutex);
    output.file_sink = nullptr;
    return absl::OkStatus();
  }
  if (bytes_max < 1 || files_max < 1 || files_max > 100) {
    return InvalidArgument("{} log files of {} bytes: there must be 1 to 100 of at least one byte", files_max,
                           bytes_max);
  }
  // Opened here first: for the mode, and because the library says less about what is wrong.
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!file.valid()) return ErrnoStatus(errno, "opening the log file {}", path);
  RETURN_IF_ERROR(MakePrivate(path));
  MutexLock lock(&output.mutex);
  try {
    // The library makes the later ones, with the mode of the umask.
    spdlog::file_event_handlers handlers;
    handlers.after_open = [](const spdlog::filename_t& name, std::FILE*) { (void)MakePrivate(name); };
    auto sink = std::make_unique<spdlog::sinks::rotating_file_sink_st>(
        path, static_cast<size_t>(bytes_max), static_cast<size_t>(files_max - 1), false, handlers);
    sink->set_formatter(NewFormatter(json_lines.load(std::memory_order_relaxed)));
    output.file_sink = std::move(sink);
  } catch (const std::exception& error) {
    return InvalidArgument("the log file {} cannot be used: {}", path, error.what());
  }
  return absl::OkStatus();
}

void SetLogSink(LogSink sink) {
  Output& output = Output::Get();
  MutexLock lock(&output.mutex);
  output.sink.swap(sink);
}

bool LogEnabled(LogLevel level, std::string_view subsystem) {
  const Levels* levels = current_levels.load(std::memory_order_acquire);
  if (levels == nullptr) return level >= LogLevel::kInfo;
  for (const auto& [name, own_level] : levels->by_subsystem) {
    if (name == subsystem) return level >= own_level;
  }
  return level >= levels->fallback;
}

namespace internal {

void LogFormatted(LogLevel level, std::string_view subsystem, fmt::string_view format, fmt::format_args args) {
  std::string message = fmt::vformat(format, args);
  if (message.size() > kMessageBytesMax) {
    message.resize(kMessageBytesMax);
    message += " [cut]";
  }
  Output& output = Output::Get();
  MutexLock lock(&output.mutex);
  if (output.sink) {
    output.sink(level, subsystem, message);
    return;
  }
  const std::string payload =
      Payload(json_lines.load(std::memory_order_relaxed), LogLevelName(level), subsystem, message);
  try {
    const spdlog::details::log_msg line("", spdlog::level::info, ToSpdlog(payload));
    if (output.file_sink != nullptr) {
      output.file_sink->log(line);
      output.file_sink->flush();
    } else {
      output.stderr_sink.log(line);
    }
  } catch (const std::exception&) {
    // It is closed or full: there is nowhere left to say so.
  }
}

void LogCritical(std::string_view message) {
  // Without the mutex: the check that failed may have done so while this thread was logging.
  const bool json = json_lines.load(std::memory_order_relaxed);
  const std::string payload = Payload(json, "critical", "base", message);
  spdlog::memory_buf_t line;
  NewFormatter(json)->format(spdlog::details::log_msg("", spdlog::level::critical, ToSpdlog(payload)), line);
  [[maybe_unused]] const ssize_t wrote = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace internal

bool LogRateLimit::Allow(uint64_t* skipped) {
  const MonotonicTime now = clock_->Now();
  MutexLock lock(&mutex_);
  if (allowed_once_ && now - last_ < interval_) {
    ++skipped_;
    return false;
  }
  allowed_once_ = true;
  last_ = now;
  if (skipped != nullptr) *skipped = skipped_;
  skipped_ = 0;
  return true;
}

}  // namespace tunefarm
