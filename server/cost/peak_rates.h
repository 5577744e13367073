// What products can do at most, for rooflines that are the same on every machine: a device's own probe knows better,
// but its numbers change with clocks and settings, and a prediction must not.
//
// Pure.
#pragma once

#include <string_view>

#include "server/device/device_class.h"

namespace tunefarm {

struct PeakRates {
  double flops_per_second = 0;  // 0: not known
  double bytes_per_second = 0;
};

// By the class's name and the unit as Kernel.flops_unit names it ("fp32", "tensor_bf16"). Dense products, from the data
// sheets; a MIG part is none of these.
PeakRates PeakRatesOf(const DeviceClass& device, std::string_view flops_unit);

}  // namespace tunefarm
