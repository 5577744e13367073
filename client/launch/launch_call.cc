#include "client/launch/launch_call.h"

#include <pthread.h>

#include <algorithm>
#include <cinttypes>
#include <cstring>

#include "client/launch/failure.h"
#include "client/launch/host_call.h"
#include "client/launch/step_values.h"
#include "server/driver_step/data_type.h"
#include "server/driver_step/launch_config.h"
#include "server/driver_step/tensor_map.h"

namespace tunefarm::launch {

using namespace tunefarm::package;  // NOLINT: the records
using driver_step::NameOf;
using driver_step::SizeOf;
using expression::Cell;

namespace {

const Entry* FirstEntry(const LoadedChoice& choice) { return choice.entry_count == 0 ? nullptr : &choice.entries[0]; }

// Fills *selection for slots of these dims.
tunefarm_status SelectBySlots(const Kernel& kernel, Cell* slots, Selection* selection, tunefarm_error* error) {
  int64_t asked[kDimsMax];
  kernel.dims().LookupValues(slots, asked);
  const Evaluation evaluation(kernel, slots, error);
  const char* broken = nullptr;
  const auto accepts = [&](size_t number) {
    const LoadedChoice& choice = kernel.choices()[number];
    kernel.SetEntry(FirstEntry(choice), 1, slots);
    for (uint32_t i = 0; i < choice.record->constraints; ++i) {
      const uint32_t constraint = choice.record->first_constraint + i;
      if (evaluation.Holds(constraint)) continue;
      if (broken == nullptr) broken = kernel.package().Formula(constraint).text;
      return false;
    }
    return true;
  };
  ChoiceTable::Found found;
  if (!kernel.table().Choose(asked, accepts, &found)) {
    if (broken != nullptr) {
      return Fail(error, TUNEFARM_NOT_FOUND,
                  "%s: no config of the package keeps its constraints for these dims; the best one breaks '%s'.",
                  kernel.name(), broken);
    }
    return Fail(error, TUNEFARM_NOT_FOUND,
                "%s: no config of the package is near enough to these dims; tune them, or export the default config "
                "with the package.",
                kernel.name());
  }
  selection->choice = &kernel.choices()[found.choice];
  selection->match = found.match;
  selection->distance = found.distance;
  kernel.SetEntry(FirstEntry(*selection->choice), 1, slots);
  return evaluation.Buffers(selection);
}

// One launch under way: what the caller gave, and what was chosen for it.
class Call {
 public:
  // `prepares`: it runs the prepare steps, not the launches.
  Call(const Kernel& kernel, const tunefarm_launch& launch, bool prepares, tunefarm_error* error)
      : kernel_(kernel), launch_(launch), prepares_(prepares), error_(error) {}

  // What the structure says by itself.
  tunefarm_status CheckShape() const;
  // That it goes with what was chosen, and where the buffers lie.
  tunefarm_status Bind(const Selection& selection);
  tunefarm_status CheckDevice() const;
  tunefarm_status InitializeBuffers(const Selection& selection) const;
  tunefarm_status Enqueue(const LoadedStep& step, const Selection& selection, StepValues* values) const;
  tunefarm_status CopySymbols(const Selection& selection) const;
  // Of the thread, the dims and the addresses.
  uint64_t Hash() const;

 private:
  tunefarm_status CheckGeneration(const Selection& selection) const;
  tunefarm_status Fill(const BufferRecord& buffer, uint64_t length, void* address) const;
  tunefarm_status Memset(const LoadedStep& step, const Selection& selection) const;
  tunefarm_status EnqueueCuda(const LoadedStep& step, StepValues* values) const;
  void CallOnCpu(const LoadedStep& step, StepValues* values) const;
  tunefarm_status Encode(const TensorMapRecord& record, ArgumentValue* value) const;
  const BufferRecord& Buffer(const Selection& selection, size_t number) const {
    return kernel_.package().buffers()[selection.choice->record->first_buffer + number];
  }
  cuda::Stream stream() const { return static_cast<cuda::Stream>(launch_.stream); }

