// From a file to results: kernels for the CPU, through the functions of launch.h.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "client/launch/device.h"
#include "client/launch/host_call.h"
#include "client/launch/include/tunefarm/launch.h"
#include "client/launch/kernel.h"
#include "client/launch/lane.h"
#include "client/launch/launch_call.h"
#include "client/launch/package.h"
#include "server/base/file.h"
#include "server/base/thread.h"
#include "server/driver_step/data_type.h"
#include "server/worker/host/host_topology.h"
#include "tests/unit/launch/affine_test.h"
#include "tests/unit/launch/sample_package.h"

namespace tunefarm::launch {
namespace {

using testing::HasSubstr;

std::string KernelBinary() { return *ReadFile(TUNEFARM_LAUNCH_TEST_KERNELS, 16 << 20); }

class HostLaunchTest : public AffineTest {
 protected:
  void TearDown() override {
    AffineTest::TearDown();
    tunefarm_package_close(package_);
  }

  void Open(const package::PackageBuilder& builder) {
    package_ = OpenPackage(builder.Finish());
    ASSERT_NE(package_, nullptr);
  }
  void OpenSample() { Open(package::SamplePackage(KernelBinary(), ReadCpu().name)); }
  void LoadSample() {
    OpenSample();
    ASSERT_EQ(tunefarm_kernel_load(package_, "affine", nullptr, 0, nullptr, &kernel_, &error_), TUNEFARM_OK)
        << error_.message;
  }
  tunefarm_status Load(const std::vector<tunefarm_dim>& dims, const char* name = "affine") {
    return tunefarm_kernel_load(package_, name, dims.data(), dims.size(), nullptr, &kernel_, &error_);
  }

  // A launch of n elements with everything right.
  tunefarm_launch Sample(int64_t n) {
    n_ = n;
    x_.assign(static_cast<size_t>(n), 2);
    y_.assign(static_cast<size_t>(n), 1);
    z_.assign(static_cast<size_t>(n), 100);
    arguments_ = {x_.data(), y_.data(), z_.data()};
    bytes_.assign(3, static_cast<uint64_t>(n) * 4);
    tunefarm_launch launch = AffineLaunch(&n_, arguments_.data(), workspace_, sizeof(workspace_));
    launch.argument_bytes = bytes_.data();
    return launch;
  }
  // What the launch says when it fails with the status.
  std::string Refusal(const tunefarm_launch& launch, tunefarm_status status = TUNEFARM_INVALID_ARGUMENT) {
    EXPECT_EQ(tunefarm_kernel_launch(kernel_, &launch, &error_), status) << error_.message;
    EXPECT_EQ(tunefarm_kernel_launch(kernel_, &launch, nullptr), status);
    return error_.message;
  }

