// CUtensorMap of a definition's tensor map.
#pragma once

#include <string>

#include "server/driver_step/tensor_map.h"
#include "server/worker/cuda/gpu_context.h"

namespace tunefarm::cuda {

// `base` is the buffer's address; the offset is added with 64-bit wrap. INFEASIBLE_LAUNCH with a sentence when the
// driver refuses the map.
Failure EncodeTensorMap(const GpuContext& gpu, const std::string& name, const driver_step::TensorMapValues& values,
                        CUdeviceptr base, CUtensorMap* map);

}  // namespace tunefarm::cuda
