#include "server/measure/roofline.h"

#include <algorithm>

namespace tunefarm {

double RooflineFloorNs(const RooflineInput& input) {
  const auto floor_ns = [](double amount, double per_second) {
    return amount > 0 && per_second > 0 ? amount / per_second * 1e9 : 0;
  };
  return std::max(floor_ns(input.flops, input.flops_per_second), floor_ns(input.bytes, input.bytes_per_second));
}

}  // namespace tunefarm
