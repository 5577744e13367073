// GeometricMean: the mean of ratios of times, in which half as fast and twice as fast make 1. A plain value.
#pragma once

#include <cmath>
#include <cstdint>

namespace tunefarm {

class GeometricMean {
 public:
  // Nothing unless both are positive and finite.
  void Add(double numerator, double denominator) {
    if (!(numerator > 0) || !(denominator > 0) || !std::isfinite(numerator) || !std::isfinite(denominator)) return;
    log_sum_ += std::log(numerator) - std::log(denominator);
    ++count_;
  }
  // 0 of none.
  double Value() const { return count_ == 0 ? 0 : std::exp(log_sum_ / static_cast<double>(count_)); }

 private:
  double log_sum_ = 0;
  int64_t count_ = 0;
};

}  // namespace tunefarm
