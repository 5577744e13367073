#include "server/daemon/watchdog.h"

#include <charconv>
#include <string>

#include "server/base/log.h"

namespace tunefarm {
namespace {

std::optional<int64_t> PositiveNumber(const std::string& text) {
  int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size() || value <= 0) return std::nullopt;
  return value;
}

}  // namespace

std::optional<Duration> WatchdogPeriod(const EnvironmentGetter& environment, int64_t pid) {
  const std::optional<std::string> period = environment("WATCHDOG_USEC");
  if (!period || period->empty()) return std::nullopt;
  const std::optional<std::string> whose = environment("WATCHDOG_PID");
  if (whose && !whose->empty() && PositiveNumber(*whose) != pid) return std::nullopt;
  const std::optional<int64_t> micros = PositiveNumber(*period);
  if (!micros) {
    LogWarn("daemon", "WATCHDOG_USEC '{}' is no number of microseconds; the service manager will hear nothing",
            *period);
    return std::nullopt;
  }
  return std::chrono::duration_cast<Duration>(std::chrono::microseconds(*micros));
}

Watchdog::Watchdog(std::vector<Executor*> executors, Duration period, Clock* clock, std::function<void()> tell)
    : executors_(std::move(executors)), between_(period / 2), clock_(clock), round_(std::make_shared<Round>()) {
  round_->tell = std::move(tell);
}

void Watchdog::Poll() {
  const MonotonicTime now = clock_->Now();
  if (asked_ && now - *asked_ < between_) return;
  if (round_->missing.load() > 0) return;
  asked_ = now;
  round_->missing.store(executors_.size());
  for (Executor* const executor : executors_) {
    executor->Post([round = round_] {
      if (round->missing.fetch_sub(1) == 1) round->tell();
    });
  }
}

}  // namespace tunefarm
