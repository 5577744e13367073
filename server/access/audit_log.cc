#include "server/access/audit_log.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <utility>

#include "server/base/file.h"
#include "server/base/log_escape.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr size_t kQueueMax = 8192;
constexpr size_t kPeersMax = 10'000;
constexpr size_t kFieldBytesMax = 200;
constexpr size_t kMessageBytesMax = 500;
// Of one peer.
constexpr double kRefusalsPerSecond = 2;
constexpr double kRefusalsAtOnce = 20;

// The inside of a JSON string, cut.
std::string Cut(std::string_view text, size_t bytes_max = kFieldBytesMax) {
  std::string cut = internal::EscapeForJson(text.substr(0, bytes_max));
  if (text.size() > bytes_max) cut += "...";
  return cut;
}

std::string TimeText(int64_t wall_ms) {
  const std::time_t seconds = wall_ms / 1000;
  std::tm utc = {};
  gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:03}Z", text, wall_ms % 1000);
}

// "ipv4:10.0.0.7:51234" without the port.
std::string HostOf(const std::string& peer) {
  const size_t colon = peer.rfind(':');
  return colon == std::string::npos ? peer : peer.substr(0, colon);
}

std::string LineOf(const AuditEntry& entry, int64_t wall_ms, uint64_t left_out) {
  std::string line =
      fmt::format(R"({{"time":"{}","principal":"{}","kind":"{}","peer":"{}","call":"{}","resource":"{}",)"
                  R"("outcome":"{}","reason":"{}")",
                  TimeText(wall_ms), Cut(entry.principal), Cut(entry.kind), Cut(entry.peer), Cut(entry.call),
                  Cut(entry.resource), absl::StatusCodeToString(entry.outcome.code()), Cut(ReasonOf(entry.outcome)));
  if (!entry.outcome.ok()) line += fmt::format(R"(,"message":"{}")", Cut(MessageOf(entry.outcome), kMessageBytesMax));
  if (left_out > 0) line += fmt::format(R"(,"left_out":{})", left_out);
  return line + "}\n";
}

std::string RotatedName(const std::string& path, int number) {
  if (number == 0) return path;
  const size_t dot = path.rfind('.');
  return fmt::format("{}.{}{}", path.substr(0, dot), number, path.substr(dot));
}

}  // namespace

AuditLog::AuditLog(const AuditOptions& options)
    : options_(options), failures_(options.clock, std::chrono::minutes(1)), executor_("audit", options.clock) {}

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const AuditOptions& options) {
  std::unique_ptr<AuditLog> log(new AuditLog(options));
  RETURN_IF_ERROR(log->OpenFile());
  return log;
}

AuditLog::~AuditLog() = default;

AuditStats AuditLog::stats() const { return {written_.load(), refusals_.load(), left_out_.load(), lost_.load()}; }

void AuditLog::Record(AuditEntry entry) {
  const MonotonicTime now = options_.clock->Now();
  MutexLock lock(&mutex_);
  uint64_t left_out = 0;
  if (!entry.outcome.ok()) {
    refusals_.fetch_add(1);
    if (peers_.size() >= kPeersMax) peers_.clear();
    Peer& peer = peers_.try_emplace(HostOf(entry.peer), Peer{TokenBucket(kRefusalsPerSecond, kRefusalsAtOnce, now)})
                     .first->second;
    if (peer.bucket.Take(now) != Duration::zero()) {
      ++peer.left_out;
      left_out_.fetch_add(1);
      return;
    }
    left_out = std::exchange(peer.left_out, 0);
  }
  if (queue_.size() >= kQueueMax) {
    lost_.fetch_add(1);
    return;
  }
  queue_.push_back(LineOf(entry, options_.clock->WallMs(), left_out));
  if (is_writing_) return;
  is_writing_ = true;
  executor_.Post([this] { WriteQueued(); });
}

void AuditLog::WriteQueued() {
  std::deque<std::string> lines;
  {
    MutexLock lock(&mutex_);
    lines.swap(queue_);
    is_writing_ = false;
  }
  for (const std::string& line : lines) {
    const absl::Status status = Write(line);
    if (status.ok()) {
      written_.fetch_add(1);
      continue;
    }
    lost_.fetch_add(1);
    uint64_t skipped = 0;
    if (failures_.Allow(&skipped)) {
      LogError("access", "lines of the audit log are lost ({} more since the last message): {}", skipped,
               MessageOf(status));
    }
  }
}

absl::Status AuditLog::Write(const std::string& line) {
  if (!file_.valid()) RETURN_IF_ERROR(OpenFile());
  if (bytes_ > 0 && bytes_ + static_cast<int64_t>(line.size()) > options_.bytes_max) RETURN_IF_ERROR(Rotate());
  const ssize_t wrote = write(file_.get(), line.data(), line.size());
  if (wrote == static_cast<ssize_t>(line.size())) {
    bytes_ += wrote;
    return absl::OkStatus();
  }
  const int error = wrote < 0 ? errno : ENOSPC;
  // Half a line would spoil the next one.
  if (wrote > 0 && ftruncate(file_.get(), bytes_) != 0) bytes_ += wrote;
  return ErrnoStatus(error, "writing {}", options_.path);
}

absl::Status AuditLog::OpenFile() {
  file_ = UniqueFd(open(options_.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file_.valid()) return ErrnoStatus(errno, "opening the audit log {}", options_.path);
  RETURN_IF_ERROR(MakePrivate(options_.path));
  struct stat info = {};
  if (fstat(file_.get(), &info) != 0) return ErrnoStatus(errno, "looking at {}", options_.path);
  bytes_ = info.st_size;
  return absl::OkStatus();
}

absl::Status AuditLog::Rotate() {
  for (int number = options_.files_max - 1; number >= 1; --number) {
    const std::string from = RotatedName(options_.path, number - 1);
    if (rename(from.c_str(), RotatedName(options_.path, number).c_str()) != 0 && errno != ENOENT) {
      return ErrnoStatus(errno, "renaming {}", from);
    }
  }
  if (options_.files_max == 1 && unlink(options_.path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "removing {}", options_.path);
  }
  file_.Reset();
  return OpenFile();
}

}  // namespace tunefarm
