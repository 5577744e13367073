#include "server/worker/cuda/cublas.h"

#include <cublas_v2.h>
#include <fmt/core.h>

#include <limits>
#include <optional>

#include "server/base/status.h"
#include "server/worker/cuda/grouped_products.h"
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
  // Null where the library has none.
  cublasStatus_t (*grouped)(cublasHandle_t, const cublasOperation_t*, const cublasOperation_t*, const int*, const int*,
                            const int*, const void*, const void* const*, cudaDataType, const int*, const void* const*,
                            cudaDataType, const int*, const void*, void* const*, cudaDataType, const int*, int,
                            const int*, cublasComputeType_t) = nullptr;
  cublasHandle_t handle = nullptr;
};

struct Cublas::Call final : GroupedCall {
  GroupedProducts products;
  // As the grouped call wants them, one entry for each product; `pointers` is on the device: of B's, A's and C's.
  std::vector<cublasOperation_t> transpose_a, transpose_b;
  std::vector<int> m, n, k, lda, ldb, ldc, group_sizes;
  std::vector<float> ones, zeros;
  GuardedBuffer pointers;
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

uint64_t ElementsOf(const DeviceView& view) { return view.bytes / SizeOf(view.type); }

CUdeviceptr Address(const DeviceView& view, uint64_t element) { return view.data + element * SizeOf(view.type); }

Failure CheckTypes(const DeviceView& a, const DeviceView& b, const DeviceView& c) {
  if (TypeOf(a.type) && a.type == b.type && (c.type == a.type || c.type == v1::DATA_TYPE_F32)) return {};
  return Refuse("cuBLAS products are of f16, bf16, f32 or f64 matrices of one type.");
}

cublasComputeType_t ComputeTypeOf(const StepPlan& step, v1::DataType type) {
  if (type == v1::DATA_TYPE_F64) return CUBLAS_COMPUTE_64F;
  const bool rounds = step.library_op.compute_type() == v1::COMPUTE_TYPE_TF32;
  return rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// How the operands of a product lie in memory: whether stored transposed, and how many elements from row to row.
struct Layout {
  cublasOperation_t transpose_a, transpose_b;
  int lda, ldb;
};

Layout LayoutOf(const StepPlan& step, const GroupProduct& product) {
  const bool transpose_a = step.library_op.transpose_a(), transpose_b = step.library_op.transpose_b();
  return {transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
          transpose_a ? product.m : product.k, transpose_b ? product.k : product.n};
}

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
  (void)found.Resolve("cublasGemmGroupedBatchedEx", &functions_->grouped);
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
  TUNEFARM_RETURN_IF_FAILED(CheckTypes(a, b, c));
  if (!Fits(step.m) || !Fits(step.n) || !Fits(step.k)) {
    return Refuse(
        fmt::format("cuBLAS takes sizes from 1 to 2^31-1, but the product is {} x {} x {}.", step.m, step.n, step.k));
  }
  const auto holds = [](const DeviceView& view, int64_t rows, int64_t columns) {
    return static_cast<double>(rows) * static_cast<double>(columns) <= static_cast<double>(ElementsOf(view));
  };
  if (!holds(a, step.m, step.k) || !holds(b, step.k, step.n) || !holds(c, step.m, step.n)) {
    return Refuse("A buffer of the library operation is smaller than its matrix.");
  }
  return Open();
}

Failure Cublas::Enqueue(const StepPlan& step, const DeviceView& a, const DeviceView& b, const DeviceView& c) {
  GroupProduct whole;
  whole.m = static_cast<int>(step.m), whole.n = static_cast<int>(step.n), whole.k = static_cast<int>(step.k);
  return Multiply(step, whole, a, b, c);
}

// All are row-major, and cuBLAS is column-major: it is told to compute C^T = B^T * A^T.
Failure Cublas::Multiply(const StepPlan& step, const GroupProduct& product, const DeviceView& a, const DeviceView& b,
                         const DeviceView& c) {
  const bool is_double = a.type == v1::DATA_TYPE_F64;
  const float one = 1, zero = 0;
  const double double_one = 1, double_zero = 0;
  const void* const alpha = is_double ? static_cast<const void*>(&double_one) : &one;
  const void* const beta = is_double ? static_cast<const void*>(&double_zero) : &zero;
  const Layout layout = LayoutOf(step, product);
  const cublasStatus_t error =
      functions_->gemm(functions_->handle, layout.transpose_b, layout.transpose_a, product.n, product.m, product.k,
                       alpha, reinterpret_cast<const void*>(Address(b, product.b)), *TypeOf(b.type), layout.ldb,
                       reinterpret_cast<const void*>(Address(a, product.a)), *TypeOf(a.type), layout.lda, beta,
                       reinterpret_cast<void*>(Address(c, product.c)), *TypeOf(c.type), product.n,
                       ComputeTypeOf(step, a.type), CUBLAS_GEMM_DEFAULT);
  if (error == CUBLAS_STATUS_SUCCESS) return {};
  return Refuse(fmt::format("cuBLAS refused the product {} x {} x {}: status {}.", product.m, product.n, product.k,
                            static_cast<int>(error)));
}

Failure Cublas::ReadSizes(const DeviceView& view, std::vector<int64_t>* sizes) const {
  const uint64_t count = ElementsOf(view);
  if (view.type == v1::DATA_TYPE_I64) {
    sizes->resize(count);
    return gpu_.CopyToHost(view.data, sizes->data(), count * sizeof(int64_t));
  }
  if (view.type != v1::DATA_TYPE_I32) return Refuse("Group sizes are of type i32 or i64.");
  std::vector<int32_t> words(count);
  TUNEFARM_RETURN_IF_FAILED(gpu_.CopyToHost(view.data, words.data(), count * sizeof(int32_t)));
  sizes->assign(words.begin(), words.end());
  return {};
}

Failure Cublas::ReadyGroups(const StepPlan& step, const DeviceView& a, const DeviceView& b, const DeviceView& c,
                            const DeviceView& sizes_view, std::unique_ptr<GroupedCall>* call) {
  TUNEFARM_RETURN_IF_FAILED(CheckTypes(a, b, c));
  TUNEFARM_RETURN_IF_FAILED(Open());
  const bool one_call = step.library_op.op() == v1::LIBRARY_OP_KIND_GEMM_GROUPED;
  if (one_call && functions_->grouped == nullptr) {
    return Refuse(fmt::format("{} has no grouped product; cuBLAS 12.5 has.", functions_->library.path()));
  }
  if (one_call && (a.type == v1::DATA_TYPE_F64 || c.type != a.type)) {
    return Refuse("cuBLAS groups products of f16, bf16 or f32 matrices, all of one type.");
  }
  std::vector<int64_t> sizes;
  TUNEFARM_RETURN_IF_FAILED(ReadSizes(sizes_view, &sizes));
  auto made = std::make_unique<Call>();
  const GroupedExtents extents{ElementsOf(a), ElementsOf(b), ElementsOf(c)};
  TUNEFARM_RETURN_IF_FAILED(PlanGroupedProducts(step, sizes, extents, &made->products));
  if (one_call && !made->products.products.empty()) TUNEFARM_RETURN_IF_FAILED(FillCall(step, a, b, c, made.get()));
  *call = std::move(made);
  return {};
}

Failure Cublas::FillCall(const StepPlan& step, const DeviceView& a, const DeviceView& b, const DeviceView& c,
                         Call* call) const {
  const std::vector<GroupProduct>& products = call->products.products;
  std::vector<CUdeviceptr> pointers;
  for (const GroupProduct& product : products) pointers.push_back(Address(b, product.b));
  for (const GroupProduct& product : products) pointers.push_back(Address(a, product.a));
  for (const GroupProduct& product : products) pointers.push_back(Address(c, product.c));
  for (const GroupProduct& product : products) {
    const Layout layout = LayoutOf(step, product);
    call->transpose_a.push_back(layout.transpose_a);
    call->transpose_b.push_back(layout.transpose_b);
    call->m.push_back(product.m);
    call->n.push_back(product.n);
    call->k.push_back(product.k);
    call->lda.push_back(layout.lda);
    call->ldb.push_back(layout.ldb);
    call->ldc.push_back(product.n);
  }
  call->group_sizes.assign(products.size(), 1);
  call->ones.assign(products.size(), 1.0f);
  call->zeros.assign(products.size(), 0.0f);
  const size_t bytes = pointers.size() * sizeof(CUdeviceptr);
  TUNEFARM_RETURN_IF_FAILED(GuardedBuffer::Allocate(gpu_, bytes, &call->pointers));
  return gpu_.CopyToDevice(pointers.data(), call->pointers.data(), bytes);
}

Failure Cublas::EnqueueGroups(const StepPlan& step, const DeviceView& a, const DeviceView& b, const DeviceView& c,
                              const GroupedCall& grouped) {
  const Call& call = static_cast<const Call&>(grouped);
  const Driver& driver = gpu_.driver();
  for (const ElementRange& zero : call.products.zeros) {
    TUNEFARM_RETURN_IF_FAILED(
        driver.Check(driver.cuMemsetD8Async(Address(c, zero.offset), 0, zero.elements * SizeOf(c.type), gpu_.stream()),
                     "A group without terms could not be set to zero"));
  }
  const std::vector<GroupProduct>& products = call.products.products;
  if (step.library_op.op() == v1::LIBRARY_OP_KIND_GEMM_LOOP) {
    for (const GroupProduct& product : products) TUNEFARM_RETURN_IF_FAILED(Multiply(step, product, a, b, c));
    return {};
  }
  if (products.empty()) return {};
  const auto pointers = [&call, &products](size_t operand) {
    return reinterpret_cast<void**>(call.pointers.data() + operand * products.size() * sizeof(CUdeviceptr));
  };
  const cublasStatus_t error = functions_->grouped(
      functions_->handle, call.transpose_b.data(), call.transpose_a.data(), call.n.data(), call.m.data(), call.k.data(),
      call.ones.data(), pointers(0), *TypeOf(b.type), call.ldb.data(), pointers(1), *TypeOf(a.type), call.lda.data(),
      call.zeros.data(), pointers(2), *TypeOf(c.type), call.ldc.data(), static_cast<int>(products.size()),
      call.group_sizes.data(), ComputeTypeOf(step, a.type));
  if (error == CUBLAS_STATUS_SUCCESS) return {};
  return Refuse(
      fmt::format("cuBLAS refused {} grouped products: status {}.", products.size(), static_cast<int>(error)));
}

}  // namespace tunefarm::cuda
