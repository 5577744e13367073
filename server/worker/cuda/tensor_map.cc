#include "server/worker/cuda/tensor_map.h"

#include <fmt/core.h>

#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::cuda {
namespace {

using driver_step::kInterleaves;
using driver_step::kL2Promotions;
using driver_step::kSwizzles;
using driver_step::ModeOf;
using driver_step::TensorMapTypeOf;

static_assert(TensorMapTypeOf(v1::DATA_TYPE_UNSPECIFIED) == -1 && TensorMapTypeOf(v1::DATA_TYPE_F64 + 1) == -1);
static_assert(TensorMapTypeOf(v1::DATA_TYPE_F8E4M3) == CU_TENSOR_MAP_DATA_TYPE_UINT8);
static_assert(TensorMapTypeOf(v1::DATA_TYPE_F8E4M3 + 1) == -1);
static_assert(TensorMapTypeOf(v1::DATA_TYPE_I8) == CU_TENSOR_MAP_DATA_TYPE_UINT8);
static_assert(TensorMapTypeOf(v1::DATA_TYPE_U8) == CU_TENSOR_MAP_DATA_TYPE_UINT8);
static_assert(TensorMapTypeOf(v1::DATA_TYPE_I16) == CU_TENSOR_MAP_DATA_TYPE_UINT16);
static_assert(TensorMapTypeOf(v1::DATA_TYPE_U16) == CU_TENSOR_MAP_DATA_TYPE_UINT16);
static_assert(TensorMapTypeOf(v1::DATA_TYPE_I32) == CU_TENSOR_MAP_DATA_TYPE_INT32);
static_assert(TensorMapTypeOf(v1::DATA_TYPE_U32) == CU_TENSOR_MAP_DATA_TYPE_UINT32);
static_assert(TensorMapTypeOf(v1::DATA_TYPE_I64) == CU_TENSOR_MAP_DATA_TYPE_INT64);
static_assert(TensorMapTypeOf(v1::DATA_TYPE_U64) == CU_TENSOR_MAP_DATA_TYPE_UINT64);
static_assert(TensorMapTypeOf(v1::DATA_TYPE_F16) == CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
static_assert(TensorMapTypeOf(v1::DATA_TYPE_BF16) == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
static_assert(TensorMapTypeOf(v1::DATA_TYPE_F32) == CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
static_assert(TensorMapTypeOf(v1::DATA_TYPE_F64) == CU_TENSOR_MAP_DATA_TYPE_FLOAT64);
static_assert(ModeOf(kSwizzles, "none") == CU_TENSOR_MAP_SWIZZLE_NONE);
static_assert(ModeOf(kSwizzles, "32B") == CU_TENSOR_MAP_SWIZZLE_32B);
static_assert(ModeOf(kSwizzles, "64B") == CU_TENSOR_MAP_SWIZZLE_64B);
static_assert(ModeOf(kSwizzles, "128B") == CU_TENSOR_MAP_SWIZZLE_128B);
static_assert(ModeOf(kInterleaves, "none") == CU_TENSOR_MAP_INTERLEAVE_NONE);
static_assert(ModeOf(kInterleaves, "16B") == CU_TENSOR_MAP_INTERLEAVE_16B);
static_assert(ModeOf(kInterleaves, "32B") == CU_TENSOR_MAP_INTERLEAVE_32B);
static_assert(ModeOf(kL2Promotions, "none") == CU_TENSOR_MAP_L2_PROMOTION_NONE);
static_assert(ModeOf(kL2Promotions, "64B") == CU_TENSOR_MAP_L2_PROMOTION_L2_64B);
static_assert(ModeOf(kL2Promotions, "128B") == CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
static_assert(ModeOf(kL2Promotions, "256B") == CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
static_assert(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE == 0 && CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA == 1);

}  // namespace

Failure EncodeTensorMap(const GpuContext& gpu, const std::string& name, const driver_step::TensorMapValues& values,
                        CUdeviceptr base, CUtensorMap* map) {
  const CUresult error = driver_step::EncodeTensorMap(gpu.driver().cuTensorMapEncodeTiled, values,
                                                      driver_step::TensorAddress(base, values), map);
  return gpu.driver().Check(error, CallKind::kLaunch, fmt::format("The driver refuses the tensor map {}", name));
}

}  // namespace tunefarm::cuda
