#include "server/access/rate_limit.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>

#include "server/base/status.h"

namespace tunefarm {
namespace {

// Principals are bounded by the certificates and tokens there are; those long silent are forgotten.
constexpr size_t kBucketsMax = 20'000;
constexpr Duration kForgottenAfter = std::chrono::minutes(1);

}  // namespace

Duration TokenBucket::Take(MonotonicTime now) {
  const double seconds = std::chrono::duration<double>(std::max(now - filled_, Duration::zero())).count();
  level_ = std::min(room_, level_ + seconds * rate_);
  filled_ = std::max(now, filled_);
  if (level_ >= 1) {
    level_ -= 1;
    return Duration::zero();
  }
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>((1 - level_) / rate_)) + Duration(1);
}

absl::Status RateLimits::Take(const Principal& principal, CallRate rate) {
  // A visitor's one call costs no more than its refusal, and one visitor must not keep others from logging in.
  if (principal.kind == PrincipalKind::kSocket || principal.kind == PrincipalKind::kVisitor ||
      rate == CallRate::kUnlimited) {
    return absl::OkStatus();
  }
  const bool is_lookup = rate == CallRate::kLookups;
  const int limit = is_lookup ? lookups_ : calls_;
  if (limit <= 0) return absl::OkStatus();
  const MonotonicTime now = clock_->Now();
  const std::string key =
      fmt::format("{}{}{}", is_lookup ? 'l' : 'c', static_cast<int>(principal.kind), principal.name);
  Duration wait = Duration::zero();
  {
    MutexLock lock(&mutex_);
    if (buckets_.size() >= kBucketsMax) {
      for (auto at = buckets_.begin(); at != buckets_.end();) {
        at = now - at->second.used() > kForgottenAfter ? buckets_.erase(at) : std::next(at);
      }
      if (buckets_.size() >= kBucketsMax) buckets_.clear();
    }
    wait = buckets_.try_emplace(key, limit, 2.0 * limit, now).first->second.Take(now);
  }
  if (wait == Duration::zero()) return absl::OkStatus();
  const int64_t wait_ms = std::chrono::duration_cast<std::chrono::milliseconds>(wait).count() + 1;
  return WithMetadata(WithReason(ResourceExhausted("{} makes more than {} {} per second ({}); try again in {} ms",
                                                   principal.Text(), limit, is_lookup ? "look-ups" : "calls",
                                                   is_lookup ? "lookups_per_second" : "calls_per_second", wait_ms),
                                 "RATE_LIMIT"),
                      "retry_after_ms", std::to_string(wait_ms));
}

}  // namespace tunefarm
