// What a user asks of `tunefarm tune-moe`, for its tuner and the writer of its tables.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/export/export_target.h"
#include "client/cli/options/measure_options.h"

namespace tunefarm::cli {

struct TuneMoeOptions {
  int64_t experts = 0, intermediate = 0, hidden = 0, topk = 0, ranks = 1;
  std::string reader;
  std::string dtype = "bf16";
  std::string block_shape, histogram, triton;
  std::string kernel_file;           // empty: the kernel of kernels/fused_moe
  std::vector<int64_t> batch_sizes;  // empty: those of the readers' own tuners
  std::string device;
  int64_t max_trials = 300;
  MeasureOptions measure;
  ExportTarget target;

  int64_t all_experts() const { return experts * ranks; }
};

}  // namespace tunefarm::cli
