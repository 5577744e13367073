#include "client/launch/kernel.h"

#define XXH_INLINE_ALL
#include <dlfcn.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "client/launch/binary_load.h"
#include "client/launch/failure.h"

namespace tunefarm::launch {

using namespace tunefarm::package;  // NOLINT: the records
using expression::Cell;

namespace {

// Names that a message lists.
constexpr size_t kShownMax = 8;

}  // namespace

tunefarm_status Kernel::Load(std::shared_ptr<const Package> package, const char* name, const tunefarm_dim* dims,
                             size_t dim_count, int device, std::unique_ptr<Kernel>* kernel, tunefarm_error* error) {
  std::unique_ptr<Kernel> loaded(new Kernel);
  loaded->package_ = std::move(package);
  tunefarm_status status = loaded->Find(name, error);
  if (status != TUNEFARM_OK) return status;
  status = loaded->dims_.Fix(*loaded->package_, *loaded->record_, dims, dim_count, error);
  if (status == TUNEFARM_OK) status = loaded->LoadFor(device, error);
  if (status == TUNEFARM_OK) *kernel = std::move(loaded);
  return status;
}

tunefarm_status Kernel::LoadNewer(std::shared_ptr<const Package> package, const Kernel& old,
                                  std::unique_ptr<Kernel>* kernel, tunefarm_error* error) {
  std::unique_ptr<Kernel> loaded(new Kernel);
  loaded->package_ = std::move(package);
  tunefarm_status status = loaded->Find(old.name(), error);
  if (status != TUNEFARM_OK) return status;
  if (loaded->is_cuda() != old.is_cuda()) {
    return Fail(error, TUNEFARM_INCOMPATIBLE, "The package's %s is for %s, the loaded one for %s.", old.name(),
                loaded->is_cuda() ? "CUDA" : "the CPU", old.is_cuda() ? "CUDA" : "the CPU");
  }
  const std::vector<tunefarm_dim> dims = old.dims_.Fixed();
  status = loaded->dims_.Fix(*loaded->package_, *loaded->record_, dims.data(), dims.size(), error);
  if (status == TUNEFARM_OK) status = loaded->dims_.CheckSame(old.dims_, error);
  if (status == TUNEFARM_OK) status = loaded->LoadFor(old.device_, error);
  if (status == TUNEFARM_OK) status = loaded->CheckSameArguments(old, error);
  if (status == TUNEFARM_OK) *kernel = std::move(loaded);
  return status;
}

tunefarm_status Kernel::LoadFor(int device, tunefarm_error* error) {
  if (!is_cuda()) return LoadChoices(ReadCpu(), error);
  tunefarm_status status = cuda::GetDriver(&driver_, error);
  if (status != TUNEFARM_OK) return status;
  const LoadsInCaptures loads(*driver_);
  CurrentContext context(*driver_);
  status = context.Enter(device, &device_, error);
  if (status != TUNEFARM_OK) return status;
  return LoadChoices(ReadCudaDevice(*driver_, device_), error);
}

void Kernel::SetPrevious(const Kernel* previous) {
  previous_ = previous;
  updates_ = previous->updates_ + 1;
  prepares_ = prepares_ || previous->prepares_;
}

const LoadedChoice* Kernel::FindOwnGeneration(uint64_t generation) const {
  const auto found = std::find(generations_.begin(), generations_.end(), generation);
  return found == generations_.end() ? nullptr : &choices_[static_cast<size_t>(found - generations_.begin())];
}

const LoadedChoice* Kernel::FindGeneration(uint64_t generation) const {
  for (const Kernel* kernel = this; kernel != nullptr; kernel = kernel->previous_) {
    if (const LoadedChoice* const found = kernel->FindOwnGeneration(generation)) return found;
  }
  return nullptr;
}

bool Kernel::IsCapturing(const tunefarm_launch& launch) const {
  if (!is_cuda()) return false;
  cuda::CaptureStatus status = cuda::kCaptureNone;
  const cuda::Result result = driver_->cuStreamIsCapturing(static_cast<cuda::Stream>(launch.stream), &status);
  return result != cuda::kSuccess || status != cuda::kCaptureNone;
}

tunefarm_status Kernel::Find(const char* name, tunefarm_error* error) {
  std::string known;
  size_t shown = 0;
  for (const KernelRecord& kernel : package_->kernels()) {
    if (std::strcmp(package_->String(kernel.name), name) == 0) {
      record_ = &kernel;
      return TUNEFARM_OK;
    }
    if (++shown <= kShownMax) known += (known.empty() ? "" : ", ") + std::string(package_->String(kernel.name));
  }
  if (shown > kShownMax) known += ", ...";
  return Fail(error, TUNEFARM_NOT_FOUND, "The package has no kernel '%s'; it has %s.", name,
              known.empty() ? "none" : known.c_str());
}

bool Kernel::IsOwnClass(const ChoiceRecord& choice, const DeviceProperties& device) const {
  const ClassRecord& own = package_->classes()[choice.device_class];
  if (device.name != package_->String(own.name)) return false;
  return !is_cuda() || std::memcmp(own.properties, device.values, sizeof(own.properties)) == 0;
}

bool Kernel::RunsOn(const ChoiceRecord& choice, const DeviceProperties& device) const {
  const bool is_own = IsOwnClass(choice, device);
  const int64_t capability = device.values[kComputeCapability];
  const ClassRecord& tuned = package_->classes()[choice.device_class];
  if (!is_own && tuned.properties[kComputeCapability] != capability) return false;
  if (choice.binary == kNone) return true;
  const BinaryRecord& binary = package_->binaries()[choice.binary];
  if (!is_cuda()) return is_own || binary.is_specific == 0;
  // A cubin is for one major version, from a minor version on.
  if (binary.is_specific != 0) return binary.compute_capability == capability;
  return binary.compute_capability / 10 == capability / 10 && binary.compute_capability <= capability;
}

tunefarm_status Kernel::CheckSameArguments(const Kernel& old, tunefarm_error* error) const {
  if (argument_count_ != old.argument_count_) {
    return Fail(error, TUNEFARM_INCOMPATIBLE,
                "The package's %s takes %zu arguments, the loaded one %zu; load it by itself.", name(), argument_count_,
                old.argument_count_);
  }
  for (size_t i = 0; i < argument_count_; ++i) {
    const BufferRecord& mine = argument(i);
    const BufferRecord& theirs = old.argument(i);
    const char* const own_name = package_->String(mine.name);
    if (mine.data_type == theirs.data_type && mine.access == theirs.access &&
        std::strcmp(own_name, old.package_->String(theirs.name)) == 0 &&
        std::strcmp(package_->Formula(mine.length).text, old.package_->Formula(theirs.length).text) == 0) {
      continue;
    }
    return Fail(error, TUNEFARM_INCOMPATIBLE,
                "The package's %s takes the argument '%s' with another name, type, access or length than the loaded "
                "one takes '%s'; load it by itself.",
                name(), own_name, old.package_->String(theirs.name));
  }
  return TUNEFARM_OK;
}

tunefarm_status Kernel::NothingFits(const DeviceProperties& device, bool some_run, tunefarm_error* error) const {
  if (some_run) {
    return Fail(error, TUNEFARM_NOT_FOUND, "The package has no config of %s for %s; tune it and export it again.",
                name(), dims_.FixedText().c_str());
  }
  std::vector<std::string> classes;
  for (const ChoiceRecord& choice : package_->choices().subspan(record_->first_choice, record_->choices)) {
    std::string own = package_->String(package_->classes()[choice.device_class].name);
    if (std::find(classes.begin(), classes.end(), own) == classes.end()) classes.push_back(std::move(own));
    if (classes.size() > kShownMax) break;
  }
  std::string known;
  for (const std::string& own : classes) known += (known.empty() ? "" : ", ") + own;
  if (classes.empty()) return Fail(error, TUNEFARM_NOT_FOUND, "The package has no config of %s.", name());
  return Fail(error, TUNEFARM_INCOMPATIBLE,
              "The package's binaries of %s are for %s and do not run on this device, %s; tune it here and export it "
              "again.",
              name(), known.c_str(), device.name.c_str());
}

tunefarm_status Kernel::LoadChoices(const DeviceProperties& device, tunefarm_error* error) {
  std::vector<LookupDim> lookup_dims;
  for (const uint32_t number : dims_.of_lookups()) {
    const DimRecord& record = dims_.record(number);
    LookupDim& own = lookup_dims.emplace_back();
    own.rule = record.kind == kInt ? record.rule : uint32_t{kExact};
    for (uint32_t i = 0; i < record.bounds; ++i) {
      own.bounds.push_back(package_->ValueOf(record.first_bound + i).int_value);
    }
  }
  table_ = std::make_unique<ChoiceTable>(std::move(lookup_dims), record_->lookup_distance_max);
  const DeviceProperties* properties = &device;
  DeviceProperties cpu = device;
  bool some_run = false;
  uint32_t driver_needed = 0;
  size_t steps = 0, arguments = 0;
  for (const ChoiceRecord& choice : package_->choices().subspan(record_->first_choice, record_->choices)) {
    if (!RunsOn(choice, device)) continue;
    some_run = true;
    if (!dims_.HasFixedOf(choice)) continue;
    if (choice.binary != kNone && is_cuda()) {
      const uint32_t needed = package_->binaries()[choice.binary].driver_version_min;
      if (static_cast<int64_t>(needed) > driver_->version) {
        driver_needed = std::max(driver_needed, needed);
        continue;
      }
    }
    std::vector<int64_t> values;
    for (const uint32_t number : dims_.of_lookups()) {
      values.push_back(package_->ValueOf(choice.first_dim_value + number).int_value);
    }
    LoadedChoice& loaded = choices_.emplace_back();
    tunefarm_status status = LoadChoice(choice, &loaded, error);
    if (status == TUNEFARM_OK) status = CheckTypes(choice, error);
    if (status != TUNEFARM_OK) return status;
    generations_.push_back(loaded.generation);
    prepares_ = prepares_ || loaded.needs_prepare();
    table_->Add(choices_.size() - 1, choice.kind == kDefault, IsOwnClass(choice, device), std::move(values));
    steps = std::max<size_t>(steps, choice.steps);
    for (const LoadedStep& step : loaded.steps) arguments = std::max<size_t>(arguments, step.record->arguments);
  }
  if (choices_.empty() && driver_needed > 0) {
    return Fail(error, TUNEFARM_INCOMPATIBLE,
                "The binaries of %s need a driver of CUDA %u.%u or newer, this one is of CUDA %d.%d; install a newer "
                "driver, or export binaries of an older toolkit.",
                name(), driver_needed / 1000, driver_needed % 1000 / 10, driver_->version / 1000,
                driver_->version % 1000 / 10);
  }
  if (choices_.empty()) return NothingFits(device, some_run, error);
  if (!is_cuda()) {
    // Of the caches and the memory, the tuned CPU's.
    const ClassRecord& tuned = package_->classes()[choices_.front().record->device_class];
    std::copy(std::begin(tuned.properties), std::end(tuned.properties), std::begin(cpu.values));
    cpu.values[kSmCount] = device.values[kSmCount];
    properties = &cpu;
  }
  for (uint32_t i = 0; i < kDeviceSlots; ++i) device_slots_[i] = Cell::Int(properties->values[i]);
  const ChoiceRecord& first = *choices_.front().record;
  while (argument_count_ < first.buffers &&
         package_->buffers()[first.first_buffer + argument_count_].access != kScratch) {
    ++argument_count_;
  }
  lanes_ = std::make_unique<Lanes>(steps, arguments);
  return TUNEFARM_OK;
}

tunefarm_status Kernel::CheckTypes(const ChoiceRecord& choice, tunefarm_error* error) const {
  const ChoiceRecord& first = *choices_.front().record;
  for (uint32_t i = 0; i < choice.buffers; ++i) {
    const BufferRecord& buffer = package_->buffers()[choice.first_buffer + i];
    if (buffer.access == kScratch) break;
    if (buffer.data_type == package_->buffers()[first.first_buffer + i].data_type) continue;
    return Fail(error, TUNEFARM_BAD_PACKAGE,
                "The configs of %s for the same baked dims disagree about the type of '%s'; export it again.", name(),
                package_->String(buffer.name));
  }
  return TUNEFARM_OK;
}

std::string Kernel::ConfigText(const ChoiceRecord& choice) const {
  std::string text;
  for (const PairRecord& pair : package_->pairs().subspan(choice.first_parameter, choice.parameters)) {
    text += (text.empty() ? "" : ",") + std::string(package_->String(pair.name)) + "=" +
            TextOf(package_->ValueOf(pair.value));
  }
  return text;
}

tunefarm_status Kernel::LoadChoice(const ChoiceRecord& record, LoadedChoice* choice, tunefarm_error* error) const {
  choice->record = &record;
  choice->config = ConfigText(record);
  std::string identity = std::string(package_->String(record_->program_digest)) + '\n' + choice->config + '\n' +
                         std::to_string(record.layout) + '\n';
  void* handle = nullptr;
  if (record.binary != kNone) {
    const BinaryRecord& binary = package_->binaries()[record.binary];
    identity += package_->String(binary.digest);
    tunefarm_status status = TUNEFARM_OK;
    if (is_cuda()) {
      status = LoadCubin(*driver_, package_->Bytes(binary), &choice->library, error);
      handle = choice->library;
    } else {
      status = LoadSharedObject(package_->Bytes(binary), &handle, error);
    }
    if (status != TUNEFARM_OK) return status;
  }
  for (const BufferRecord& buffer : package_->buffers().subspan(record.first_buffer, record.buffers)) {
    choice->has_symbols = choice->has_symbols || buffer.symbol != kNone;
    identity += '\n';
    identity += package_->Formula(buffer.length).text;
  }
  choice->generation = XXH3_64bits(identity.data(), identity.size());
  if (choice->generation == 0) choice->generation = 1;
  choice->entries = std::make_unique<Entry[]>(size_t{record.prepares} + record.steps);
  const tunefarm_status status =
      LoadSteps(record.first_prepare, record.prepares, handle, choice, &choice->prepare, error);
  if (status != TUNEFARM_OK) return status;
  return LoadSteps(record.first_step, record.steps, handle, choice, &choice->steps, error);
}

tunefarm_status Kernel::LoadSteps(uint32_t first, uint32_t count, void* handle, LoadedChoice* choice,
                                  std::vector<LoadedStep>* steps, tunefarm_error* error) const {
  const int32_t occupancy_slot = static_cast<int32_t>(record_->dims + kDeviceSlots + kMaxActiveBlocks);
  const auto asks_occupancy = [&](uint32_t number) {
    if (number == kNone) return false;
    const Program program = package_->Formula(number);
    for (uint32_t i = 0; i < program.instructions; ++i) {
      const expression::Instruction& instruction = program.code[i];
      if (instruction.op == expression::Op::kLoad && instruction.argument == occupancy_slot) return true;
    }
    return false;
  };
  for (const StepRecord& record : package_->steps().subspan(first, count)) {
    LoadedStep& step = steps->emplace_back();
    step.record = &record;
    if (record.kind != kKernelStep) continue;
    const char* const name = package_->String(record.entry);
    size_t number = 0;
    while (number < choice->entry_count && std::strcmp(choice->entries[number].name, name) != 0) ++number;
    Entry& entry = choice->entries[number];
    if (number == choice->entry_count) ++choice->entry_count;
    entry.name = name;
    const tunefarm_status status = LoadEntry(record, handle, &entry, error);
    if (status != TUNEFARM_OK) return status;
    step.entry = &entry;
    step.entry_number = number;
    bool asks = asks_occupancy(record.when) || asks_occupancy(record.dynamic_shared_bytes);
    for (int axis = 0; axis < 3; ++axis) {
      asks = asks || asks_occupancy(record.grid[axis]) || asks_occupancy(record.block[axis]) ||
             asks_occupancy(record.cluster[axis]);
    }
    for (const ArgumentRecord& argument : package_->arguments().subspan(record.first_argument, record.arguments)) {
      // A tensor map has a dozen formulas: asking the driver costs less than looking.
      asks = asks || argument.kind == kTensorMapArgument ||
             (argument.kind == kScalarArgument && asks_occupancy(argument.target));
    }
    choice->asks_occupancy = choice->asks_occupancy || (is_cuda() && asks);
  }
  return TUNEFARM_OK;
}

tunefarm_status Kernel::LoadEntry(const StepRecord& step, void* handle, Entry* entry, tunefarm_error* error) const {
  if (!is_cuda()) {
    entry->host = dlsym(handle, entry->name);
    if (entry->host != nullptr) return TUNEFARM_OK;
    return Fail(error, TUNEFARM_BAD_PACKAGE, "The binary of %s has no entry '%s'; export it again.", name(),
                entry->name);
  }
  const cuda::Driver& driver = *driver_;
  if (entry->kernel == nullptr) {
    const auto library = static_cast<cuda::Library>(handle);
    const cuda::Result result = driver.cuLibraryGetKernel(&entry->kernel, library, entry->name);
    if (result == cuda::kNotFound) {
      return Fail(error, TUNEFARM_BAD_PACKAGE, "The binary of %s has no entry '%s'; export it again.", name(),
                  entry->name);
    }
    tunefarm_status status = driver.Check(result, error, "There is no kernel for the entry ", entry->name);
    if (status != TUNEFARM_OK) return status;
    // With lazy loading this is where the code goes to the device: at the first launch it would be too late.
    cuda::Function function = nullptr;
    status = driver.Check(driver.cuKernelGetFunction(&function, entry->kernel), error,
                          "The device cannot load the entry ", entry->name);
    if (status != TUNEFARM_OK) return status;
    status = driver.Check(driver.cuFuncLoad(function), error, "The device cannot load the entry ", entry->name);
    if (status != TUNEFARM_OK) return status;
    int value = 0;
    if (driver.cuKernelGetAttribute(&value, cuda::kNumRegs, entry->kernel, device_) == cuda::kSuccess) {
      entry->registers = value;
    }
    if (driver.cuKernelGetAttribute(&value, cuda::kSharedSizeBytes, entry->kernel, device_) == cuda::kSuccess) {
      entry->static_shared_bytes = value;
    }
  }
  const auto set = [&](cuda::FunctionAttribute which, int value, const char* what) {
    return driver.Check(driver.cuKernelSetAttribute(which, value, entry->kernel, device_), error, what, entry->name);
  };
  tunefarm_status status = TUNEFARM_OK;
  if (step.dynamic_shared_bytes != kNone) {
    // As much as any launch may ask for: its formula may depend on the launch.
    int optin = 0;
    (void)driver.cuDeviceGetAttribute(&optin, cuda::kMaxSharedPerBlockOptin, device_);
    const int64_t most = optin - entry->static_shared_bytes;
    if (most > 0) {
      status = set(cuda::kMaxDynamicSharedSizeBytes, static_cast<int>(most), "Shared memory is refused to the entry ");
    }
  }
  if (status == TUNEFARM_OK && (step.flags & kNonPortableCluster) != 0) {
    status = set(cuda::kNonPortableClusterAllowed, 1, "Clusters above 8 blocks are refused to the entry ");
  }
  if (status == TUNEFARM_OK && step.carveout != 0) {
    status = set(cuda::kPreferredSharedCarveout, static_cast<int>(step.carveout),
                 "A carve-out of shared memory is refused to the entry ");
  }
  return status;
}

void Kernel::FillSlots(const int64_t* launch_dims, Cell* slots) const {
  dims_.FillSlots(launch_dims, slots);
  std::copy(std::begin(device_slots_), std::end(device_slots_), slots + record_->dims);
  SetEntry(nullptr, 1, slots);
}

void Kernel::SetEntry(const Entry* entry, int64_t max_active_blocks, Cell* slots) const {
  Cell* const own = slots + record_->dims + kDeviceSlots;
  own[kMaxActiveBlocks] = Cell::Int(max_active_blocks);
  own[kRegisters] = Cell::Int(entry == nullptr ? 0 : entry->registers);
  own[kStaticSharedBytes] = Cell::Int(entry == nullptr ? 0 : entry->static_shared_bytes);
}

}  // namespace tunefarm::launch
