// A launch allocates nothing and takes no lock.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "client/launch/device.h"
#include "client/launch/include/tunefarm/launch.h"
#include "server/base/file.h"
#include "tests/unit/launch/affine_test.h"
#include "tests/unit/launch/counted_calls.h"
#include "tests/unit/launch/sample_package.h"

namespace tunefarm::launch {
namespace {

TEST(AllocationsTest, LocksAreCounted) {
  std::mutex mutex;
  const int64_t before = CallsOfThisThread().locks;
  mutex.lock();
  mutex.unlock();
  EXPECT_EQ(CallsOfThisThread().locks - before, 1);
}

TEST(AllocationsTest, LaunchesAllocateNothingAndLockNothing) {
  const auto binary = ReadFile(TUNEFARM_LAUNCH_TEST_KERNELS, 16 << 20);
  ASSERT_TRUE(binary.ok());
  const std::string bytes = package::SamplePackage(*binary, ReadCpu().name).Finish();
  tunefarm_package* package = nullptr;
  tunefarm_kernel* kernel = nullptr;
  tunefarm_error error = TUNEFARM_ERROR_INIT;
  const CountedCalls before_load = CallsOfThisThread();
  ASSERT_EQ(tunefarm_package_open_bytes(bytes.data(), bytes.size(), &package, &error), TUNEFARM_OK) << error.message;
  ASSERT_EQ(tunefarm_kernel_load(package, "affine", nullptr, 0, nullptr, &kernel, &error), TUNEFARM_OK)
      << error.message;
  EXPECT_GT(CallsOfThisThread().allocations, before_load.allocations) << "nothing is counted";
  constexpr size_t kElements = 4096;
  std::vector<float> x(kElements, 1), y(kElements, 1), z(kElements, 0), w(kElements + 64, 0);
  void* const arguments[] = {x.data(), y.data(), z.data()};
  int64_t n = 0;
  void* const workspace = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(w.data()) + 255) / 256 * 256);
  tunefarm_launch launch = AffineLaunch(&n, arguments, workspace, kElements * sizeof(float));
  int64_t failed = 0;
  const CountedCalls before = CallsOfThisThread();
  for (int i = 0; i < 10'000; ++i) {
    // Evaluated again and again, found evaluated, and refused.
    n = i % 3 == 0 ? 64 : i % 5 == 0 ? 0 : i % 100 + 1;
    if (tunefarm_kernel_launch(kernel, &launch, &error) != TUNEFARM_OK) ++failed;
  }
  const CountedCalls after = CallsOfThisThread();
  EXPECT_EQ(after.allocations - before.allocations, 0);
  EXPECT_EQ(after.locks - before.locks, 0);
  EXPECT_GT(failed, 1000);
  EXPECT_LT(failed, 2000);

  // Nor with a plan of before an update, which another config takes over, or without one, which is refused.
  n = 64;
  tunefarm_plan plan = TUNEFARM_PLAN_INIT;
  ASSERT_EQ(tunefarm_kernel_plan(kernel, &n, 1, &plan, &error), TUNEFARM_OK) << error.message;
  package::PackageBuilder builder = package::SamplePackage(*binary, ReadCpu().name);
  builder.pairs[2].value = builder.AddValue(int64_t{2});  // of the default config
  const std::string newer_bytes = builder.Finish();
  tunefarm_package* newer = nullptr;
  ASSERT_EQ(tunefarm_package_open_bytes(newer_bytes.data(), newer_bytes.size(), &newer, &error), TUNEFARM_OK);
  ASSERT_EQ(tunefarm_kernel_update(kernel, newer, &error), TUNEFARM_OK) << error.message;
  const CountedCalls before_plans = CallsOfThisThread();
  for (int i = 0; i < 1'000; ++i) {
    launch.generation = i % 2 == 0 ? plan.generation : 0;
    const tunefarm_status expected = i % 2 == 0 ? TUNEFARM_OK : TUNEFARM_STALE;
    if (tunefarm_kernel_launch(kernel, &launch, &error) != expected) ++failed;
  }
  const CountedCalls after_plans = CallsOfThisThread();
  EXPECT_EQ(after_plans.allocations - before_plans.allocations, 0);
  EXPECT_EQ(after_plans.locks - before_plans.locks, 0);
  EXPECT_LT(failed, 2000);
  tunefarm_package_close(newer);
  tunefarm_kernel_close(kernel);
  tunefarm_package_close(package);
}

}  // namespace
}  // namespace tunefarm::launch
