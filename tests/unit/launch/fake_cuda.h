// What tests set and read of the driver that passes for CUDA's (fake_cuda.cc): one device of compute capability 9.0,
// named "Fake", on which nothing runs.
#pragma once

#include <atomic>

#include "client/launch/cuda_driver.h"

namespace tunefarm::launch {

struct FakeCuda {
  std::atomic<int> capture_status{0};     // of every stream
  std::atomic<int> capture_questions{0};  // how often it was asked for
  std::atomic<unsigned int> grid{0};      // along x, of the last launch
  std::atomic<int> loads{0};
  std::atomic<int> unsafe_loads{0};  // those that a capture would not have survived
  // Functions that are called in place of the driver's; those that are set before the library opens it.
  cuda::Driver own;
};

}  // namespace tunefarm::launch
