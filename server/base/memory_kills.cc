#include "server/base/memory_kills.h"

#include <charconv>
#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/base/file.h"

namespace tunefarm {
namespace {

constexpr std::chrono::seconds kReadAgain{1};
constexpr uint64_t kStatisticsBytesMax = 1 << 20;

}  // namespace

std::optional<int64_t> CountMemoryKills() {
  constexpr std::string_view kLine = "\noom_kill ";
  const absl::StatusOr<std::string> statistics = ReadFile("/proc/vmstat", kStatisticsBytesMax);
  if (!statistics.ok()) return std::nullopt;
  const size_t line = statistics->find(kLine);
  if (line == std::string::npos) return std::nullopt;
  int64_t count = 0;
  const char* const begin = statistics->data() + line + kLine.size();
  const auto [end, error] = std::from_chars(begin, statistics->data() + statistics->size(), count);
  if (error != std::errc()) return std::nullopt;
  return count;
}

void MemoryKillWatch::Begin(MonotonicTime now) {
  if (read_at_.has_value() && now - *read_at_ < kReadAgain) return;
  read_at_ = now;
  before_ = CountMemoryKills();
}

MemoryKills MemoryKillWatch::Look() const {
  const std::optional<int64_t> now = CountMemoryKills();
  if (!before_.has_value() || !now.has_value()) return MemoryKills::kUnknown;
  return *now > *before_ ? MemoryKills::kSome : MemoryKills::kNone;
}

}  // namespace tunefarm
