// How long the device worked, by events around stretches of work on the context's stream. A stretch in which the device
// waits for the host counts as a whole: what a check copies back between its kernels adds some microseconds.
//
// One thread. The context must outlive it.
#pragma once

#include <functional>

#include "server/worker/cuda/gpu_context.h"

namespace tunefarm::cuda {

class DeviceStopwatch {
 public:
  explicit DeviceStopwatch(const GpuContext& gpu) : gpu_(gpu) {}
  ~DeviceStopwatch();
  DeviceStopwatch(const DeviceStopwatch&) = delete;
  DeviceStopwatch& operator=(const DeviceStopwatch&) = delete;

  // Around enqueued work. Stretches do not nest.
  Failure Start();
  Failure Stop();
  // After the stream was waited for: adds the last stretch.
  Failure Add();
  // All of these around `work`, which is waited for. What `work` fails with comes first; time is then lost.
  Failure Time(const std::function<Failure()>& work);

  double milliseconds() const { return milliseconds_; }

 private:
  const GpuContext& gpu_;
  CUevent begin_ = nullptr, end_ = nullptr;
  double milliseconds_ = 0;
};

}  // namespace tunefarm::cuda
