#include "server/base/failpoint.h"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <thread>

#include "server/base/check.h"
#include "server/base/log.h"
#include "server/base/mutex.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

#ifdef TUNEFARM_FAILPOINTS
constexpr bool kIsBuiltIn = true;
#else
constexpr bool kIsBuiltIn = false;
#endif
constexpr int64_t kDelayMsMax = 60'000;

struct Armed {
  enum class Action { kCrash, kError, kDelay };
  Action action = Action::kCrash;
  int64_t delay_ms = 0;
  int64_t first_hit = 1;
  int64_t last_hit = 1;
  int64_t hits = 0;
};

struct Registry {
  Mutex mutex;
  std::map<std::string, Armed, std::less<>> armed GUARDED_BY(mutex);
};

// Never destroyed: threads may pass a failpoint until the very end.
Registry& TheRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

std::atomic<bool> any_armed{false};

bool IsKnown(std::string_view name) {
  return std::find(std::begin(kFailpoints), std::end(kFailpoints), name) != std::end(kFailpoints);
}

absl::StatusOr<int64_t> ParseNumber(std::string_view text, std::string_view entry, int64_t max) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number >= 1 && number <= max) return number;
  return InvalidArgument("failpoint '{}': '{}' is not a number from 1 to {}", entry, text, max);
}

absl::StatusOr<Armed> ParseAction(std::string_view text, std::string_view entry) {
  Armed armed;
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    std::string_view hits = text.substr(at + 1);
    const bool and_later = !hits.empty() && hits.back() == '+';
    if (and_later) hits.remove_suffix(1);
    const size_t dash = and_later ? std::string_view::npos : hits.find('-');
    ASSIGN_OR_RETURN(armed.first_hit, ParseNumber(hits.substr(0, dash), entry, INT64_MAX));
    armed.last_hit = and_later ? INT64_MAX : armed.first_hit;
    if (dash != std::string_view::npos) {
      ASSIGN_OR_RETURN(armed.last_hit, ParseNumber(hits.substr(dash + 1), entry, INT64_MAX));
    }
    text = text.substr(0, at);
  }
  constexpr std::string_view kDelay = "delay:";
  if (text == "crash") {
    armed.action = Armed::Action::kCrash;
  } else if (text == "error") {
    armed.action = Armed::Action::kError;
  } else if (text.substr(0, kDelay.size()) == kDelay) {
    armed.action = Armed::Action::kDelay;
    ASSIGN_OR_RETURN(armed.delay_ms, ParseNumber(text.substr(kDelay.size()), entry, kDelayMsMax));
  } else {
    return InvalidArgument("failpoint '{}': the action '{}' is none of crash, error and delay:MS", entry, text);
  }
  return armed;
}

absl::Status ParseEntry(std::string_view entry, std::map<std::string, Armed, std::less<>>* armed) {
  const size_t equals = entry.find('=');
  if (equals == std::string_view::npos) return InvalidArgument("failpoint '{}' is not NAME=ACTION[@HITS]", entry);
  const std::string name(entry.substr(0, equals));
  if (!IsKnown(name)) return InvalidArgument("there is no failpoint '{}'; see server/base/failpoint.h", name);
  ASSIGN_OR_RETURN((*armed)[name], ParseAction(entry.substr(equals + 1), entry));
  return absl::OkStatus();
}

}  // namespace

absl::Status ArmFailpoints(std::string_view text) {
  std::map<std::string, Armed, std::less<>> armed;
  while (!text.empty()) {
    const size_t end = std::min(text.find(';'), text.size());
    RETURN_IF_ERROR(ParseEntry(text.substr(0, end), &armed));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (!armed.empty() && !kIsBuiltIn) {
    return FailedPrecondition("this program was built without failpoints; build it with -DTUNEFARM_FAILPOINTS=ON");
  }
  const bool is_any = !armed.empty();
  Registry& registry = TheRegistry();
  MutexLock lock(&registry.mutex);
  registry.armed = std::move(armed);
  any_armed.store(is_any);
  return absl::OkStatus();
}

absl::Status Failpoint(std::string_view name) {
  if (!kIsBuiltIn || !any_armed.load(std::memory_order_relaxed)) return absl::OkStatus();
  TUNEFARM_CHECK(IsKnown(name));
  Armed armed;
  {
    Registry& registry = TheRegistry();
    MutexLock lock(&registry.mutex);
    const auto found = registry.armed.find(name);
    if (found == registry.armed.end()) return absl::OkStatus();
    const int64_t hit = ++found->second.hits;
    armed = found->second;
    if (hit < armed.first_hit || hit > armed.last_hit) return absl::OkStatus();
  }
  LogWarn("failpoint", "{} at hit {}", name, armed.hits);
  switch (armed.action) {
    case Armed::Action::kCrash:
      // Not abort: nothing of this process may get a last word.
      kill(getpid(), SIGKILL);
      while (true) pause();
    case Armed::Action::kError:
      return Unavailable("failpoint {} is armed to fail", name);
    case Armed::Action::kDelay:
      std::this_thread::sleep_for(std::chrono::milliseconds(armed.delay_ms));
      break;
  }
  return absl::OkStatus();
}

}  // namespace tunefarm
