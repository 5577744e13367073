// The results file of grouped matrix products that benchmark scripts of mixture-of-experts layers write and read.
//
// What our numbers mean in its columns: seqlen is the number of tokens. torch_time is the baseline's time and
// triton_time the config's, both in milliseconds of the product alone (the scripts time a whole layer); empty where
// there was no baseline. Each row is the time of its own config, so that autotune is False. flatten is True: it changes
// no result, and our kernels have no such hint. permute_x, permute_y and fuse_mul_post are dims here; backward has no
// fuse_mul_post.
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/expression/config.h"

namespace tunefarm::interchange {

struct BenchmarkRow {
  Config dims;
  Config config;
  double median_ns = 0;
  double baseline_ns = 0;  // 0: there was none
};

// Highest speedup first, rows without a baseline behind, the fastest first; equal ones in their order.
// `with_own_columns` appends the dims and parameters that have no column of their own, sorted by name.
// InvalidArgument for kernels other than grouped_gemm_{forward,dx,dw}, and for rows that lack a column.
absl::StatusOr<std::string> WriteBenchmarkCsv(std::string_view kernel, const std::vector<BenchmarkRow>& rows,
                                              bool with_own_columns);

// The dims and parameters of the rows that the columns leave out and in which rows differ.
std::vector<std::string> LeftOutOfBenchmarkCsv(std::string_view kernel, const std::vector<BenchmarkRow>& rows);

}  // namespace tunefarm::interchange
