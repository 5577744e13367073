#include "server/definition/lookup_rules.h"

#include <algorithm>

#include "server/definition/value_proto.h"

namespace tunefarm {
namespace {

constexpr double kDistanceMax = 4;

}  // namespace

double LookupDistanceMax(const v1::Kernel& kernel) {
  return kernel.has_lookup_distance_max() ? kernel.lookup_distance_max() : kDistanceMax;
}

Config InputDefaults(const v1::Kernel& kernel) {
  Config defaults;
  for (const v1::Dim& dim : kernel.dims()) {
    if (!dim.inputs_only()) continue;
    if (const auto value = definition::FromProto(dim.default_value()); value.ok()) defaults.Set(dim.name(), *value);
  }
  return defaults;
}

int InputsOffDefault(const Config& defaults, const Config& dims) {
  return static_cast<int>(std::count_if(defaults.begin(), defaults.end(), [&dims](const auto& usual) {
    const Value* const value = dims.Find(usual.first);
    return value != nullptr && !(*value == usual.second);
  }));
}

}  // namespace tunefarm
