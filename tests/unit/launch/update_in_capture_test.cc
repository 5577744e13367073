// Updates of kernels whose launches a CUDA graph captures, on a driver that only says so.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "client/launch/include/tunefarm/launch.h"
#include "tests/unit/launch/affine_test.h"
#include "tests/unit/launch/fake_cuda.h"
#include "tests/unit/launch/sample_package.h"

namespace tunefarm::launch {
namespace {

using package::PackageBuilder;

// The sample on the fake device: a config's grid has as many blocks as a chunk has elements, the best for n = 1024 has
// `grid`. `pad` is in the binary, which is another one with another pad.
PackageBuilder FakeSample(int64_t grid, char pad) {
  std::string binary = package::NoBinary();
  binary += std::string(64, pad);
  PackageBuilder builder = package::SamplePackage(binary, "Fake");
  for (int64_t& property : builder.classes[0].properties) property = 0;
  builder.classes[0].properties[package::kComputeCapability] = 90;
  builder.binaries[0].kind = package::kCubin;
  builder.binaries[0].compute_capability = 90;
  builder.kernels[0].language = package::kCuda;
  builder.steps.clear();
  const int64_t grids[] = {grid, 128, 1};
  for (size_t i = 0; i < 3; ++i) {
    package::StepRecord step = package::HostStep(builder.String("affine"), 0, 6);
    step.grid[0] = builder.Formula(std::to_string(grids[i]));
    step.block[0] = builder.Formula("32");
    builder.choices[i].first_step = static_cast<uint32_t>(builder.steps.size());
    builder.choices[i].first_prepare = 0;
    builder.choices[i].prepares = 0;
    builder.choices[i].layout = 0;
    builder.steps.push_back(step);
  }
  builder.choices[0].first_parameter = static_cast<uint32_t>(builder.pairs.size());
  builder.pairs.push_back({builder.String("CHUNK"), builder.AddValue(grid)});
  builder.choices[0].first_constraint = builder.Formula("n % 16 == 0");
  return builder;
}

// The best for n = 1024 changes its arguments first, with 8 blocks.
PackageBuilder WithPreparation(PackageBuilder builder) {
  package::StepRecord step = builder.steps[0];
  step.grid[0] = builder.Formula("8");
  builder.choices[0].first_prepare = static_cast<uint32_t>(builder.steps.size());
  builder.choices[0].prepares = 1;
  builder.choices[0].layout = 9;
  builder.steps.push_back(step);
  return builder;
}

class UpdateInCaptureTest : public AffineTest {
 protected:
  void SetUp() override {
    // Opened by its name later on, this is what the loader finds.
    void* const library = dlopen(TUNEFARM_LAUNCH_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto get = reinterpret_cast<FakeCuda* (*)()>(dlsym(library, "TheFakeCuda"));
    ASSERT_NE(get, nullptr) << dlerror();
    cuda_ = get();
    cuda_->capture_status = 0;
    Load(FakeSample(64, 'a'));
  }

  tunefarm_status Launch(uint64_t generation, uint64_t workspace_bytes,
                         decltype(&tunefarm_kernel_launch) function = &tunefarm_kernel_launch, int64_t n = 1024) {
    void* const arguments[] = {memory_, memory_, memory_};
    tunefarm_launch launch = AffineLaunch(&n, arguments, memory_, workspace_bytes);
    launch.generation = generation;
    cuda_->grid = 0;
    return function(kernel_, &launch, &error_);
  }
  // The grid of a launch for n = 1024.
  unsigned int Grid(uint64_t generation = 0) {
    EXPECT_EQ(Launch(generation, 4096), TUNEFARM_OK) << error_.message;
    return cuda_->grid;
  }

  FakeCuda* cuda_ = nullptr;
  alignas(256) std::byte memory_[256];
};

TEST_F(UpdateInCaptureTest, WithoutAGenerationACaptureGoesOnWithWhatLaunchesTookBefore) {
  EXPECT_EQ(Grid(), 64U);
  cuda_->capture_status = 1;
  EXPECT_EQ(Grid(), 64U);
  Update(FakeSample(16, 'a'));
  EXPECT_STREQ(PlanOf(1024).config, "CHUNK=16");
  EXPECT_EQ(Grid(), 64U);
  cuda_->capture_status = 2;  // invalidated: its launches fail, but not here
  EXPECT_EQ(Grid(), 64U);
  cuda_->capture_status = 0;
  EXPECT_EQ(Grid(), 16U);
  // The next capture begins with it.
  cuda_->capture_status = 1;
  EXPECT_EQ(Grid(), 16U);
}

TEST_F(UpdateInCaptureTest, AGenerationHoldsItsConfigInACapture) {
  const uint64_t old = PlanOf(1024).generation;
  Update(FakeSample(16, 'a'));
  const uint64_t better = PlanOf(1024).generation;
  EXPECT_NE(better, old);
  cuda_->capture_status = 1;
  EXPECT_EQ(Grid(old), 64U);
  EXPECT_EQ(Grid(better), 16U);
  EXPECT_EQ(Grid(), 64U);
  cuda_->capture_status = 0;
  EXPECT_EQ(Grid(old), 16U);  // it fits
  cuda_->capture_status = 1;
  EXPECT_EQ(Grid(old), 64U);
  EXPECT_EQ(Grid(), 16U);
  Update(FakeSample(32, 'a'));
  EXPECT_EQ(Grid(old), 64U);
  EXPECT_EQ(Grid(better), 16U);
}

TEST_F(UpdateInCaptureTest, AGenerationHoldsItsPackageForOtherDims) {
  const uint64_t old = PlanOf(1024).generation;
  PackageBuilder newer = FakeSample(16, 'a');
  newer.steps[1].grid[0] = newer.Formula("32");  // of the best for n = 4096, too
  newer.pairs[1].value = newer.AddValue(int64_t{32});
  Update(newer);
  const auto grid_of_other = [this](uint64_t generation) {
    EXPECT_EQ(Launch(generation, 16384, &tunefarm_kernel_launch, 4096), TUNEFARM_OK) << error_.message;
    return cuda_->grid.load();
  };
  cuda_->capture_status = 1;
  EXPECT_EQ(grid_of_other(old), 128U);
  EXPECT_EQ(grid_of_other(PlanOf(1024).generation), 32U);
  cuda_->capture_status = 0;
  EXPECT_EQ(grid_of_other(old), 32U);
}

TEST_F(UpdateInCaptureTest, WhatWouldBeStaleOrMissingIsNotInACapture) {
  const uint64_t old = PlanOf(1024).generation;
  PackageBuilder larger = FakeSample(16, 'a');
  larger.buffers[3].length = larger.Formula("4 * n");
  Update(larger);
  EXPECT_EQ(Launch(old, 4096), TUNEFARM_STALE);
  cuda_->capture_status = 1;
  EXPECT_EQ(Grid(old), 64U);
  PackageBuilder nothing = FakeSample(16, 'a');
  nothing.choices.resize(1);
  nothing.choices[0].first_constraint = nothing.Formula("n % 17 == 0");
  nothing.kernels[0].choices = 1;
  Update(nothing);
  EXPECT_EQ(Grid(old), 64U);
  cuda_->capture_status = 0;
  EXPECT_EQ(Launch(old, 4096), TUNEFARM_NOT_FOUND);
}

// Without a generation, too, arguments are never prepared for one config and launched by another.
TEST_F(UpdateInCaptureTest, PreparationsChooseAsLaunchesDo) {
  EXPECT_EQ(Grid(), 64U);
  Update(WithPreparation(FakeSample(16, 'a')));
  cuda_->capture_status = 1;
  EXPECT_EQ(Launch(0, 4096, &tunefarm_kernel_prepare), TUNEFARM_OK) << error_.message;
  EXPECT_EQ(cuda_->grid, 0U) << "the config of before prepares nothing";
  EXPECT_EQ(Grid(), 64U);
  cuda_->capture_status = 0;
  EXPECT_EQ(Launch(0, 4096, &tunefarm_kernel_prepare), TUNEFARM_OK) << error_.message;
  EXPECT_EQ(cuda_->grid, 8U);
  cuda_->capture_status = 1;
  EXPECT_EQ(Launch(0, 4096), TUNEFARM_STALE) << "a launch of the config of before would get changed arguments";
  EXPECT_EQ(cuda_->grid, 0U);
  EXPECT_EQ(Grid(PlanOf(1024).generation), 16U);
}

TEST_F(UpdateInCaptureTest, TheDriverIsAskedOnlyWhileThereIsAChoice) {
  const int before = cuda_->capture_questions;
  const uint64_t old = PlanOf(1024).generation;
  (void)Grid();
  (void)Grid(old);
  EXPECT_EQ(cuda_->capture_questions, before);
  Update(FakeSample(16, 'a'));
  (void)Grid();
  EXPECT_EQ(cuda_->capture_questions, before + 1);
  (void)Grid();
  (void)Grid(PlanOf(1024).generation);
  EXPECT_EQ(cuda_->capture_questions, before + 1);
  (void)Grid(old);
  EXPECT_EQ(cuda_->capture_questions, before + 2);
}

TEST_F(UpdateInCaptureTest, LoadsDoNotEndACapture) {
  const int before = cuda_->loads;
  cuda_->capture_status = 1;
  static char pad = 'b';  // a binary that is not loaded yet
  Update(FakeSample(16, pad++));
  EXPECT_GT(cuda_->loads, before);
  EXPECT_EQ(cuda_->unsafe_loads, 0);
  EXPECT_EQ(Grid(), 64U);
}

}  // namespace
}  // namespace tunefarm::launch
