// Bests for the tests of their writers.
#pragma once

#include "server/definition/value_proto.h"
#include "server/interchange/exported_best.h"

namespace tunefarm::interchange {

// On "NVIDIA H200", whose class is called h200. A baseline of 0: there was none.
inline ExportedBest SampleBest(const std::string& kernel, const Config& dims, const Config& config, double median_ns,
                               double baseline_ns = 0) {
  v1::BestConfig best;
  best.set_kernel_name(kernel);
  best.set_device_class_id("h200");
  best.set_device_class_name("NVIDIA H200");
  best.mutable_problem()->set_key(dims.ToText());
  for (const auto& [name, value] : dims) (*best.mutable_problem()->mutable_dims())[name] = definition::ToProto(value);
  for (const auto& [name, value] : config)
    (*best.mutable_config()->mutable_values())[name] = definition::ToProto(value);
  best.mutable_measurement()->set_median_ns(median_ns);
  best.set_baseline_ns(baseline_ns);
  return *MakeExportedBest(std::move(best), v1::MATCH_EXACT);
}

}  // namespace tunefarm::interchange
