#include "server/base/clock.h"

namespace tunefarm {
namespace {

class RealClock : public Clock {
 public:
  MonotonicTime Now() const override { return MonotonicTime(std::chrono::steady_clock::now().time_since_epoch()); }
  int64_t WallMs() const override {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  }
};

}  // namespace

Clock* Clock::Real() {
  // Never destroyed: threads may read it while the process exits.
  static Clock* const clock = new RealClock;
  return clock;
}

}  // namespace tunefarm
