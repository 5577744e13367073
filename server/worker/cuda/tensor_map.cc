#include "server/worker/cuda/tensor_map.h"

#include <fmt/core.h>

#include <optional>

namespace tunefarm::cuda {
namespace {

std::optional<CUtensorMapDataType> TypeOf(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_I8:
    case v1::DATA_TYPE_U8:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    case v1::DATA_TYPE_I16:
    case v1::DATA_TYPE_U16:
      return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    case v1::DATA_TYPE_I32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case v1::DATA_TYPE_U32:
      return CU_TENSOR_MAP_DATA_TYPE_UINT32;
    case v1::DATA_TYPE_I64:
      return CU_TENSOR_MAP_DATA_TYPE_INT64;
    case v1::DATA_TYPE_U64:
      return CU_TENSOR_MAP_DATA_TYPE_UINT64;
    case v1::DATA_TYPE_F16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case v1::DATA_TYPE_BF16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case v1::DATA_TYPE_F32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case v1::DATA_TYPE_F64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    default:
      return std::nullopt;
  }
}

CUtensorMapSwizzle SwizzleOf(const std::string& name) {
  if (name == "32B") return CU_TENSOR_MAP_SWIZZLE_32B;
  if (name == "64B") return CU_TENSOR_MAP_SWIZZLE_64B;
  if (name == "128B") return CU_TENSOR_MAP_SWIZZLE_128B;
  return CU_TENSOR_MAP_SWIZZLE_NONE;
}

CUtensorMapInterleave InterleaveOf(const std::string& name) {
  if (name == "16B") return CU_TENSOR_MAP_INTERLEAVE_16B;
  if (name == "32B") return CU_TENSOR_MAP_INTERLEAVE_32B;
  return CU_TENSOR_MAP_INTERLEAVE_NONE;
}

CUtensorMapL2promotion PromotionOf(const std::string& name) {
  if (name == "64B") return CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
  if (name == "128B") return CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  if (name == "256B") return CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
  return CU_TENSOR_MAP_L2_PROMOTION_NONE;
}

}  // namespace

Failure EncodeTensorMap(const GpuContext& gpu, const std::string& name, const TensorMapPlan& plan, CUdeviceptr base,
                        CUtensorMap* map) {
  const std::optional<CUtensorMapDataType> type = TypeOf(plan.type);
  const size_t rank = plan.dims.size();
  if (!type || rank < 1 || rank > 5 || plan.box.size() != rank || plan.byte_strides.size() + 1 != rank ||
      (!plan.element_strides.empty() && plan.element_strides.size() != rank)) {
    return {v1::OUTCOME_INFEASIBLE_LAUNCH, fmt::format("The tensor map {} has lists of different lengths.", name)};
  }
  std::vector<uint32_t> element_strides = plan.element_strides;
  element_strides.resize(rank, 1);
  // With a rank of 1 there are no strides, and the driver still wants an address.
  const cuuint64_t no_stride = 0;
  const std::vector<cuuint64_t> dims(plan.dims.begin(), plan.dims.end());
  const std::vector<cuuint64_t> strides(plan.byte_strides.begin(), plan.byte_strides.end());
  const CUdeviceptr address = base + static_cast<uint64_t>(plan.base_offset_bytes);
  const CUresult error = gpu.driver().cuTensorMapEncodeTiled(
      map, *type, static_cast<cuuint32_t>(rank), reinterpret_cast<void*>(address), dims.data(),
      strides.empty() ? &no_stride : strides.data(), plan.box.data(), element_strides.data(),
      InterleaveOf(plan.interleave), SwizzleOf(plan.swizzle), PromotionOf(plan.l2_promotion),
      plan.oob_fill_nan ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return gpu.driver().Check(error, CallKind::kLaunch, fmt::format("The driver refuses the tensor map {}", name));
}

}  // namespace tunefarm::cuda
