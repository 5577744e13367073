// Reconnection: for how long a stream of the daemon that broke is opened again.
//
// Not thread-safe.
#pragma once

#include <chrono>

#include "server/base/clock.h"

namespace tunefarm::cli {

class Reconnection {
 public:
  // How long the daemon may be away.
  static constexpr Duration kPatience = std::chrono::seconds(30);

  // The clock outlives it. The daemon is there now.
  explicit Reconnection(const Clock* clock) : clock_(clock), give_up_(clock->Now() + kPatience) {}

  // A stream has ended. `has_answered`: it brought something, so that the daemon was there until now, however long it
  // had nothing to say. False: the daemon has been away for kPatience.
  bool MayTry(bool has_answered) {
    const MonotonicTime now = clock_->Now();
    if (has_answered) give_up_ = now + kPatience;
    return now <= give_up_;
  }

 private:
  const Clock* const clock_;
  MonotonicTime give_up_;
};

}  // namespace tunefarm::cli
