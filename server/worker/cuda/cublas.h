// cuBLAS, opened at run time, for references and baselines. A missing cuBLAS is no fault: its operations answer
// LOAD_ERROR.
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

struct DeviceView {
  CUdeviceptr data = 0;
  uint64_t bytes = 0;
  tunefarm::v1::DataType type = tunefarm::v1::DATA_TYPE_UNSPECIFIED;
};

class Cublas {
 public:
  // Nothing is opened until the first operation.
  Cublas(const GpuContext& gpu, std::vector<SearchPlace> places);
  ~Cublas();

  // Checks that the operation can be done and opens the library. LOAD_ERROR with one sentence if not.
  Failure Ready(const StepPlan& step, const DeviceView& a, const DeviceView& b, const DeviceView& c);
  // Enqueues it on the context's stream. After Ready.
  Failure Enqueue(const StepPlan& step, const DeviceView& a, const DeviceView& b, const DeviceView& c);

 private:
  struct Functions;

  Failure Open();

  const GpuContext& gpu_;
  const std::vector<SearchPlace> places_;
  std::unique_ptr<Functions> functions_;
  Failure unavailable_;
  bool is_open_ = false;
};

}  // namespace tunefarm::cuda
