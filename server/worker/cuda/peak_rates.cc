#include "server/worker/cuda/peak_rates.h"

namespace tunefarm::cuda {
namespace {

// FLOP per clock and multiprocessor, dense, with f32 sums where there is a choice; from the vendor's architecture
// papers.
struct Rates {
  int compute_capability;
  double fp32, fp64, tensor_tf32, tensor_f16, tensor_fp8, tensor_i8;
};

constexpr Rates kRates[] = {
    {75, 128, 4, 0, 1024, 0, 2048},             // T4
    {80, 128, 64, 1024, 2048, 0, 4096},         // A100
    {86, 256, 4, 512, 1024, 0, 2048},           // A10, A40
    {89, 256, 4, 512, 1024, 2048, 2048},        // L40S
    {90, 256, 128, 2048, 4096, 8192, 8192},     // H100, H200
    {100, 256, 128, 4096, 8192, 16384, 16384},  // B200
};

}  // namespace

std::map<std::string, double> PeakFlopsByUnit(int compute_capability, int sm_count, int clock_mhz) {
  std::map<std::string, double> peaks;
  if (sm_count <= 0 || clock_mhz <= 0) return peaks;
  const double clocks = static_cast<double>(sm_count) * clock_mhz * 1e6;
  for (const Rates& rates : kRates) {
    if (rates.compute_capability != compute_capability) continue;
    const auto add = [&](const char* unit, double per_clock) {
      if (per_clock > 0) peaks[unit] = per_clock * clocks;
    };
    add("fp32", rates.fp32);
    add("fp64", rates.fp64);
    add("tensor_tf32", rates.tensor_tf32);
    add("tensor_f16", rates.tensor_f16);
    add("tensor_bf16", compute_capability >= 80 ? rates.tensor_f16 : 0);
    add("tensor_fp8", rates.tensor_fp8);
    add("tensor_i8", rates.tensor_i8);
  }
  return peaks;
}

double PeakBytesPerSecond(int memory_clock_mhz, int bus_width_bits) {
  return 2.0 * memory_clock_mhz * 1e6 * bus_width_bits / 8;
}

}  // namespace tunefarm::cuda
