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
#include "server/worker/cuda/triton_binary.h"
#include "tunefarm/worker/v1/worker.pb.h"

namespace tunefarm::cuda {

class LoadedModule {
 public:
  // LOAD_ERROR when the driver refuses the binary, or it is none of the kernel's language.
  static Failure Load(const GpuContext& gpu, const KernelPlan& plan, const std::string& artifact,
                      std::map<std::string, std::string> lowered_names, std::unique_ptr<LoadedModule>* module);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  // By the name that the definition writes. LOAD_ERROR if the binary lacks it.
  Failure Function(const std::string& entry, CUfunction* function);
  // LOAD_ERROR if the binary lacks it or has less than `bytes` for it.
  Failure Symbol(const std::string& symbol, uint64_t bytes, CUdeviceptr* address);

  // For TRITON: fills in what the compiled function of an evaluated kernel step says, with the memory that its launches
  // need; its entry is then the signature, and for Function as it is. OUT_OF_MEMORY, or LOAD_ERROR if there is no such
  // function.
  Failure CompleteStep(const std::string& signature, StepPlan* step);

  const GpuContext& gpu() const { return gpu_; }
  uint64_t binary_bytes() const { return binary_bytes_; }

 private:
  LoadedModule(const GpuContext& gpu, std::map<std::string, std::string> lowered_names)
      : gpu_(gpu), lowered_names_(std::move(lowered_names)) {}

  Failure LoadBinary(const std::string& cubin, CUmodule* module);
  Failure LoadTriton(const std::string& artifact);
  // Stays until the module is unloaded. Address 0: none is needed.
  Failure ScratchMemory(const std::string& name, const TritonScratch& wanted, uint64_t* address);

  const GpuContext& gpu_;
  const std::map<std::string, std::string> lowered_names_;
  std::vector<CUmodule> modules_;  // one, but for TRITON
  std::map<std::string, CUfunction> functions_;
  uint64_t binary_bytes_ = 0;
  // For TRITON, by signature, and the memory by what it is for.
  std::map<std::string, tunefarm::worker::v1::TritonKernel> triton_kernels_;
  std::map<std::string, GuardedBuffer> scratch_;
};

// The steps of a sequence with kernel.* known, and every function made ready for its launches (shared memory, clusters,
// carve-out). `module` may be null when no step launches a kernel. Adds what the loader says to *resources if given.
Failure EvaluateSteps(const GpuContext& gpu, const PreparedKernel& kernel, Sequence sequence, const Config& config,
                      LoadedModule* module, std::vector<StepPlan>* steps,
                      tunefarm::v1::ResourceUse* resources = nullptr);

}  // namespace tunefarm::cuda
