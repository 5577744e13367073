// One binary, so that a folder with it and its libraries can be carried to a machine with a GPU.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "server/base/clock.h"
#include "tests/gpu/kernel_bench.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::string why;
  const tunefarm::MonotonicTime start = tunefarm::Clock::Real()->Now();
  tunefarm::Gpu* const gpu = tunefarm::TheGpu(&why);
  if (gpu == nullptr) {
    std::printf("Skipped: these tests need an NVIDIA GPU.\n%s", why.c_str());
    return 77;
  }
  const double ms = std::chrono::duration<double, std::milli>(tunefarm::Clock::Real()->Now() - start).count();
  std::printf("%s%s, started in %.0f ms\n%s\n%s", why.c_str(), gpu->run->toolchain().c_str(), ms,
              gpu->device_class.Id().c_str(), gpu->device.DebugString().c_str());
  return RUN_ALL_TESTS();
}
