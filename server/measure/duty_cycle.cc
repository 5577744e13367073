#include "server/measure/duty_cycle.h"

#include <algorithm>

namespace tunefarm {
namespace {

constexpr double kStep = 0.8;
// Drivers average the power that they report, and by which they lower the clock, over 25 to 100 ms and more.
constexpr double kSettlingNs = 200e6;

}  // namespace

void DutyCycle::Add(double busy_ns, bool is_at_power_limit) {
  busy_ns_ = std::max(busy_ns, 0.0);
  settling_ns_ -= busy_ns_ / share_;
  if (!is_at_power_limit || settling_ns_ > 0 || share_ <= kShareMin) return;
  share_ = std::max(share_ * kStep, kShareMin);
  settling_ns_ = kSettlingNs;
}

}  // namespace tunefarm