  tunefarm_package* package_ = nullptr;
  int64_t n_ = 0;
  std::vector<float> x_, y_, z_;
  std::vector<void*> arguments_;
  std::vector<uint64_t> bytes_;
  alignas(256) std::byte workspace_[64 << 10];
};

TEST_F(HostLaunchTest, LaunchesWhatThePackageHolds) {
  LoadSample();
  EXPECT_EQ(tunefarm_package_kernel_count(package_), 1U);
  EXPECT_STREQ(tunefarm_package_kernel_name(package_, 0), "affine");
  EXPECT_EQ(tunefarm_package_kernel_name(package_, 1), nullptr);
  EXPECT_EQ(tunefarm_kernel_device(kernel_), -1);
  ASSERT_EQ(tunefarm_kernel_dim_count(kernel_), 1U);
  EXPECT_STREQ(tunefarm_kernel_dim_name(kernel_, 0), "n");
  ASSERT_EQ(tunefarm_kernel_argument_count(kernel_), 3U);
  tunefarm_argument argument = TUNEFARM_ARGUMENT_INIT;
  ASSERT_EQ(tunefarm_kernel_argument(kernel_, 1, &argument, &error_), TUNEFARM_OK);
  EXPECT_STREQ(argument.name, "y");
  EXPECT_STREQ(argument.data_type, "f32");
  EXPECT_EQ(argument.access, TUNEFARM_INOUT);
  // The package may go: the kernel keeps what it needs.
  tunefarm_package_close(package_);
  package_ = nullptr;
  // Twice: the second one finds everything evaluated.
  for (int i = 0; i < 2; ++i) {
    const tunefarm_launch launch = Sample(1024);
    ASSERT_EQ(tunefarm_kernel_launch(kernel_, &launch, &error_), TUNEFARM_OK) << error_.message;
    EXPECT_STREQ(error_.message, "");
    EXPECT_THAT(z_, testing::Each(6.0F));  // 0 + 2.5 * 2 * 1 + 1
  }
}

TEST_F(HostLaunchTest, PlansSayWhatIsChosen) {
  LoadSample();
  const tunefarm_plan exact = PlanOf(1024);
  EXPECT_EQ(exact.match, TUNEFARM_MATCH_EXACT);
  EXPECT_STREQ(exact.config, "CHUNK=64");
  EXPECT_EQ(exact.median_ns, 1000.5);
  EXPECT_EQ(exact.workspace_bytes, 4096U);
  EXPECT_EQ(exact.needs_prepare, 0);
  EXPECT_NE(exact.generation, 0U);
  const tunefarm_plan nearest = PlanOf(1280);
  EXPECT_EQ(nearest.match, TUNEFARM_MATCH_NEAREST);
  EXPECT_STREQ(nearest.config, "CHUNK=64");
  EXPECT_NEAR(nearest.distance, 0.3219, 1e-4);
  EXPECT_EQ(nearest.generation, exact.generation);
  const tunefarm_plan far = PlanOf(4096);
  EXPECT_STREQ(far.config, "CHUNK=128");
  EXPECT_EQ(far.needs_prepare, 1);
  EXPECT_NE(far.generation, exact.generation);
  // No whole chunks: both tuned configs are passed over.
  const tunefarm_plan by_default = PlanOf(1000);
  EXPECT_EQ(by_default.match, TUNEFARM_MATCH_DEFAULT);
  EXPECT_STREQ(by_default.config, "CHUNK=1");
  EXPECT_EQ(by_default.median_ns, 0);
  EXPECT_EQ(by_default.workspace_bytes, 4096U);  // 4,000, rounded up
  const int64_t n = 1000;
  uint64_t length = 0;
  EXPECT_EQ(tunefarm_kernel_argument_length(kernel_, 2, &n, 1, &length, &error_), TUNEFARM_OK);
  EXPECT_EQ(length, 1000U);
}

TEST_F(HostLaunchTest, PreparesWhatTheConfigNeedsOnce) {
  LoadSample();
  tunefarm_launch launch = Sample(4096);
  launch.generation = PlanOf(4096).generation;
  ASSERT_EQ(tunefarm_kernel_prepare(kernel_, &launch, &error_), TUNEFARM_OK) << error_.message;
  EXPECT_THAT(y_, testing::Each(2.0F));
  ASSERT_EQ(tunefarm_kernel_launch(kernel_, &launch, &error_), TUNEFARM_OK) << error_.message;
  EXPECT_THAT(z_, testing::Each(7.0F));
  // Nothing to prepare for another config.
  launch = Sample(1024);
  ASSERT_EQ(tunefarm_kernel_prepare(kernel_, &launch, &error_), TUNEFARM_OK) << error_.message;
  EXPECT_THAT(y_, testing::Each(1.0F));
}

TEST_F(HostLaunchTest, APlanOfAnotherGenerationIsStaleUnlessItFits) {
  LoadSample();
  tunefarm_launch launch = Sample(1024);
  launch.generation = PlanOf(4096).generation;
  EXPECT_THAT(Refusal(launch, TUNEFARM_STALE), HasSubstr("prepared for the config CHUNK=128"));
  launch.generation = 12345;
  EXPECT_THAT(Refusal(launch, TUNEFARM_STALE), HasSubstr("generation 12345 is none of this kernel's"));
  // The default config has the same layout, and its work space is no larger.
  launch.generation = PlanOf(1000).generation;
  EXPECT_EQ(tunefarm_kernel_launch(kernel_, &launch, &error_), TUNEFARM_OK) << error_.message;
  launch.workspace_bytes = 4000;
  EXPECT_THAT(Refusal(launch, TUNEFARM_STALE), HasSubstr("needs 4096 bytes of work space"));
}

TEST_F(HostLaunchTest, WrongLaunchesAreExplained) {
  LoadSample();
  tunefarm_launch launch = Sample(1024);
  launch.size = 8;
  EXPECT_THAT(Refusal(launch), HasSubstr("TUNEFARM_LAUNCH_INIT"));
  launch = Sample(1024);
  launch.dim_count = 2;
  EXPECT_EQ(Refusal(launch), "affine: a launch gives 1 dims, not 2.");
  launch = Sample(1024);
  launch.argument_count = 2;
  EXPECT_EQ(Refusal(launch), "affine: a launch hands over 3 arguments, not 2.");
  launch = Sample(1024);
  n_ = 0;
  EXPECT_EQ(Refusal(launch), "affine: the dim 'n' cannot be 0; it is from 1 to 1048576.");
  launch = Sample(1024);
  bytes_[2] = 4092;
  EXPECT_EQ(Refusal(launch), "affine: the argument 'z' has 4092 bytes, but needs 4096 (1024 elements of f32).");
  launch = Sample(1024);
  arguments_[0] = nullptr;
  EXPECT_THAT(Refusal(launch), HasSubstr("of the argument 'x' is NULL or not aligned to its elements of 4 bytes"));
  launch = Sample(1024);
  arguments_[0] = reinterpret_cast<std::byte*>(x_.data()) + 2;
  EXPECT_THAT(Refusal(launch), HasSubstr("of the argument 'x' is NULL or not aligned to its elements of 4 bytes"));
  launch = Sample(1024);
  launch.workspace = nullptr;
  EXPECT_EQ(Refusal(launch),
            "affine: the launch needs 4096 bytes of work space for these dims, but has 0; ask tunefarm_kernel_plan.");
  launch = Sample(1024);
  launch.workspace = workspace_ + 64;
  EXPECT_THAT(Refusal(launch), HasSubstr("is not aligned to 256 bytes"));
  EXPECT_EQ(tunefarm_kernel_launch(nullptr, &launch, &error_), TUNEFARM_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "The argument 'kernel' of the call is NULL.");
  // After all that a good one works.
  launch = Sample(1024);
  EXPECT_EQ(tunefarm_kernel_launch(kernel_, &launch, &error_), TUNEFARM_OK) << error_.message;
}

TEST_F(HostLaunchTest, WrongLoadsAreExplained) {
  OpenSample();
  EXPECT_EQ(Load({}, "afine"), TUNEFARM_NOT_FOUND);
  EXPECT_STREQ(error_.message, "The package has no kernel 'afine'; it has affine.");
  tunefarm_dim dim = {"m", TUNEFARM_INT, {1}};
  EXPECT_EQ(Load({dim}), TUNEFARM_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "The kernel affine has no dim 'm'.");
  dim = {"dtype", TUNEFARM_INT, {1}};
  EXPECT_EQ(Load({dim}), TUNEFARM_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "The dim 'dtype' of affine takes a string, and was given something else.");
  dim.type = TUNEFARM_STRING;
  dim.value.text = "f64";
  EXPECT_EQ(Load({dim}), TUNEFARM_NOT_FOUND);
  EXPECT_STREQ(error_.message, "The package has no config of affine for dtype=f64; tune it and export it again.");
  dim.value.text = "f32";
  EXPECT_EQ(Load({dim, dim}), TUNEFARM_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "The dim 'dtype' is given twice.");
  EXPECT_EQ(kernel_, nullptr);
  EXPECT_EQ(Load({dim}), TUNEFARM_OK) << error_.message;
}

TEST_F(HostLaunchTest, ADimThatIsFixedAtLoadIsNotGivenAtLaunch) {
  OpenSample();
  ASSERT_EQ(Load({{"n", TUNEFARM_INT, {4096}}}), TUNEFARM_OK) << error_.message;
  EXPECT_EQ(tunefarm_kernel_dim_count(kernel_), 0U);
  tunefarm_plan plan = TUNEFARM_PLAN_INIT;
  ASSERT_EQ(tunefarm_kernel_plan(kernel_, nullptr, 0, &plan, &error_), TUNEFARM_OK) << error_.message;
  EXPECT_STREQ(plan.config, "CHUNK=128");
  tunefarm_launch launch = Sample(4096);
  launch.dims = nullptr;
  launch.dim_count = 0;
  EXPECT_EQ(tunefarm_kernel_launch(kernel_, &launch, &error_), TUNEFARM_OK) << error_.message;
  EXPECT_THAT(z_, testing::Each(6.0F));
}

TEST_F(HostLaunchTest, WithoutADefaultWhatIsTooFarIsNotFound) {
  package::PackageBuilder builder = package::SamplePackage(KernelBinary(), ReadCpu().name);
  builder.choices.pop_back();
  builder.kernels[0].choices = 2;
  Open(builder);
  ASSERT_EQ(Load({}), TUNEFARM_OK) << error_.message;
  tunefarm_plan plan = TUNEFARM_PLAN_INIT;
  const int64_t odd = 1001, far = 64;
  EXPECT_EQ(tunefarm_kernel_plan(kernel_, &odd, 1, &plan, &error_), TUNEFARM_NOT_FOUND);
  EXPECT_THAT(error_.message, HasSubstr("the best one breaks 'n % 64 == 0'"));
  EXPECT_EQ(tunefarm_kernel_plan(kernel_, &far, 1, &plan, &error_), TUNEFARM_NOT_FOUND);
  EXPECT_THAT(error_.message, HasSubstr("no config of the package is near enough"));
  EXPECT_EQ(plan.generation, 0U);
}

TEST_F(HostLaunchTest, AnotherCpuTakesWhatIsNotMadeForOneAlone) {
  package::PackageBuilder builder = package::SamplePackage(KernelBinary(), "another CPU");
  Open(builder);
  ASSERT_EQ(Load({}), TUNEFARM_OK) << error_.message;
  EXPECT_EQ(PlanOf(1024).match, TUNEFARM_MATCH_SAME_ARCH);
  EXPECT_EQ(PlanOf(1280).match, TUNEFARM_MATCH_DEFAULT);
  tunefarm_kernel_close(kernel_);
  tunefarm_package_close(package_);
  builder.binaries[0].is_specific = 1;
  Open(builder);
  EXPECT_EQ(Load({}), TUNEFARM_INCOMPATIBLE);
  EXPECT_THAT(error_.message, HasSubstr("are for another CPU and do not run on this device"));
}

TEST_F(HostLaunchTest, ABinaryWithoutTheEntryOrThatCannotBeLoadedIsRefused) {
  package::PackageBuilder builder = package::SamplePackage(KernelBinary(), ReadCpu().name);
  builder.steps[0].entry = builder.String("missing");
  Open(builder);
  EXPECT_EQ(Load({}), TUNEFARM_BAD_PACKAGE);
  EXPECT_STREQ(error_.message, "The binary of affine has no entry 'missing'; export it again.");
  tunefarm_package_close(package_);
  Open(package::SamplePackage(package::NoBinary(), ReadCpu().name));
  EXPECT_EQ(Load({}), TUNEFARM_INCOMPATIBLE);
  EXPECT_THAT(error_.message, HasSubstr("A binary of the package cannot be loaded"));
}

TEST_F(HostLaunchTest, ACudaKernelNeedsADriver) {
  package::PackageBuilder builder = package::SamplePackage(package::NoBinary(), "a GPU");
  builder.kernels[0].language = package::kCuda;
  builder.binaries[0].kind = package::kCubin;
  for (package::StepRecord& step : builder.steps) step.grid[0] = step.block[0] = builder.Formula("1");
  Open(builder);
  const tunefarm_status status = Load({});
  // On a machine with a GPU: no context, or another device.
  EXPECT_TRUE(status == TUNEFARM_NO_DEVICE || status == TUNEFARM_INCOMPATIBLE) << status;
  EXPECT_THAT(error_.message, testing::AnyOf(HasSubstr("NVIDIA driver"), HasSubstr("CUDA context"), HasSubstr("GPU")));
}

TEST_F(HostLaunchTest, WithoutAFreeLaneALaunchEvaluatesInItsStack) {
  const std::string bytes = package::SamplePackage(KernelBinary(), ReadCpu().name).Finish();
  std::shared_ptr<const Package> package;
  std::unique_ptr<Kernel> kernel;
  ASSERT_EQ(Package::Copy(bytes.data(), bytes.size(), &package, &error_), TUNEFARM_OK) << error_.message;
  ASSERT_EQ(Kernel::Load(package, "affine", nullptr, 0, -1, &kernel, &error_), TUNEFARM_OK) << error_.message;
  std::vector<Lane*> taken;
  for (uint64_t hash = 0; hash < 64; ++hash) {
    Lane* const lane = kernel->lanes().Take(hash);
    if (lane != nullptr) taken.push_back(lane);
  }
  ASSERT_FALSE(taken.empty());
  ASSERT_EQ(kernel->lanes().Take(0), nullptr);
  for (const int64_t n : {1024, 1000, 4096}) {
    const tunefarm_launch launch = Sample(n);
    ASSERT_EQ(Launch(*kernel, launch, &error_), TUNEFARM_OK) << error_.message;
    EXPECT_THAT(z_, testing::Each(6.0F));
  }
  const tunefarm_launch wrong = Sample(1024);
  n_ = 0;
  EXPECT_EQ(Launch(*kernel, wrong, &error_), TUNEFARM_INVALID_ARGUMENT);
  for (Lane* const lane : taken) lane->is_taken = false;
  const tunefarm_launch launch = Sample(1024);
  EXPECT_EQ(Launch(*kernel, launch, &error_), TUNEFARM_OK) << error_.message;
}

// More threads than lanes, with different dims, all at once.
TEST_F(HostLaunchTest, AnyNumberOfThreadsMayLaunch) {
  LoadSample();
  constexpr int kThreads = 48;
  std::atomic<int> wrong = 0;
  {
    std::vector<Thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back("launch", [&, t] {
        const int64_t n = 64 * (1 + t % 7);
        std::vector<float> x(448, static_cast<float>(t)), y(448, 1), z(448, 0);
        void* const arguments[] = {x.data(), y.data(), z.data()};
        alignas(256) std::byte workspace[448 * 4];
        tunefarm_launch launch = AffineLaunch(&n, arguments, workspace, sizeof(workspace));
        for (int i = 0; i < 200; ++i) {
          if (tunefarm_kernel_launch(kernel_, &launch, nullptr) != TUNEFARM_OK) ++wrong;
          if (z[0] != 2.5F * static_cast<float>(t) + 1 || z[static_cast<size_t>(n) - 1] != z[0]) ++wrong;
        }
      });
    }
    for (Thread& thread : threads) thread.Join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST(HostCallTest, PassesEveryTypeInRegistersAndOnTheStack) {
  void* const library = dlopen(TUNEFARM_LAUNCH_TEST_KERNELS, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  void* const entry = dlsym(library, "many");
  ASSERT_NE(entry, nullptr);
  using namespace driver_step;  // NOLINT: the types
  const std::pair<DataType, double> scalars[] = {
      {kI8, -1},    {kU8, 255},  {kI16, -300},  {kU16, 65'535}, {kI32, -70'000}, {kU32, 4e9}, {kI64, -5e15},
      {kU64, 6e15}, {kF32, 0.5}, {kF64, -1.25}, {kF32, 3},      {kF64, 4},       {kF32, 5},   {kF64, 6},
      {kF32, 7},    {kF64, 8},   {kF32, -9.5},  {kF64, 10},     {kI8, -11},      {kI32, -12}};
  double out[21] = {}, in = 13;
  std::array<std::array<std::byte, 8>, 22> bytes = {};
  HostArgument arguments[22];
  const auto put_address = [&](size_t at, const void* address) {
    std::memcpy(bytes[at].data(), &address, sizeof(address));
    arguments[at] = {bytes[at].data(), 0};
  };
  put_address(0, out);
  for (size_t i = 0; i < 20; ++i) {
    const auto [type, value] = scalars[i];
    void* const at = bytes[i + 1].data();
    ASSERT_TRUE(IsFloatType(type) ? EncodeScalar(type, value, at)
                                  : EncodeScalar(type, static_cast<int64_t>(value), at));
    arguments[i + 1] = {bytes[i + 1].data(), type};
  }
  put_address(21, &in);
  CallHost(entry, arguments, 22);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(out[i], scalars[i].second) << i;
  EXPECT_EQ(out[20], 13);
  // F8E4M3 is passed as a byte.
  ASSERT_TRUE(EncodeScalar(kF8E4M3, 1.0, bytes[2].data()));
  arguments[2].type = kF8E4M3;
  CallHost(entry, arguments, 22);
  EXPECT_EQ(out[1], 0x38);
}

TEST(DeviceTest, TheCpuHasTheNameThatTheWorkerReads) {
  EXPECT_EQ(ReadCpu().name, CpuModelName(*ReadFile("/proc/cpuinfo", 16 << 20)));
}

}  // namespace
}  // namespace tunefarm::launch
