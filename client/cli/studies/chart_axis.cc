#include "client/cli/studies/chart_axis.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "server/base/format.h"

namespace tunefarm::cli {
namespace {

// How far from the data a value may lie to be worth the room.
constexpr double kNearFactor = 10;  // logarithmic
constexpr double kNearSpans = 1;    // linear

// Values that differ by less than this share of them are one: their ticks would all have the same text.
constexpr double kOneValue = 1e-9;
constexpr int kStepsMax = 6;

// 1, 2 or 5 times a power of ten, at most kStepsMax of them between the two.
double RoundStep(double low, double high) {
  const double rough = (high - low) / kStepsMax;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::vector<double> RoundTicks(double low, double high) {
  std::vector<double> ticks;
  const double step = RoundStep(low, high);
  const double slack = step * 1e-9;
  const double first = std::ceil((low - slack) / step);
  for (int i = 0; i <= kStepsMax && (first + i) * step <= high + slack; ++i)
    ticks.push_back(first + i == 0 ? 0 : (first + i) * step);
  return ticks;
}

}  // namespace

bool AxisScale::CanShow(double value) const { return std::isfinite(value) && (!is_log_ || value > 0); }

void AxisScale::Cover(double value) {
  if (!CanShow(value)) return;
  const bool is_first = is_empty();
  low_ = is_first ? value : std::min(low_, value);
  high_ = is_first ? value : std::max(high_, value);
}

bool AxisScale::CoverIfNear(double value) {
  if (!CanShow(value)) return false;
  if (!is_empty()) {
    const double reach = is_log_ ? 0 : kNearSpans * std::max(high_ - low_, 0.1 * std::fabs(high_));
    const double lowest = is_log_ ? low_ / kNearFactor : low_ - reach;
    const double highest = is_log_ ? high_ * kNearFactor : high_ + reach;
    if (value < lowest || value > highest) return false;
  }
  Cover(value);
  return true;
}

void AxisScale::Settle(double padding, double from, double to) {
  from_ = from;
  to_ = to;
  if (is_empty()) low_ = is_log_ ? 1 : 0, high_ = is_log_ ? 10 : 1;
  const bool is_one_value = high_ - low_ <= kOneValue * std::max(std::fabs(low_), std::fabs(high_));
  if (is_log_) {
    if (is_one_value) low_ /= 1.5, high_ *= 1.5;
    const double factor = std::pow(high_ / low_, padding);
    low_ /= factor;
    high_ *= factor;
  } else {
    // A single value stands in the middle where there is room around it, else at the lower end.
    if (is_one_value) {
      const double half = padding > 0 && low_ != 0 ? std::fabs(low_) / 10 : 0;
      low_ -= half;
      high_ += half > 0 ? half : std::max(1.0, std::fabs(low_) / 10);
    }
    const double margin = (high_ - low_) * padding;
    low_ -= margin;
    high_ += margin;
  }
}

double AxisScale::At(double value) const {
  const double share = is_log_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return from_ + share * (to_ - from_);
}

std::vector<double> AxisScale::Ticks() const {
  const double decades = is_log_ ? std::log10(high_ / low_) : 0;
  if (decades < 1) return RoundTicks(low_, high_);
  std::vector<double> ticks;
  const int first = static_cast<int>(std::floor(std::log10(low_)));
  const int last = static_cast<int>(std::floor(std::log10(high_)));
  const int every = std::max(1, (last - first) / 6);
  for (int power = first; power <= last; power += every) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && decades > 3) continue;
      const double tick = factor * std::pow(10, power);
      if (tick >= low_ * (1 - 1e-9) && tick <= high_ * (1 + 1e-9)) ticks.push_back(tick);
    }
  }
  return ticks;
}

std::string TickText(double value) {
  if (std::fabs(value) >= 10'000 && std::fabs(value) < 1e15 && value == std::floor(value))
    return FormatCount(static_cast<int64_t>(value));
  return fmt::format("{:.6g}", value);
}

}  // namespace tunefarm::cli