  const Kernel& kernel_;
  const tunefarm_launch& launch_;
  const bool prepares_;
  tunefarm_error* const error_;
  void* addresses_[kBuffersMax];  // of the choice's buffers
};

tunefarm_status Call::CheckShape() const {
  if (launch_.size < sizeof(tunefarm_launch)) {
    return Fail(error_, TUNEFARM_INVALID_ARGUMENT,
                "The tunefarm_launch says that it has %zu bytes; initialise it with TUNEFARM_LAUNCH_INIT.",
                launch_.size);
  }
  const size_t dims = kernel_.dims().of_launches().size();
  if (launch_.dim_count != dims || (dims > 0 && launch_.dims == nullptr)) {
    return Fail(error_, TUNEFARM_INVALID_ARGUMENT, "%s: a launch gives %zu dims, not %zu.", kernel_.name(), dims,
                launch_.dims == nullptr ? size_t{0} : launch_.dim_count);
  }
  const size_t arguments = kernel_.argument_count();
  if (launch_.argument_count != arguments || (arguments > 0 && launch_.arguments == nullptr)) {
    return Fail(error_, TUNEFARM_INVALID_ARGUMENT, "%s: a launch hands over %zu arguments, not %zu.", kernel_.name(),
                arguments, launch_.arguments == nullptr ? size_t{0} : launch_.argument_count);
  }
  return TUNEFARM_OK;
}

uint64_t Call::Hash() const {
  constexpr uint64_t kMultiplier = 0x9E37'79B9'7F4A'7C15;
  uint64_t hash = static_cast<uint64_t>(pthread_self()) * kMultiplier;
  for (size_t i = 0; i < launch_.dim_count; ++i) hash = (hash ^ static_cast<uint64_t>(launch_.dims[i])) * kMultiplier;
  for (size_t i = 0; i < launch_.argument_count; ++i) {
    hash = (hash ^ reinterpret_cast<uintptr_t>(launch_.arguments[i])) * kMultiplier;
  }
  return hash >> 32;
}

tunefarm_status Call::CheckGeneration(const Selection& selection) const {
  const LoadedChoice& chosen = *selection.choice;
  if (launch_.generation == chosen.generation) return TUNEFARM_OK;
  if (launch_.generation == 0) {
    if (prepares_ || !kernel_.asks_generation()) return TUNEFARM_OK;
    return Fail(error_, TUNEFARM_STALE,
                "%s has configs that need prepared arguments, and has been updated; plan and prepare again, and give "
                "the plan's generation with each launch.",
                kernel_.name());
  }
  if (const LoadedChoice* const planned = kernel_.FindGeneration(launch_.generation); planned != nullptr) {
    const bool has_symbols = planned->has_symbols || chosen.has_symbols;
    if (planned->record->layout == chosen.record->layout && !has_symbols) return TUNEFARM_OK;
    return Fail(error_, TUNEFARM_STALE,
                "%s: the arguments are prepared for the config %s, and these dims are for the config %s; plan and "
                "prepare again.",
                kernel_.name(), planned->config.c_str(), chosen.config.c_str());
  }
  return Fail(error_, TUNEFARM_STALE,
              "%s: the plan's generation %" PRIu64 " is none of this kernel's; plan and prepare again.", kernel_.name(),
              launch_.generation);
}

tunefarm_status Call::Bind(const Selection& selection) {
  const tunefarm_status status = CheckGeneration(selection);
  if (status != TUNEFARM_OK) return status;
  const Package& package = kernel_.package();
  const size_t arguments = kernel_.argument_count();
  for (size_t i = 0; i < arguments; ++i) {
    const BufferRecord& buffer = Buffer(selection, i);
    const uint64_t element = SizeOf(buffer.data_type);
    addresses_[i] = launch_.arguments[i];
    if (addresses_[i] == nullptr || reinterpret_cast<uintptr_t>(addresses_[i]) % element != 0) {
      return Fail(error_, TUNEFARM_INVALID_ARGUMENT,
                  "%s: the address %p of the argument '%s' is NULL or not aligned to its elements of %" PRIu64
                  " bytes.",
                  kernel_.name(), addresses_[i], package.String(buffer.name), element);
    }
    if (launch_.argument_bytes == nullptr) continue;
    const uint64_t needed = selection.lengths[i] * element;
    if (launch_.argument_bytes[i] < needed) {
      return Fail(error_, TUNEFARM_INVALID_ARGUMENT,
                  "%s: the argument '%s' has %" PRIu64 " bytes, but needs %" PRIu64 " (%" PRIu64 " elements of %s).",
                  kernel_.name(), package.String(buffer.name), launch_.argument_bytes[i], needed, selection.lengths[i],
                  NameOf(buffer.data_type));
    }
  }
  if (selection.workspace_bytes > 0) {
    const bool is_stale = launch_.generation != 0 && launch_.generation != selection.choice->generation;
    if (launch_.workspace == nullptr || launch_.workspace_bytes < selection.workspace_bytes) {
      return Fail(error_, is_stale ? TUNEFARM_STALE : TUNEFARM_INVALID_ARGUMENT,
                  "%s: the launch needs %" PRIu64 " bytes of work space for these dims, but has %" PRIu64
                  "; ask tunefarm_kernel_plan.",
                  kernel_.name(), selection.workspace_bytes,
                  launch_.workspace == nullptr ? uint64_t{0} : launch_.workspace_bytes);
    }
    if (reinterpret_cast<uintptr_t>(launch_.workspace) % 256 != 0) {
      return Fail(error_, TUNEFARM_INVALID_ARGUMENT, "%s: the work space at %p is not aligned to 256 bytes.",
                  kernel_.name(), launch_.workspace);
    }
  }
  for (size_t i = arguments; i < selection.choice->record->buffers; ++i) {
    addresses_[i] = static_cast<std::byte*>(launch_.workspace) + selection.scratch_offsets[i];
  }
  return TUNEFARM_OK;
}

tunefarm_status Call::CheckDevice() const {
  if (!kernel_.is_cuda()) return TUNEFARM_OK;
  cuda::Device device = 0;
  // Without a current context the stream may have one: the driver says what is wrong.
  if (kernel_.driver().cuCtxGetDevice(&device) != cuda::kSuccess || device == kernel_.device()) return TUNEFARM_OK;
  return Fail(
      error_, TUNEFARM_INVALID_ARGUMENT,
      "%s is loaded for the CUDA device %d, and the current context is of device %d; load it for that one, too.",
      kernel_.name(), kernel_.device(), device);
}

tunefarm_status Call::Fill(const BufferRecord& buffer, uint64_t length, void* address) const {
  const size_t element = SizeOf(buffer.data_type);
  const uint64_t bits = buffer.init == kZero ? 0 : buffer.fill;
  if (!kernel_.is_cuda()) {
    if (bits == 0) {
      std::memset(address, 0, length * element);
    } else {
      auto* at = static_cast<std::byte*>(address);
      for (uint64_t i = 0; i < length; ++i, at += element) std::memcpy(at, &bits, element);
    }
    return TUNEFARM_OK;
  }
  const cuda::Driver& driver = kernel_.driver();
  const auto at = reinterpret_cast<cuda::DevicePointer>(address);
  const auto low = static_cast<uint32_t>(bits), high = static_cast<uint32_t>(bits >> 32);
  cuda::Result result = cuda::kSuccess;
  if (element == 1 || bits == 0) {
    result = driver.cuMemsetD8Async(at, static_cast<unsigned char>(bits), length * element, stream());
  } else if (element == 2) {
    result = driver.cuMemsetD16Async(at, static_cast<unsigned short>(bits), length, stream());
  } else if (element == 4 || low == high) {
    result = driver.cuMemsetD32Async(at, low, length * (element / 4), stream());
  } else {
    // A column of the low halves and one of the high halves.
    result = driver.cuMemsetD2D32Async(at, element, low, 1, length, stream());
    if (result == cuda::kSuccess) result = driver.cuMemsetD2D32Async(at + 4, element, high, 1, length, stream());
  }
  return driver.Check(result, error_, "A buffer cannot be initialised: ", kernel_.package().String(buffer.name));
}

tunefarm_status Call::InitializeBuffers(const Selection& selection) const {
  for (size_t i = 0; i < selection.choice->record->buffers; ++i) {
    const BufferRecord& buffer = Buffer(selection, i);
    if (buffer.init == kUntouched) continue;
    const tunefarm_status status = Fill(buffer, selection.lengths[i], addresses_[i]);
    if (status != TUNEFARM_OK) return status;
  }
  return TUNEFARM_OK;
}

tunefarm_status Call::CopySymbols(const Selection& selection) const {
  if (!selection.choice->has_symbols) return TUNEFARM_OK;
  const cuda::Driver& driver = kernel_.driver();
  for (size_t i = 0; i < selection.choice->record->buffers; ++i) {
    const BufferRecord& buffer = Buffer(selection, i);
    if (buffer.symbol == kNone) continue;
    const char* const symbol = kernel_.package().String(buffer.symbol);
    cuda::DevicePointer address = 0;
    size_t size = 0;
    tunefarm_status status = driver.Check(driver.cuLibraryGetGlobal(&address, &size, selection.choice->library, symbol),
                                          error_, "The binary has no constant symbol ", symbol);
    if (status != TUNEFARM_OK) return status;
    const uint64_t bytes = selection.lengths[i] * SizeOf(buffer.data_type);
    if (bytes > size) {
      return Fail(error_, TUNEFARM_INVALID_ARGUMENT,
                  "%s: the constant symbol '%s' has %zu bytes, but its data have %" PRIu64 ".", kernel_.name(), symbol,
                  size, bytes);
    }
    status = driver.Check(
        driver.cuMemcpyDtoDAsync(address, reinterpret_cast<cuda::DevicePointer>(addresses_[i]), bytes, stream()),
        error_, "A constant symbol cannot be written: ", symbol);
    if (status != TUNEFARM_OK) return status;
  }
  return TUNEFARM_OK;
}

tunefarm_status Call::Memset(const LoadedStep& step, const Selection& selection) const {
  const size_t number = step.record->memset_buffer;
  const BufferRecord& buffer = Buffer(selection, number);
  const uint64_t bytes = selection.lengths[number] * SizeOf(buffer.data_type);
  const auto value = static_cast<unsigned char>(step.record->memset_byte);
  if (!kernel_.is_cuda()) {
    std::memset(addresses_[number], value, bytes);
    return TUNEFARM_OK;
  }
  const auto at = reinterpret_cast<cuda::DevicePointer>(addresses_[number]);
  return kernel_.driver().Check(kernel_.driver().cuMemsetD8Async(at, value, bytes, stream()), error_,
                                "A memset failed: ", kernel_.package().String(buffer.name));
}

tunefarm_status Call::Encode(const TensorMapRecord& record, ArgumentValue* value) const {
  const TensorMapValues& map = value->map;
  const uint64_t address = driver_step::TensorAddress(reinterpret_cast<uintptr_t>(addresses_[record.buffer]), map);
  if (value->encoded_for == address) return TUNEFARM_OK;
  const cuda::Result result = driver_step::EncodeTensorMap(kernel_.driver().cuTensorMapEncodeTiled, map, address,
                                                           reinterpret_cast<cuda::TensorMap*>(value->bytes));
  value->encoded_for = result == cuda::kSuccess ? address : 0;
  if (result == cuda::kSuccess) return TUNEFARM_OK;
  return Fail(error_, TUNEFARM_INVALID_ARGUMENT,
              "%s: the driver refuses a tensor map at %p (%s); its address must be a multiple of 16 bytes.",
              kernel_.name(), reinterpret_cast<void*>(address), kernel_.driver().ErrorName(result));
}

tunefarm_status Call::EnqueueCuda(const LoadedStep& step, StepValues* values) const {
  void* parameters[kArgumentsMax];
  for (uint32_t i = 0; i < step.record->arguments; ++i) parameters[i] = values->arguments[i].bytes;
  const uint32_t flags = step.record->flags;
  cuda::LaunchAttribute attributes[driver_step::kAttributesMax];
  cuda::LaunchConfig config;
  driver_step::WriteConfig(values->launch,
                           {(flags & kCooperative) != 0, (flags & kProgrammaticStreamSerialization) != 0}, stream(),
                           attributes, &config);
  const cuda::Driver& driver = kernel_.driver();
  const cuda::Result result =
      driver.cuLaunchKernelEx(&config, reinterpret_cast<cuda::Function>(step.entry->kernel), parameters, nullptr);
  if (result == cuda::kSuccess) return TUNEFARM_OK;
  const tunefarm_status status = driver.Check(result, error_, "The launch was refused: ", step.entry->name);
  if (status != TUNEFARM_DEVICE_ERROR) return status;
  return Fail(error_, status,
              "%s: the launch of %s with %u x %u x %u blocks of %u x %u x %u threads and %u bytes of dynamic shared "
              "memory was refused: %s.",
              kernel_.name(), step.entry->name, config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX,
              config.blockDimY, config.blockDimZ, config.sharedMemBytes, driver.ErrorName(result));
}

void Call::CallOnCpu(const LoadedStep& step, StepValues* values) const {
  HostArgument arguments[kArgumentsMax];
  for (uint32_t i = 0; i < step.record->arguments; ++i) {
    const ArgumentRecord& record = kernel_.package().arguments()[step.record->first_argument + i];
    arguments[i].bytes = values->arguments[i].bytes;
    arguments[i].type = record.kind == kScalarArgument ? record.data_type : 0;
  }
  CallHost(step.entry->host, arguments, step.record->arguments);
}

tunefarm_status Call::Enqueue(const LoadedStep& step, const Selection& selection, StepValues* values) const {
  if (!values->runs) return TUNEFARM_OK;
  if (step.record->kind == kMemsetStep) return Memset(step, selection);
  const Package& package = kernel_.package();
  for (uint32_t i = 0; i < step.record->arguments; ++i) {
    const ArgumentRecord& record = package.arguments()[step.record->first_argument + i];
    ArgumentValue& value = values->arguments[i];
    if (record.kind == kBufferArgument) {
      std::memcpy(value.bytes, &addresses_[record.target], sizeof(void*));
    } else if (record.kind == kTensorMapArgument) {
      const tunefarm_status status = Encode(package.tensor_maps()[record.target], &value);
      if (status != TUNEFARM_OK) return status;
    }
  }
  if (kernel_.is_cuda()) return EnqueueCuda(step, values);
  CallOnCpu(step, values);
  return TUNEFARM_OK;
}

// What was loaded before and chooses the launch's plan for these dims, or, where the plan is for other dims and the
// kernel does not know it, what was loaded last with it; nullptr: nothing, or the launch is not captured.
[[gnu::noinline]] const Kernel* FindPlannedBefore(const Kernel& kernel, const tunefarm_launch& launch) {
  if (!kernel.IsCapturing(launch)) return nullptr;
  const Kernel* last = nullptr;
  for (const Kernel* before = kernel.previous(); before != nullptr; before = before->previous()) {
    Selection selection;
    if (Select(*before, launch.dims, &selection, nullptr) != TUNEFARM_OK) continue;
    if (selection.choice->generation == launch.generation) return before;
    if (last == nullptr && before->FindOwnGeneration(launch.generation) != nullptr) last = before;
  }
  return kernel.FindOwnGeneration(launch.generation) == nullptr ? last : nullptr;
}

// Within a capture no better config than the planned one is taken. `chosen`: by the kernel; nullptr: nothing. Returns
// the kernel of before to take instead; nullptr: stay with this one.
const Kernel* PlannedBefore(const Kernel& kernel, const tunefarm_launch& launch, const LoadedChoice* chosen) {
  if (launch.generation == 0 || kernel.previous() == nullptr) return nullptr;
  if (chosen != nullptr && chosen->generation == launch.generation) return nullptr;
  return FindPlannedBefore(kernel, launch);
}

// Evaluates and enqueues one step after the other, with nothing kept.
tunefarm_status RunOnStack(const Kernel& kernel, const std::vector<LoadedStep>& steps, Cell* slots,
                           Selection* selection, const Call& call, tunefarm_error* error) {
  const Evaluation evaluation(kernel, slots, error);
  tunefarm_status status = evaluation.Occupancy(steps, selection);
  if (status != TUNEFARM_OK) return status;
  ArgumentValue arguments[kArgumentsMax];
  for (const LoadedStep& step : steps) {
    StepValues values;
    values.arguments = arguments;
    status = evaluation.Step(step, *selection, &values);
    if (status != TUNEFARM_OK) return status;
    status = call.Enqueue(step, *selection, &values);
    if (status != TUNEFARM_OK) return status;
  }
  return TUNEFARM_OK;
}

// Makes the lane's selection and steps those of the dims. Nothing is kept of a failure.
tunefarm_status Refresh(const Kernel& kernel, const int64_t* dims, Lane* lane, tunefarm_error* error) {
  const size_t bytes = kernel.dims().of_launches().size() * sizeof(*dims);
  if (lane->has_steps && (bytes == 0 || std::memcmp(lane->dims, dims, bytes) == 0)) return TUNEFARM_OK;
  lane->has_steps = false;
  tunefarm_status status = kernel.dims().CheckLaunch(dims, error);
  if (status != TUNEFARM_OK) return status;
  if (bytes > 0) std::memcpy(lane->dims, dims, bytes);
  Cell slots[kSlotsMax];
  kernel.FillSlots(dims, slots);
  status = SelectBySlots(kernel, slots, &lane->selection, error);
  if (status != TUNEFARM_OK) return status;
  const Evaluation evaluation(kernel, slots, error);
  const std::vector<LoadedStep>& steps = lane->selection.choice->steps;
  status = evaluation.Occupancy(steps, &lane->selection);
  for (size_t i = 0; i < steps.size() && status == TUNEFARM_OK; ++i) {
    status = evaluation.Step(steps[i], lane->selection, &lane->steps[i]);
  }
  lane->has_steps = status == TUNEFARM_OK;
  return status;
}

}  // namespace

tunefarm_status Select(const Kernel& kernel, const int64_t* dims, Selection* selection, tunefarm_error* error) {
  const tunefarm_status status = kernel.dims().CheckLaunch(dims, error);
  if (status != TUNEFARM_OK) return status;
  Cell slots[kSlotsMax];
  kernel.FillSlots(dims, slots);
  return SelectBySlots(kernel, slots, selection, error);
}

tunefarm_status Launch(const Kernel& kernel, const tunefarm_launch& launch, tunefarm_error* error) {
  Call call(kernel, launch, false, error);
  tunefarm_status status = call.CheckShape();
  if (status == TUNEFARM_OK) status = call.CheckDevice();
  if (status != TUNEFARM_OK) return status;
  const HeldLane held(kernel.lanes().Take(call.Hash()));
  if (Lane* const lane = held.get(); lane != nullptr) {
    status = Refresh(kernel, launch.dims, lane, error);
    const Selection& selection = lane->selection;
    const LoadedChoice* const chosen = status == TUNEFARM_OK ? selection.choice : nullptr;
    if (const Kernel* const before = PlannedBefore(kernel, launch, chosen)) return Launch(*before, launch, error);
    if (status != TUNEFARM_OK) return status;
    status = call.Bind(selection);
    if (status == TUNEFARM_OK) status = call.InitializeBuffers(selection);
    const std::vector<LoadedStep>& steps = selection.choice->steps;
    for (size_t i = 0; i < steps.size() && status == TUNEFARM_OK; ++i) {
      status = call.Enqueue(steps[i], selection, &lane->steps[i]);
    }
    return status;
  }
  status = kernel.dims().CheckLaunch(launch.dims, error);
  if (status != TUNEFARM_OK) return status;
  Cell slots[kSlotsMax];
  kernel.FillSlots(launch.dims, slots);
  Selection selection;
  status = SelectBySlots(kernel, slots, &selection, error);
  const LoadedChoice* const chosen = status == TUNEFARM_OK ? selection.choice : nullptr;
  if (const Kernel* const before = PlannedBefore(kernel, launch, chosen)) return Launch(*before, launch, error);
  if (status == TUNEFARM_OK) status = call.Bind(selection);
  if (status == TUNEFARM_OK) status = call.InitializeBuffers(selection);
  if (status != TUNEFARM_OK) return status;
  return RunOnStack(kernel, selection.choice->steps, slots, &selection, call, error);
}

tunefarm_status Prepare(const Kernel& kernel, const tunefarm_launch& launch, tunefarm_error* error) {
  Call call(kernel, launch, true, error);
  tunefarm_status status = call.CheckShape();
  if (status == TUNEFARM_OK) status = call.CheckDevice();
  if (status == TUNEFARM_OK) status = kernel.dims().CheckLaunch(launch.dims, error);
  if (status != TUNEFARM_OK) return status;
  Cell slots[kSlotsMax];
  kernel.FillSlots(launch.dims, slots);
  Selection selection;
  status = SelectBySlots(kernel, slots, &selection, error);
  const LoadedChoice* const chosen = status == TUNEFARM_OK ? selection.choice : nullptr;
  if (const Kernel* const before = PlannedBefore(kernel, launch, chosen)) return Prepare(*before, launch, error);
  if (status != TUNEFARM_OK) return status;
  if (!selection.choice->needs_prepare()) return TUNEFARM_OK;
  status = call.Bind(selection);
  if (status == TUNEFARM_OK) status = call.CopySymbols(selection);
  if (status != TUNEFARM_OK) return status;
  return RunOnStack(kernel, selection.choice->prepare, slots, &selection, call, error);
}

}  // namespace tunefarm::launch
