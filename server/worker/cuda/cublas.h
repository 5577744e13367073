// cuBLAS, opened at run time, for references and baselines. A missing cuBLAS is no fault, nor is one without the
// grouped call (it came with 12.5): operations that need them answer LOAD_ERROR.
//
// One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/definition/kernel_plan.h"
#include "server/worker/cuda/gpu_context.h"
#include "server/worker/cuda/library_search.h"

namespace tunefarm::cuda {

struct GroupProduct;

struct DeviceView {
  CUdeviceptr data = 0;
  uint64_t bytes = 0;
  tunefarm::v1::DataType type = tunefarm::v1::DATA_TYPE_UNSPECIFIED;
};

// A GEMM_LOOP or GEMM_GROUPED with the sizes that its groups had when it was made ready, and where its matrices lie.
class GroupedCall {
 public:
  virtual ~GroupedCall() = default;
};

class Cublas {
 public:
  // Nothing is opened until the first operation.
  Cublas(const GpuContext& gpu, std::vector<SearchPlace> places);
  ~Cublas();

  // Checks that a GEMM can be done and opens the library. LOAD_ERROR with one sentence if not.
  Failure Ready(const StepPlan& step, const DeviceView& a, const DeviceView& b, const DeviceView& c);
  // Enqueues it on the context's stream. After Ready.
  Failure Enqueue(const StepPlan& step, const DeviceView& a, const DeviceView& b, const DeviceView& c);

  // The same for the grouped operations. Waits for the stream and reads the sizes (i32 or i64).
  Failure ReadyGroups(const StepPlan& step, const DeviceView& a, const DeviceView& b, const DeviceView& c,
                      const DeviceView& sizes, std::unique_ptr<GroupedCall>* call);
  Failure EnqueueGroups(const StepPlan& step, const DeviceView& a, const DeviceView& b, const DeviceView& c,
                        const GroupedCall& call);

 private:
  struct Functions;
  struct Call;

  Failure Open();
  Failure ReadSizes(const DeviceView& view, std::vector<int64_t>* sizes) const;
  Failure FillCall(const StepPlan& step, const DeviceView& a, const DeviceView& b, const DeviceView& c,
                   Call* call) const;
  Failure Multiply(const StepPlan& step, const GroupProduct& product, const DeviceView& a, const DeviceView& b,
                   const DeviceView& c);

  const GpuContext& gpu_;
  const std::vector<SearchPlace> places_;
  std::unique_ptr<Functions> functions_;
  Failure unavailable_;
  bool is_open_ = false;
};

}  // namespace tunefarm::cuda
