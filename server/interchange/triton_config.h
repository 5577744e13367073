// Configs in the words of Triton kernels, as the tables of AITER, vLLM and SGLang have them, and what can be said of
// them without such a kernel.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/expression/config.h"

namespace tunefarm::interchange {

struct TritonConfig {
  int64_t block_m = 0, block_n = 0, block_k = 0;
  int64_t group_m = 1;
  int64_t num_warps = 0, num_stages = 0;
  // waves_per_eu, matrix_instr_nonkdim and kpack, of configs that have them; in this order.
  std::vector<std::pair<std::string, int64_t>> more;

  bool operator==(const TritonConfig&) const = default;
};

// `renamed`: how the kernel itself calls what Triton kernels call BLOCK_SIZE_M and so on; names that it lacks are the
// same. GROUP_SIZE_M is 1 for a kernel without it. InvalidArgument that names what is missing or no integer.
absl::StatusOr<TritonConfig> TritonConfigOf(const Config& config, const std::map<std::string, std::string>& renamed);

// Why no Triton kernel can be launched with it, in a few words; empty: nothing is known against it. Tiles are powers of
// two from 16 on, warps powers of two, and all stages of both operands must fit into a block's shared memory
// (`shared_bytes`, 0: not known).
std::string WhyNotTriton(const TritonConfig& config, int64_t element_bytes, int64_t shared_bytes);

// One measured config for M rows of tokens, and how fast it was.
struct TritonResult {
  int64_t m = 0;
  TritonConfig config;
  double median_ns = 0;
};

// For each M the fastest, ascending; the first of equally fast ones.
std::vector<TritonResult> FastestOfEachM(const std::vector<TritonResult>& results);

// One key of a written table.
struct TableKey {
  std::string key;
  int64_t measured_m = 0;  // the M whose config stands there
  bool is_filled = false;  // nothing that belongs there was measured
};

// A table as its reader wants it, and what the reader is not told.
struct TritonTable {
  std::string text;
  std::vector<TableKey> keys;  // in the order of the text
};

// What goes beside a table whose times come from another kernel: JSON with the tool, the kernel, the device, a
// sentence, and where each key's config was measured.
std::string SeedNote(const TritonTable& table, std::string_view kernel, std::string_view device, std::string_view dims);

}  // namespace tunefarm::interchange
