// A config's binary in the GPU's context.
//
// One thread. Unloaded with the object; the context must not run its kernels then.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/worker/backend.h"
#include "server/worker/cuda/gpu_context.h"

namespace tunefarm::cuda {

class LoadedModule {
 public:
  // LOAD_ERROR when the driver refuses the binary.
  static Failure Load(const GpuContext& gpu, const std::string& artifact,
                      std::map<std::string, std::string> lowered_names, std::unique_ptr<LoadedModule>* module);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  // By the name that the definition writes. LOAD_ERROR if the binary lacks it.
  Failure Function(const std::string& entry, CUfunction* function);
  // LOAD_ERROR if the binary lacks it or has less than `bytes` for it.
  Failure Symbol(const std::string& symbol, uint64_t bytes, CUdeviceptr* address);

  const GpuContext& gpu() const { return gpu_; }

 private:
  LoadedModule(const GpuContext& gpu, std::map<std::string, std::string> lowered_names)
      : gpu_(gpu), lowered_names_(std::move(lowered_names)) {}

  const GpuContext& gpu_;
  const std::map<std::string, std::string> lowered_names_;
  CUmodule module_ = nullptr;
  std::map<std::string, CUfunction> functions_;
};

// The steps of a sequence with kernel.* known, and every function made ready for its launches (shared memory, clusters,
// carve-out). `module` may be null when no step launches a kernel. Adds what the loader says to *resources if given.
Failure EvaluateSteps(const GpuContext& gpu, const PreparedKernel& kernel, Sequence sequence, const Config& config,
                      LoadedModule* module, std::vector<StepPlan>* steps,
                      tunefarm::v1::ResourceUse* resources = nullptr);

}  // namespace tunefarm::cuda
