// The device that a kernel is loaded for: its properties as the daemon's workers read them, and its name.
#pragma once

#include <cstdint>
#include <string>

#include "client/launch/cuda_driver.h"
#include "client/launch/include/tunefarm/launch.h"
#include "client/launch/package_format.h"

namespace tunefarm::launch {

struct DeviceProperties {
  std::string name;  // as in ClassRecord
  int64_t values[package::kDeviceSlots] = {};
};

// As server/worker/cuda/cuda_probe.cc.
DeviceProperties ReadCudaDevice(const cuda::Driver& driver, cuda::Device device);

// The model's name as server/worker/host/host_topology.cc reads it, and the cores that this process may use. What else
// there is to know of a CPU is of no use to a binary that is already made.
DeviceProperties ReadCpu();

// Makes the device's context current for a while: the current one where it is the device's, else its primary context.
class CurrentContext {
 public:
  explicit CurrentContext(const cuda::Driver& driver) : driver_(driver) {}
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  // `number`: of the driver, or -1 for the current context's device. NO_DEVICE or INVALID_ARGUMENT.
  tunefarm_status Enter(int number, cuda::Device* device, tunefarm_error* error);

 private:
  const cuda::Driver& driver_;
  bool pushed_ = false;
};

// For as long as it lives, this thread may load code while streams are captured, in this thread or in another one.
class LoadsInCaptures {
 public:
  explicit LoadsInCaptures(const cuda::Driver& driver);
  ~LoadsInCaptures();
  LoadsInCaptures(const LoadsInCaptures&) = delete;
  LoadsInCaptures& operator=(const LoadsInCaptures&) = delete;

 private:
  const cuda::Driver& driver_;
  cuda::CaptureMode mode_ = cuda::kCaptureRelaxed;  // then that of before
  bool is_set_ = false;
};

}  // namespace tunefarm::launch
