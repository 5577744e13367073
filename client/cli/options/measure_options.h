// --policy, --measure and its short forms: how the configs of a job are measured.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tunefarm/v1/measurement.pb.h"

namespace tunefarm::cli {

struct MeasureOptions {
  std::string policy = "default";
  std::vector<std::string> settings;  // "final_rounds=9"
  int min_samples = 0, max_samples = 0, time_budget_ms = 0;
  bool warm_cache = false;
  std::string host_isolation;  // "process", "shared"; empty: the default

  void AddTo(CLI::App* command);
};

// InvalidArgument for a preset, a knob or a value that does not exist, with "did you mean" and what there is.
absl::StatusOr<v1::MeasurementPolicy> MakePolicy(const MeasureOptions& options);

// "cuda graph, caches flushed, 1755 MHz, 512 W, 61 °C, held down by: power cap, 3 samples discarded"; empty where
// nothing is known.
std::string ConditionsText(const v1::Measurement& measurement);
// "converged", "time budget spent", "sample budget spent", "stopped early: cannot win", or empty.
std::string StopText(const v1::Measurement& measurement);

}  // namespace tunefarm::cli
