// Growing pauses between attempts, drawn from the second half of a bound that doubles, so that clients that lost the
// same daemon do not all come back at once. One thread.
#pragma once

#include <algorithm>

#include "server/base/clock.h"
#include "server/base/random.h"

namespace tunefarm::client {

class Backoff {
 public:
  Backoff(Duration first, Duration last) : first_(first), last_(std::max(first, last)), bound_(first) {}

  Duration Next() {
    uint32_t random = 0;
    EntropySource::Real()->Fill(&random, sizeof(random));
    const Duration pause = bound_ / 2 + bound_ * (random % 1024) / 2048;
    bound_ = std::min(2 * bound_, last_);
    return pause;
  }
  void Reset() { bound_ = first_; }

 private:
  const Duration first_, last_;
  Duration bound_;
};

}  // namespace tunefarm::client
