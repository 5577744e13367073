// The tables that the fused mixture-of-experts kernels of vLLM and SGLang look up by the number of tokens.
//
// Both take the nearest key, however far away it is, so that a table with a few keys makes all other sizes run with
// configs of theirs: what is written has the whole ladder, always.
//
// Pure; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/interchange/triton_config.h"

namespace tunefarm::interchange {

// The keys that their own tuners measure and write.
inline constexpr std::array<int64_t, 18> kTokenLadder = {1,  2,   4,   8,   16,   24,   32,   48,   64,
                                                         96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096};

// A rung that was not measured has the config of the nearest M that was (NearestByRatio), on the ladder or not.
// InvalidArgument without results.
absl::StatusOr<TritonTable> WriteFusedMoeJson(const std::vector<TritonResult>& results);

enum class FusedMoeReader { kVllm, kSglang };

struct FusedMoeName {
  int64_t experts = 0;       // of one process
  int64_t intermediate = 0;  // width between the two products of a layer, of one process: the second one's K
  std::string device;        // as the driver calls it: "NVIDIA H200"
  std::string dtype;         // "fp8_w8a8", ...; empty for bf16 and fp16
  bool is_down = false;      // SGLang: of the second product alone
};

// "E=128,N=768,device_name=NVIDIA_H200.json". vLLM calls every H200 NVIDIA_H200.
std::string FusedMoeFileName(const FusedMoeName& name, FusedMoeReader reader);

}  // namespace tunefarm::interchange
