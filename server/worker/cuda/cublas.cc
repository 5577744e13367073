#include "server/worker/cuda/cublas.h"

#include <cublas_v2.h>
#include <fmt/core.h>

#include <limits>
#include <optional>

#include "server/base/status.h"
#include "server/worker/cuda/shared_library.h"

namespace tunefarm::cuda {

// The ABI's names; cublas_v2.h defines the short ones as macros.
struct Cublas::Functions {
  SharedLibrary library;
  cublasStatus_t (*create)(cublasHandle_t*) = nullptr;
  cublasStatus_t (*set_stream)(cublasHandle_t, cudaStream_t) = nullptr;
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*, const void*,
                         cudaDataType, int, const void*, cudaDataType, int, const void*, void*, cudaDataType, int,
                         cublasComputeType_t, cublasGemmAlgo_t) = nullptr;
  cublasHandle_t handle = nullptr;
};

namespace {

std::optional<cudaDataType> TypeOf(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_F16:
      return CUDA_R_16F;
    case v1::DATA_TYPE_BF16:
      return CUDA_R_16BF;
    case v1::DATA_TYPE_F32:
      return CUDA_R_32F;
    case v1::DATA_TYPE_F64:
      return CUDA_R_64F;
    default:
      return std::nullopt;
  }
}

Failure Refuse(std::string message) { return {v1::OUTCOME_LOAD_ERROR, std::move(message)}; }

bool Fits(int64_t value) { return value >= 1 && value <= std::numeric_limits<int>::max(); }

}  // namespace

Cublas::Cublas(const GpuContext& gpu, std::vector<SearchPlace> places)
    : gpu_(gpu), places_(std::move(places)), functions_(std::make_unique<Functions>()) {}
Cublas::~Cublas() = default;

Failure Cublas::Open() {
  if (is_open_ || unavailable_) return unavailable_;
  absl::StatusOr<SharedLibrary> library =
      SharedLibrary::Find(places_, {"libcublas.so.13", "libcublas.so.12"}, {"libcublasLt.so.13", "libcublasLt.so.12"});
  if (!library.ok()) {
    unavailable_ = Refuse(fmt::format("There is no cuBLAS: {}.", MessageOf(library.status())));
    return unavailable_;
  }
  functions_->library = *std::move(library);
  const SharedLibrary& found = functions_->library;
  if (!found.Resolve("cublasCreate_v2", &functions_->create) ||
      !found.Resolve("cublasSetStream_v2", &functions_->set_stream) ||
      !found.Resolve("cublasGemmEx", &functions_->gemm)) {
    unavailable_ = Refuse(fmt::format("{} lacks functions of cuBLAS 12.", found.path()));
    return unavailable_;
  }
  cublasStatus_t error = functions_->create(&functions_->handle);
  if (error == CUBLAS_STATUS_SUCCESS) {
    error = functions_->set_stream(functions_->handle, reinterpret_cast<cudaStream_t>(gpu_.stream()));
  }
  if (error != CUBLAS_STATUS_SUCCESS) {
    unavailable_ =
        Refuse(fmt::format("cuBLAS ({}) could not be started: status {}.", found.path(), static_cast<int>(error)));
    return unavailable_;
  }
  is_open_ = true;
  return {};
}

Failure Cublas::Ready(const StepPlan& step, const DeviceView& a, const DeviceView& b, const DeviceView& c) {
  if (step.library_op.op() != v1::LIBRARY_OP_KIND_GEMM) {
    return Refuse(
        fmt::format("The library operation {} is not supported yet.", v1::LibraryOpKind_Name(step.library_op.op())));
  }
  const std::optional<cudaDataType> type = TypeOf(a.type);
  if (!type || a.type != b.type || (c.type != a.type && c.type != v1::DATA_TYPE_F32)) {
    return Refuse("cuBLAS products are of f16, bf16, f32 or f64 matrices of one type.");
  }
  if (!Fits(step.m) || !Fits(step.n) || !Fits(step.k)) {
    return Refuse(
        fmt::format("cuBLAS takes sizes from 1 to 2^31-1, but the product is {} x {} x {}.", step.m, step.n, step.k));
  }
  const auto holds = [](const DeviceView& view, int64_t rows, int64_t columns) {
    return static_cast<double>(rows) * static_cast<double>(columns) <=
           static_cast<double>(view.bytes / SizeOf(view.type));
  };
  if (!holds(a, step.m, step.k) || !holds(b, step.k, step.n) || !holds(c, step.m, step.n)) {
    return Refuse("A buffer of the library operation is smaller than its matrix.");
  }
  return Open();
}

// All are row-major, and cuBLAS is column-major: it is told to compute C^T = B^T * A^T.
Failure Cublas::Enqueue(const StepPlan& step, const DeviceView& a, const DeviceView& b, const DeviceView& c) {
  const int m = static_cast<int>(step.m), n = static_cast<int>(step.n), k = static_cast<int>(step.k);
  const bool transpose_a = step.library_op.transpose_a(), transpose_b = step.library_op.transpose_b();
  const bool is_double = a.type == v1::DATA_TYPE_F64;
  cublasComputeType_t compute = is_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
  if (!is_double && step.library_op.compute_type() == v1::COMPUTE_TYPE_TF32) compute = CUBLAS_COMPUTE_32F_FAST_TF32;
  const float one = 1, zero = 0;
  const double double_one = 1, double_zero = 0;
  const void* const alpha = is_double ? static_cast<const void*>(&double_one) : &one;
  const void* const beta = is_double ? static_cast<const void*>(&double_zero) : &zero;
  const cublasStatus_t error = functions_->gemm(
      functions_->handle, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k,
      alpha, reinterpret_cast<const void*>(b.data), *TypeOf(b.type), transpose_b ? k : n,
      reinterpret_cast<const void*>(a.data), *TypeOf(a.type), transpose_a ? m : k, beta,
      reinterpret_cast<void*>(c.data), *TypeOf(c.type), n, compute, CUBLAS_GEMM_DEFAULT);
  if (error == CUBLAS_STATUS_SUCCESS) return {};
  return Refuse(fmt::format("cuBLAS refused the product {} x {} x {}: status {}.", m, n, k, static_cast<int>(error)));
}

}  // namespace tunefarm::cuda
