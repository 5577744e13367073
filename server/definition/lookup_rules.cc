#include "server/definition/lookup_rules.h"

#include "server/definition/value_proto.h"

namespace tunefarm {
namespace {

constexpr double kDistanceMax = 4;

}  // namespace

double LookupDistanceMax(const v1::Kernel& kernel) {
  return kernel.has_lookup_distance_max() ? kernel.lookup_distance_max() : kDistanceMax;
}

int InputsOffDefault(const v1::Kernel& kernel, const Config& dims) {
  int count = 0;
  for (const v1::Dim& dim : kernel.dims()) {
    if (!dim.inputs_only()) continue;
    const Value* const value = dims.Find(dim.name());
    const auto usual = definition::FromProto(dim.default_value());
    if (value != nullptr && usual.ok() && !(*value == *usual)) ++count;
  }
  return count;
}

}  // namespace tunefarm
