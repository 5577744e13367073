#include "server/base/format.h"

#include <fmt/core.h>

#include <cmath>

namespace tunefarm {
namespace {

// Three significant digits of a value in [0, 1024). The bounds are where rounding would add a digit.
std::string ThreeDigits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

// 1 s or more.
std::string FormatSeconds(double seconds) {
  if (seconds < 59.95) return ThreeDigits(seconds) + " s";
  if (seconds < 3599.5) {
    const auto whole = std::llround(seconds);
    return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  }
  if (seconds > 1e15) return fmt::format("{:.3g} s", seconds);
  const auto minutes = std::llround(seconds / 60);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

}  // namespace

std::string FormatDuration(double ns) {
  if (!std::isfinite(ns)) return "n/a";
  if (ns < 0) return fmt::format("-{}", FormatDuration(-ns));
  if (ns == 0) return "0 ns";
  const double rounding = 999.5;
  if (ns < rounding) {
    const bool whole = ns == std::floor(ns);
    return (whole ? fmt::format("{:.0f}", ns) : ThreeDigits(ns)) + " ns";
  }
  if (ns < rounding * 1e3) return ThreeDigits(ns / 1e3) + " µs";
  if (ns < rounding * 1e6) return ThreeDigits(ns / 1e6) + " ms";
  return FormatSeconds(ns / 1e9);
}

std::string FormatBytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  uint64_t step = 1;
  // 1023.5 and more would print as 1024 of the smaller unit.
  while (unit < 6 && static_cast<double>(bytes) >= 1023.5 * static_cast<double>(step)) {
    step *= 1024;
    ++unit;
  }
  if (bytes % step == 0) return fmt::format("{} {}", bytes / step, kUnits[unit]);
  return fmt::format("{} {}", ThreeDigits(static_cast<double>(bytes) / static_cast<double>(step)), kUnits[unit]);
}

std::string FormatCount(int64_t count) {
  const std::string digits = fmt::format("{}", count);
  const size_t first = count < 0 ? 1 : 0;
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace tunefarm
