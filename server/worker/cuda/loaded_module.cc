#include "server/worker/cuda/loaded_module.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "server/base/format.h"
#include "server/base/status.h"
#include "server/definition/binary_entries.h"
#include "server/definition/triton_signature.h"

namespace tunefarm::cuda {
namespace {

int Attribute(const GpuContext& gpu, CUfunction function, CUfunction_attribute which) {
  int value = 0;
  return gpu.driver().cuFuncGetAttribute(&value, which, function) == CUDA_SUCCESS ? value : 0;
}

int64_t ThreadsOf(const StepPlan& step) { return int64_t{step.block[0]} * step.block[1] * step.block[2]; }

Failure AllowShared(const GpuContext& gpu, const StepPlan& step, CUfunction function) {
  const int64_t fixed = Attribute(gpu, function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  if (step.dynamic_shared_bytes + fixed > gpu.shared_bytes_per_block_optin()) {
    return {v1::OUTCOME_INFEASIBLE_LAUNCH,
            fmt::format("{} needs {} bytes of shared memory per block ({} of them dynamic), but the device has {}.",
                        step.entry, step.dynamic_shared_bytes + fixed, step.dynamic_shared_bytes,
                        gpu.shared_bytes_per_block_optin())};
  }
  const int64_t allowed = Attribute(gpu, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  if (step.dynamic_shared_bytes <= allowed) return {};
  return gpu.driver().Check(
      gpu.driver().cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                      static_cast<int>(step.dynamic_shared_bytes)),
      CallKind::kLaunch,
      fmt::format("{} may not have {} bytes of dynamic shared memory", step.entry, step.dynamic_shared_bytes));
}

Failure MakeReady(const GpuContext& gpu, const StepPlan& step, CUfunction function) {
  const Driver& driver = gpu.driver();
  TUNEFARM_RETURN_IF_FAILED(AllowShared(gpu, step, function));
  if (step.attributes.non_portable_cluster()) {
    TUNEFARM_RETURN_IF_FAILED(
        driver.Check(driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
                     CallKind::kLaunch, fmt::format("{} may not use clusters above 8 blocks", step.entry)));
  }
  if (step.attributes.shared_memory_carveout_percent() != 0) {
    TUNEFARM_RETURN_IF_FAILED(
        driver.Check(driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                                               step.attributes.shared_memory_carveout_percent()),
                     CallKind::kLaunch, fmt::format("{} may not choose its shared memory carve-out", step.entry)));
  }
  return {};
}

// Entries that are there. One that is missing matters only if a step launches it or speaks of it: *missing is then why.
std::map<std::string, LoadedEntry> LoadedEntries(const GpuContext& gpu, const KernelPlan& plan, Sequence sequence,
                                                 LoadedModule* module, Failure* missing) {
  std::map<std::string, LoadedEntry> loaded;
  if (plan.language() == v1::LANGUAGE_TRITON) return loaded;  // Its expressions do not speak of them.
  for (const std::string& entry : plan.Entries(sequence)) {
    CUfunction function = nullptr;
    if (module == nullptr) continue;
    if (Failure failure = module->Function(entry, &function)) {
      if (!*missing) *missing = std::move(failure);
      continue;
    }
    LoadedEntry& known = loaded[entry];
    known.registers = Attribute(gpu, function, CU_FUNC_ATTRIBUTE_NUM_REGS);
    known.static_shared_bytes = Attribute(gpu, function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  }
  return loaded;
}

Failure AddResources(const GpuContext& gpu, const StepPlan& step, CUfunction function, int blocks_per_sm,
                     v1::ResourceUse* use) {
  use->set_registers(std::max(use->registers(), Attribute(gpu, function, CU_FUNC_ATTRIBUTE_NUM_REGS)));
  use->set_local_bytes(std::max(use->local_bytes(), Attribute(gpu, function, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)));
  use->set_static_shared_bytes(
      std::max(use->static_shared_bytes(), Attribute(gpu, function, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)));
  use->set_dynamic_shared_bytes(std::max(use->dynamic_shared_bytes(), static_cast<int>(step.dynamic_shared_bytes)));
  use->set_blocks_per_sm(use->blocks_per_sm() == 0 ? blocks_per_sm : std::min(use->blocks_per_sm(), blocks_per_sm));
  return {};
}

Failure Refused(const absl::Status& status) {
  return {v1::OUTCOME_INFEASIBLE_LAUNCH, std::string(MessageOf(status)) + "."};
}

Failure CompleteTritonSteps(const PreparedKernel& kernel, const Config& config, LoadedModule* module,
                            std::vector<StepPlan>* steps) {
  const absl::StatusOr<std::vector<BufferPlan>> buffers =
      kernel.plan->Buffers(kernel.problem, config, kernel.device_class);
  if (!buffers.ok()) return Refused(buffers.status());
  for (StepPlan& step : *steps) {
    if (step.kind != StepPlan::Kind::kKernel) continue;
    if (module == nullptr)
      return {v1::OUTCOME_LOAD_ERROR, fmt::format("There is no binary with the entry '{}'.", step.entry)};
    TUNEFARM_RETURN_IF_FAILED(module->CompleteStep(TritonSignature(step, *buffers), &step));
  }
  return {};
}

}  // namespace

Failure LoadedModule::Load(const GpuContext& gpu, const KernelPlan& plan, const std::string& artifact,
                           std::map<std::string, std::string> lowered_names, std::unique_ptr<LoadedModule>* module) {
  std::unique_ptr<LoadedModule> loaded(new LoadedModule(gpu, std::move(lowered_names)));
  if (plan.language() == v1::LANGUAGE_TRITON) {
    TUNEFARM_RETURN_IF_FAILED(loaded->LoadTriton(artifact));
  } else {
    CUmodule ignored = nullptr;
    TUNEFARM_RETURN_IF_FAILED(loaded->LoadBinary(artifact, &ignored));
  }
  *module = std::move(loaded);
  return {};
}

Failure LoadedModule::LoadBinary(const std::string& cubin, CUmodule* module) {
  // The driver reads as far as the image says it is: what is no ELF file never gets there.
  if (cubin.size() < 64 || cubin.compare(0, 4,
                                         "\x7f"
                                         "ELF") != 0) {
    return {v1::OUTCOME_LOAD_ERROR, "The binary is no CUDA binary."};
  }
  TUNEFARM_RETURN_IF_FAILED(gpu_.driver().Check(gpu_.driver().cuModuleLoadData(module, cubin.data()), CallKind::kLoad,
                                                "The driver refuses the binary"));
  modules_.push_back(*module);
  binary_bytes_ += cubin.size();
  return {};
}

Failure LoadedModule::LoadTriton(const std::string& artifact) {
  absl::StatusOr<std::map<std::string, worker::v1::TritonKernel>> kernels = ParseTritonBinary(artifact);
  if (!kernels.ok()) {
    return {v1::OUTCOME_LOAD_ERROR, fmt::format("The binary cannot be used: {}.", MessageOf(kernels.status()))};
  }
  triton_kernels_ = *std::move(kernels);
  for (const auto& [signature, kernel] : triton_kernels_) {
    // The driver reads as many parameters as the function says that it has. 0: it says so in a way that is not known.
    const int parameters = ParametersOf(kernel.cubin(), kernel.symbol());
    if (const int passed = PassedParameters(kernel); parameters > 0 && parameters != passed) {
      return {v1::OUTCOME_LOAD_ERROR,
              fmt::format("{} has {} in its binary, but {} said to be passed.", signature,
                          FormatCount(parameters, "parameter"), FormatCount(passed, "is", "are"))};
    }
    CUmodule module = nullptr;
    TUNEFARM_RETURN_IF_FAILED(LoadBinary(kernel.cubin(), &module));
    TUNEFARM_RETURN_IF_FAILED(gpu_.driver().Check(
        gpu_.driver().cuModuleGetFunction(&functions_[signature], module, kernel.symbol().c_str()), CallKind::kLoad,
        fmt::format("The binary of {} has no function '{}'", signature, kernel.symbol())));
  }
  return {};
}

LoadedModule::~LoadedModule() {
  for (CUmodule module : modules_) (void)gpu_.driver().cuModuleUnload(module);
}

Failure LoadedModule::ScratchMemory(const std::string& name, const TritonScratch& wanted, uint64_t* address) {
  *address = 0;
  if (wanted.bytes == 0) return {};
  GuardedBuffer& memory = scratch_[fmt::format("{} {}", name, wanted.bytes)];
  if (memory.empty()) {
    TUNEFARM_RETURN_IF_FAILED(GuardedBuffer::Allocate(gpu_, wanted.bytes + wanted.alignment, &memory));
  }
  *address = (memory.data() + wanted.alignment - 1) / wanted.alignment * wanted.alignment;
  return {};
}

Failure LoadedModule::CompleteStep(const std::string& signature, StepPlan* step) {
  const auto kernel = triton_kernels_.find(signature);
  if (kernel == triton_kernels_.end()) {
    return {v1::OUTCOME_LOAD_ERROR, fmt::format("The binary has no kernel '{}'.", signature)};
  }
  uint64_t global = 0, profile = 0;
  TUNEFARM_RETURN_IF_FAILED(ScratchMemory("global " + signature, GlobalScratchOf(kernel->second, *step), &global));
  TUNEFARM_RETURN_IF_FAILED(ScratchMemory("profile " + signature, ProfileScratchOf(kernel->second, *step), &profile));
  if (const absl::Status completed = CompleteTritonStep(kernel->second, global, profile, step); !completed.ok()) {
    return {v1::OUTCOME_LOAD_ERROR, std::string(MessageOf(completed)) + "."};
  }
  return {};
}

Failure LoadedModule::Function(const std::string& entry, CUfunction* function) {
  const auto known = functions_.find(entry);
  if (known != functions_.end()) {
    *function = known->second;
    return {};
  }
  if (!triton_kernels_.empty() || modules_.empty()) {
    return {v1::OUTCOME_LOAD_ERROR, fmt::format("The binary has no entry '{}'.", entry)};
  }
  const auto lowered = lowered_names_.find(entry);
  const std::string& name = lowered == lowered_names_.end() ? entry : lowered->second;
  TUNEFARM_RETURN_IF_FAILED(gpu_.driver().Check(gpu_.driver().cuModuleGetFunction(function, modules_[0], name.c_str()),
                                                CallKind::kLoad, fmt::format("The binary has no entry '{}'", entry)));
  functions_[entry] = *function;
  return {};
}

Failure LoadedModule::Symbol(const std::string& symbol, uint64_t bytes, CUdeviceptr* address) {
  const auto lowered = lowered_names_.find("&" + symbol);
  const std::string& name = lowered == lowered_names_.end() ? symbol : lowered->second;
  size_t size = 0;
  TUNEFARM_RETURN_IF_FAILED(
      gpu_.driver().Check(gpu_.driver().cuModuleGetGlobal(address, &size, modules_[0], name.c_str()), CallKind::kLoad,
                          fmt::format("The binary has no constant symbol '{}'", symbol)));
  if (size >= bytes) return {};
  return {v1::OUTCOME_LOAD_ERROR,
          fmt::format("The constant symbol '{}' has {} bytes, but its data have {}.", symbol, size, bytes)};
}

Failure EvaluateSteps(const GpuContext& gpu, const PreparedKernel& kernel, Sequence sequence, const Config& config,
                      LoadedModule* module, std::vector<StepPlan>* steps, v1::ResourceUse* resources) {
  // Its binary says what of a launch the formulas leave open.
  const bool is_triton = kernel.plan->language() == v1::LANGUAGE_TRITON;
  Failure missing, failure;
  const std::map<std::string, LoadedEntry> loaded = LoadedEntries(gpu, *kernel.plan, sequence, module, &missing);
  std::map<std::string, int> blocks_per_sm;
  const auto active_blocks = [&](const StepPlan& step) -> absl::StatusOr<int64_t> {
    CUfunction function = nullptr;
    if (module == nullptr) {
      failure = {v1::OUTCOME_LOAD_ERROR, fmt::format("There is no binary with the entry '{}'.", step.entry)};
    } else {
      failure = module->Function(step.entry, &function);
    }
    if (!failure) failure = MakeReady(gpu, step, function);
    if (failure) return absl::CancelledError();
    int blocks = 0;
    if (gpu.driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, function, static_cast<int>(std::clamp<int64_t>(ThreadsOf(step), 1, 1024)),
            step.dynamic_shared_bytes) != CUDA_SUCCESS) {
      blocks = 0;
    }
    int& least = blocks_per_sm.emplace(step.entry, blocks).first->second;
    least = std::min(least, blocks);
    return blocks;
  };
  absl::StatusOr<std::vector<StepPlan>> evaluated =
      kernel.plan->Steps(sequence, kernel.problem, config, kernel.device_class, &loaded,
                         is_triton ? KernelPlan::ActiveBlocks() : active_blocks);
  if (failure) return failure;
  if (!evaluated.ok()) {
    return missing && absl::IsFailedPrecondition(evaluated.status()) ? missing : Refused(evaluated.status());
  }
  if (is_triton) {
    TUNEFARM_RETURN_IF_FAILED(CompleteTritonSteps(kernel, config, module, &*evaluated));
    for (const StepPlan& step : *evaluated) {
      if (step.kind == StepPlan::Kind::kKernel) (void)active_blocks(step);
      if (failure) return failure;
    }
  }
  for (const StepPlan& step : *evaluated) {
    if (step.kind != StepPlan::Kind::kKernel) continue;
    CUfunction function = nullptr;
    TUNEFARM_RETURN_IF_FAILED(module->Function(step.entry, &function));
    TUNEFARM_RETURN_IF_FAILED(MakeReady(gpu, step, function));
    if (resources != nullptr) {
      TUNEFARM_RETURN_IF_FAILED(AddResources(gpu, step, function, blocks_per_sm[step.entry], resources));
    }
  }
  *steps = *std::move(evaluated);
  return {};
}

}  // namespace tunefarm::cuda
