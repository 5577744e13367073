#include "server/worker/host/library_gemm.h"

#include <cstring>
#include <vector>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/worker/host/kernel_calls.h"
#include "server/worker/verify/compare.h"
#include "server/worker/verify/fill.h"

namespace tunefarm {
namespace {

absl::StatusOr<const BufferView*> FindMatrix(const BufferViews& buffers, const std::string& name, int64_t rows,
                                             int64_t columns) {
  const auto buffer = buffers.find(name);
  if (buffer == buffers.end()) return InvalidArgument("the library op names no buffer: {}", name);
  const uint64_t needed = static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns) * SizeOf(buffer->second.type);
  if (buffer->second.bytes.size() < needed) {
    return InvalidArgument("the library op takes {} as a matrix of {} x {}, {} bytes, but it has {}", name, rows,
                           columns, needed, buffer->second.bytes.size());
  }
  return &buffer->second;
}

// The matrix as doubles, row-major, as if it were not transposed.
std::vector<double> ReadMatrix(const BufferView& view, int64_t rows, int64_t columns, bool transposed) {
  std::vector<double> values(static_cast<size_t>(rows * columns));
  const size_t size = SizeOf(view.type);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t index = transposed ? column * rows + row : row * columns + column;
      values[static_cast<size_t>(row * columns + column)] =
          ElementToDouble(view.type, view.bytes.data() + static_cast<size_t>(index) * size);
    }
  }
  return values;
}

}  // namespace

absl::StatusOr<HostGemm> PlanHostGemm(const StepPlan& step, const BufferViews& buffers) {
  const v1::LibraryOp& op = step.library_op;
  if (op.op() != v1::LIBRARY_OP_KIND_GEMM) {
    return Unimplemented("the host has no grouped library op; give the reference as a kernel step");
  }
  if (step.m < 1 || step.n < 1 || step.k < 1) {
    return InvalidArgument("the library op has an empty extent: m {}, n {}, k {}", step.m, step.n, step.k);
  }
  HostGemm gemm;
  gemm.m = step.m;
  gemm.n = step.n;
  gemm.k = step.k;
  gemm.transpose_a = op.transpose_a();
  gemm.transpose_b = op.transpose_b();
  ASSIGN_OR_RETURN(gemm.a, FindMatrix(buffers, op.a(), step.m, step.k));
  ASSIGN_OR_RETURN(gemm.b, FindMatrix(buffers, op.b(), step.k, step.n));
  ASSIGN_OR_RETURN(gemm.c, FindMatrix(buffers, op.c(), step.m, step.n));
  return gemm;
}

void RunHostGemm(const HostGemm& gemm) {
  const std::vector<double> a = ReadMatrix(*gemm.a, gemm.m, gemm.k, gemm.transpose_a);
  const std::vector<double> b = ReadMatrix(*gemm.b, gemm.k, gemm.n, gemm.transpose_b);
  const size_t columns = static_cast<size_t>(gemm.n), depth = static_cast<size_t>(gemm.k);
  const size_t size = SizeOf(gemm.c->type);
  std::vector<double> row(columns);
  for (size_t i = 0; i < static_cast<size_t>(gemm.m); ++i) {
    row.assign(columns, 0.0);
    for (size_t p = 0; p < depth; ++p) {
      const double factor = a[i * depth + p];
      const double* const b_row = b.data() + p * columns;
      for (size_t j = 0; j < columns; ++j) row[j] += factor * b_row[j];
    }
    for (size_t j = 0; j < columns; ++j) {
      const uint64_t bits = tunefarm_element_of_double(row[j], static_cast<int>(gemm.c->type));
      std::memcpy(gemm.c->bytes.data() + (i * columns + j) * size, &bits, size);
    }
  }
}

}  // namespace tunefarm
