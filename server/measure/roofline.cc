#include "server/measure/roofline.h"

namespace tunefarm {

Roofline ComputeRoofline(const RooflineInput& input) {
  const double compute_ns =
      input.flops > 0 && input.flops_per_second > 0 ? input.flops / input.flops_per_second * 1e9 : 0;
  const double memory_ns =
      input.bytes > 0 && input.bytes_per_second > 0 ? input.bytes / input.bytes_per_second * 1e9 : 0;
  Roofline roofline;
  if (compute_ns <= 0 && memory_ns <= 0) return roofline;
  roofline.floor_ns = compute_ns > memory_ns ? compute_ns : memory_ns;
  roofline.bound = compute_ns > memory_ns ? RooflineBound::kCompute : RooflineBound::kMemory;
  return roofline;
}

double RooflineFraction(const Roofline& roofline, double time_ns) {
  return time_ns > 0 ? roofline.floor_ns / time_ns : 0;
}

// 1 flop per ns is 10^9 per second, so 10^-3 Tflop/s; 1 byte per ns is 1 GB/s.
double TeraflopsPerSecond(double flops, double time_ns) {
  return flops > 0 && time_ns > 0 ? flops / time_ns * 1e-3 : 0;
}

double GigabytesPerSecond(double bytes, double time_ns) { return bytes > 0 && time_ns > 0 ? bytes / time_ns : 0; }

}  // namespace tunefarm
