// How long a device rests between blocks of samples, so that it stays below its power limit: a device at the limit
// lowers its clock by turns, and times of one config then drift by several percent within seconds.
//
// The share of the time in which the device works begins at 1 and is lowered by steps while blocks still reach the
// limit. A step takes effect after some time, since a device's power is an average: no other step is made before that.
//
// Pure; one thread.
#pragma once

namespace tunefarm {

class DutyCycle {
 public:
  // A block of work has taken `busy_ns`; whether the device was at its power limit at its end.
  void Add(double busy_ns, bool is_at_power_limit);

  // To rest before the next block, in nanoseconds; 0 while the limit was never reached.
  double rest_ns() const { return busy_ns_ * (1 / share_ - 1); }
  // Of work in the time of work and rest, kShareMin to 1.
  double share() const { return share_; }

  static constexpr double kShareMin = 0.25;

 private:
  double share_ = 1;
  double busy_ns_ = 0;      // of the last block
  double settling_ns_ = 0;  // of work and rest, until the last step shows
};

}  // namespace tunefarm
