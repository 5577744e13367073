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

// max(flops / peak, bytes / bandwidth) in nanoseconds; 0 when neither is known.
double RooflineFloorNs(const RooflineInput& input);

}  // namespace tunefarm
