// A kernel of a package, loaded for one device: everything that a launch needs but the launch's own values.
//
// Threads: const use from any; see launch_call.h for what launches do with it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/launch/choice.h"
#include "client/launch/cuda_driver.h"
#include "client/launch/device.h"
#include "client/launch/include/tunefarm/launch.h"
#include "client/launch/kernel_dims.h"
#include "client/launch/lane.h"
#include "client/launch/package.h"

namespace tunefarm::launch {

// A function of a choice's binary.
struct Entry {
  const char* name = "";
  void* host = nullptr;
  cuda::Kernel kernel = nullptr;
  int64_t registers = 0, static_shared_bytes = 0;
  // The last answer of the driver: shared bytes << 32 | threads << 16 | blocks; 0: none yet. One word, so that threads
  // need not agree who writes it.
  mutable std::atomic<uint64_t> occupancy{0};
};

struct LoadedStep {
  const package::StepRecord* record = nullptr;
  const Entry* entry = nullptr;  // of a kernel step
  size_t entry_number = 0;       // in the choice
};

struct LoadedChoice {
  const package::ChoiceRecord* record = nullptr;
  cuda::Library library = nullptr;
  std::unique_ptr<Entry[]> entries;
  size_t entry_count = 0;
  std::vector<LoadedStep> prepare, steps;
  bool asks_occupancy = false;  // a formula reads kernel.max_active_blocks
  bool has_symbols = false;
  // Of all that a plan pins: the config with its binary, the layout, and what buffers need. Equal ones of different
  // packages are the same.
  uint64_t generation = 0;
  std::string config;  // "tile_m=128,stages=4"

  // Whether arguments are not the caller's as they are.
  bool needs_prepare() const { return !prepare.empty() || has_symbols; }
};

class Kernel {
 public:
  static tunefarm_status Load(std::shared_ptr<const Package> package, const char* name, const tunefarm_dim* dims,
                              size_t dim_count, int device, std::unique_ptr<Kernel>* kernel, tunefarm_error* error);
  // What another package has for the kernel, the dims and the device that `old` was loaded for. INCOMPATIBLE or
  // INVALID_ARGUMENT where it takes other arguments or dims. See also Load.
  static tunefarm_status LoadNewer(std::shared_ptr<const Package> package, const Kernel& old,
                                   std::unique_ptr<Kernel>* kernel, tunefarm_error* error);

  // The one that this was loaded in place of, which lives as long; nullptr: none.
  const Kernel* previous() const { return previous_; }
  // To be called before other threads know this.
  void SetPrevious(const Kernel* previous);
  // How many there are before this.
  int updates() const { return updates_; }
  // Whether a launch must give a generation: its arguments may be prepared for a config of an earlier package, or of
  // none.
  bool asks_generation() const { return previous_ != nullptr && prepares_; }
  // The choice of this generation; nullptr: there is none.
  const LoadedChoice* FindOwnGeneration(uint64_t generation) const;
  // The same, here or in what was loaded before.
  const LoadedChoice* FindGeneration(uint64_t generation) const;

  const Package& package() const { return *package_; }
  const package::KernelRecord& record() const { return *record_; }
  const char* name() const { return package_->String(record_->name); }
  bool is_cuda() const { return record_->language == package::kCuda; }
  const cuda::Driver& driver() const { return *driver_; }
  cuda::Device device() const { return device_; }

  const KernelDims& dims() const { return dims_; }
  // Buffers that a launch gives: the first ones of every choice.
  size_t argument_count() const { return argument_count_; }
  const package::BufferRecord& argument(size_t number) const {
    return package_->buffers()[choices_.front().record->first_buffer + number];
  }

  // The slots of formulas for a launch's dims; those of the entry are `registers` 0 and so on until SetEntry.
  void FillSlots(const int64_t* launch_dims, expression::Cell* slots) const;
  void SetEntry(const Entry* entry, int64_t max_active_blocks, expression::Cell* slots) const;

  const ChoiceTable& table() const { return *table_; }
  const std::vector<LoadedChoice>& choices() const { return choices_; }
  Lanes& lanes() const { return *lanes_; }
  // Whether launches on the stream are captured; also true where the driver does not say, as of the default stream
  // while another one is captured.
  bool IsCapturing(const tunefarm_launch& launch) const;

 private:
  Kernel() = default;

  tunefarm_status Find(const char* name, tunefarm_error* error);
  tunefarm_status LoadFor(int device, tunefarm_error* error);
  tunefarm_status LoadChoices(const DeviceProperties& device, tunefarm_error* error);
  bool IsOwnClass(const package::ChoiceRecord& choice, const DeviceProperties& device) const;
  bool RunsOn(const package::ChoiceRecord& choice, const DeviceProperties& device) const;
  tunefarm_status NothingFits(const DeviceProperties& device, bool some_run, tunefarm_error* error) const;
  // The caller's buffers have the types of the first choice's.
  tunefarm_status CheckTypes(const package::ChoiceRecord& choice, tunefarm_error* error) const;
  tunefarm_status LoadChoice(const package::ChoiceRecord& record, LoadedChoice* choice, tunefarm_error* error) const;
  tunefarm_status LoadSteps(uint32_t first, uint32_t count, void* handle, LoadedChoice* choice,
                            std::vector<LoadedStep>* steps, tunefarm_error* error) const;
  tunefarm_status LoadEntry(const package::StepRecord& step, void* handle, Entry* entry, tunefarm_error* error) const;
  std::string ConfigText(const package::ChoiceRecord& choice) const;
  tunefarm_status CheckSameArguments(const Kernel& old, tunefarm_error* error) const;

  std::shared_ptr<const Package> package_;
  const package::KernelRecord* record_ = nullptr;
  const cuda::Driver* driver_ = nullptr;
  cuda::Device device_ = 0;
  expression::Cell device_slots_[package::kDeviceSlots];
  KernelDims dims_;
  std::vector<LoadedChoice> choices_;
  std::vector<uint64_t> generations_;  // theirs
  std::unique_ptr<ChoiceTable> table_;
  size_t argument_count_ = 0;
  const Kernel* previous_ = nullptr;
  int updates_ = 0;
  bool prepares_ = false;  // a config does, here or before
  std::unique_ptr<Lanes> lanes_;
};

}  // namespace tunefarm::launch
