// Configs by buckets of M, as AITER's Triton kernels and its tuning guide have them.
//
// Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/interchange/triton_config.h"

namespace tunefarm::interchange {

// Which keys a reader looks for.
enum class BucketKeys {
  kGuide,  // small up to 256, medium up to 2048, large: what scripts after the tuning guide write
  kMoe,    // small_M below 256, medium_M below 1024, large_M: what the mixture-of-experts kernels read
  kGemm,   // M_LEQ_x for bounds 1, 4, 8, 16, ... 8192, M_GEQ_8192 above, any: what the matrix products read
};

// Several M in one bucket: the config of the largest. A bucket of kGuide or kMoe without any has that of the nearest M
// by ratio to its bounds, the smaller of two equally near, since its reader fails without the key; kGemm has only the
// bounds that were measured, and `any` is the config of the largest M. InvalidArgument without results.
absl::StatusOr<TritonTable> WriteBucketedJson(const std::vector<TritonResult>& results, BucketKeys keys);

// "gfx942-GEMM-A8W8.json", "gfx942-GEMM-A8W8-N=4096-K=1024.json", "gfx942-MOE-DEFAULT.json". n and k of 0: no shape.
std::string BucketedFileName(std::string_view device, std::string_view family, std::string_view tag, int64_t n,
                             int64_t k);

}  // namespace tunefarm::interchange
