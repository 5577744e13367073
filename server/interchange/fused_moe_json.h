// The tables that the fused mixture-of-experts kernels of vLLM and SGLang look up by the number of tokens, and what
// these take without a table.
//
// Both take the nearest key, however far away it is, so that a table with a few keys makes all other sizes run with
// configs of theirs: what is written has the whole ladder.
//
// Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/interchange/triton_config.h"

namespace tunefarm::interchange {

// The keys that their own tuners measure and write.
inline constexpr std::array<int64_t, 18> kTokenLadder = {1,  2,   4,   8,   16,   24,   32,   48,   64,
                                                         96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096};

enum class FusedMoeReader { kVllm, kSglang };

// What a table is for.
struct FusedMoeLayer {
  FusedMoeReader reader = FusedMoeReader::kVllm;
  int64_t experts = 0;       // of one process
  int64_t intermediate = 0;  // width between the two products of a layer, of one process: the second one's K
  std::string device;        // as the driver calls it: "NVIDIA H200"
  bool is_fp8 = false;       // fp8_w8a8 with scales of 128x128 blocks; else bf16
  bool is_down = false;      // SGLang: of the second product alone
};

// "E=128,N=768,device_name=NVIDIA_H200.json". vLLM calls every H200 NVIDIA_H200.
std::string FusedMoeFileName(const FusedMoeLayer& layer);

// The config without a table: vLLM's rule of 0.27, SGLang's of 0.5 with Triton's own num_warps and num_stages where it
// names none.
TritonConfig FusedMoeDefault(FusedMoeReader reader, bool is_fp8, int64_t m, int64_t experts);

// One key, and what was measured for it side by side.
struct FusedMoeRow {
  int64_t m = 0;
  TritonConfig tuned, untuned;          // the winner of a search; what its reader takes without the table
  double tuned_ns = 0, untuned_ns = 0;  // 0: was not measured, or failed
  bool untuned_fails = false;           // it was tried, and cannot run or computes wrongly

  // The winner, if it takes at most 99 % of the other's time, or if the other fails; else the other.
  bool keeps_tuned() const { return tuned_ns > 0 && (untuned_ns > 0 ? tuned_ns <= 0.99 * untuned_ns : untuned_fails); }
  const TritonConfig& kept() const { return keeps_tuned() ? tuned : untuned; }
};

// `triton_version`, if not empty, is a key of its own, which vLLM knows and SGLang does not.
std::string FusedMoeJson(const std::vector<FusedMoeRow>& rows, std::string_view triton_version);

// Markdown: both configs and both times of each row. `facts` are lines about the whole.
std::string FusedMoeReport(const std::vector<FusedMoeRow>& rows, std::string_view title,
                           const std::vector<std::string>& facts);

}  // namespace tunefarm::interchange
