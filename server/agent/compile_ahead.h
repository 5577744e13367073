// How far ahead of one device it pays to compile. A device that ends a run every R milliseconds and compiles of C
// milliseconds keep each other busy with C / R compiles under way (Little's law); what is more only waits, in the hands
// of one agent, while another may have nothing. Where compilers are the bound, C / R is more than they are, and all of
// them have work.
//
// Not thread-safe: a DeviceRunner owns it.
#pragma once

#include <algorithm>
#include <cmath>

namespace tunefarm {

class CompileAhead {
 public:
  // How long a compile took, in milliseconds; 0: its binary was there already. What is no such number does not count.
  void Note(double compile_ms) {
    if (!std::isfinite(compile_ms) || compile_ms < 0) return;
    // One slow compile among short ones counts at once and is forgotten slowly: behind it others like it may come.
    mean_ms_ = compile_ms > mean_ms_ ? compile_ms : mean_ms_ + (compile_ms - mean_ms_) / kMemoryCompiles;
  }

  // Compiles to have under way or done, for a device that `workers` compile for. `run_ms`: of recent runs, 0: not
  // known.
  int Bound(double run_ms, int workers) const {
    // All work, but nothing waits yet.
    if (mean_ms_ < 0 || run_ms <= 0) return std::clamp(workers, 1, kUnknownMax);
    // When compilers and device are equally fast, less than three for each worker lets one of them run out of work
    // whenever the other's times vary.
    const double wanted = std::ceil(kVariation * mean_ms_ / run_ms);
    return static_cast<int>(std::clamp(wanted, 1.0, std::max(1.0, kVariation * workers)));
  }

 private:
  static constexpr double kVariation = 3;
  static constexpr double kMemoryCompiles = 16;
  static constexpr int kUnknownMax = 64;

  double mean_ms_ = -1;  // of recent compiles; -1: none yet
};

}  // namespace tunefarm
