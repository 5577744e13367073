// --max-trials, --max-time, --max-device-time, --within-floor, --patience: when a search ends.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm::cli {

struct BudgetOptions {
  int64_t max_trials = 0;
  std::string max_time, max_device_time, within_floor;  // as given; empty: no bound
  int64_t patience = 0;

  void AddTo(CLI::App* command);
};

// InvalidArgument for text that ParseSeconds or ParseShare refuses.
absl::StatusOr<v1::Budget> MakeBudget(const BudgetOptions& options);

// Seconds of "90", "90s", "10m", "1h30m", "2d", "1.5h". InvalidArgument for anything else, and for nothing or less.
absl::StatusOr<double> ParseSeconds(std::string_view text);

// 0.05 of "5%" or "0.05". InvalidArgument for anything else, and for nothing or less.
absl::StatusOr<double> ParseShare(std::string_view text);

}  // namespace tunefarm::cli
