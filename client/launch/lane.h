// Lanes: what launches keep between each other. A launch takes a free lane for as long as it lasts, without waiting;
// where the lane's last launch had the same dims, nothing is evaluated again, and a tensor map is encoded again only
// for another address. A launch that finds no free lane evaluates in its own stack.
//
// The first lane that is tried depends on the thread, the dims and the addresses, so that a thread that launches a
// kernel for several layers in turn finds the tensor maps of each.
//
// Threads: any. Memory is taken when a kernel is loaded, and never again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "client/launch/cuda_driver.h"
#include "client/launch/include/tunefarm/launch.h"
#include "client/launch/package_format.h"
#include "server/driver_step/step_evaluator.h"
#include "server/driver_step/tensor_map.h"

namespace tunefarm::launch {

struct LoadedChoice;

using driver_step::TensorMapValues;

// An argument of a step as the kernel gets it.
struct ArgumentValue {
  alignas(128) std::byte bytes[128];  // a scalar, an address or a tensor map
  TensorMapValues map;
  uint64_t encoded_for = 0;  // the address that `bytes` are a tensor map of; 0: none yet
};

// An evaluated step.
struct StepValues {
  bool runs = false;
  driver_step::LaunchValues launch;
  ArgumentValue* arguments = nullptr;  // room for those of any step
};

// What the dims of a launch choose.
struct Selection {
  const LoadedChoice* choice = nullptr;  // nullptr: not chosen yet
  tunefarm_match match = TUNEFARM_MATCH_EXACT;
  double distance = 0;
  uint64_t workspace_bytes = 0;
  uint64_t lengths[package::kBuffersMax];          // elements of the choice's buffers
  uint64_t scratch_offsets[package::kBuffersMax];  // of scratch buffers in the work space
  uint64_t max_active_blocks[package::kStepsMax];  // of each entry
};

struct Lane {
  std::atomic<bool> is_taken{false};
  int64_t dims[package::kDimsMax];
  Selection selection;
  bool has_steps = false;  // `steps` are evaluated for `dims`
  std::vector<StepValues> steps;
  std::unique_ptr<ArgumentValue[]> arguments;
};

class Lanes {
 public:
  // For choices of up to so many steps with up to so many arguments.
  Lanes(size_t steps, size_t arguments);

  // nullptr: all that were tried are taken.
  Lane* Take(uint64_t hash);

 private:
  size_t count_ = 0;
  std::unique_ptr<Lane[]> lanes_;
};

// Gives its lane back.
class HeldLane {
 public:
  explicit HeldLane(Lane* lane) : lane_(lane) {}
  ~HeldLane() {
    if (lane_ != nullptr) lane_->is_taken.store(false, std::memory_order_release);
  }
  HeldLane(const HeldLane&) = delete;
  HeldLane& operator=(const HeldLane&) = delete;
  Lane* get() const { return lane_; }

 private:
  Lane* const lane_;
};

}  // namespace tunefarm::launch
