// The roofline: no kernel is faster than its arithmetic at peak rate, nor than its memory traffic at peak bandwidth.
// Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore architectures",
// Communications of the ACM 52 (2009). Pure; any thread.
#pragma once

namespace tunefarm {

// What one execution must do and what the device can do. Zero or negative: unknown.
struct RooflineInput {
  double flops = 0;             // floating-point operations, a fused multiply-add counting as two
  double bytes = 0;             // least traffic to device memory: each input read once, each output written once
  double flops_per_second = 0;  // peak of the operations' type
  double bytes_per_second = 0;  // peak of device memory
};

enum class RooflineBound { kUnknown, kCompute, kMemory };

struct Roofline {
  double floor_ns = 0;  // max(flops / peak, bytes / bandwidth); 0 when neither is known
  RooflineBound bound = RooflineBound::kUnknown;
};

Roofline ComputeRoofline(const RooflineInput& input);

// floor / time, the fraction of the roofline reached; 0 when the floor or the time is unknown. Above 1 the inputs are
// wrong or the data stayed in a cache: the caller shows it as it is.
double RooflineFraction(const Roofline& roofline, double time_ns);

// Achieved rates; 0 when unknown.
double TeraflopsPerSecond(double flops, double time_ns);
double GigabytesPerSecond(double bytes, double time_ns);

}  // namespace tunefarm
