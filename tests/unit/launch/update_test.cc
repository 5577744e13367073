// Kernels that take over what newer packages have, through the functions of launch.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/launch/device.h"
#include "client/launch/include/tunefarm/launch.h"
#include "client/launch/kernel.h"
#include "client/launch/package.h"
#include "client/launch/updatable_kernel.h"
#include "server/base/file.h"
#include "server/base/thread.h"
#include "tests/unit/launch/affine_test.h"
#include "tests/unit/launch/sample_package.h"

namespace tunefarm::launch {
namespace {

using package::PackageBuilder;
using testing::HasSubstr;

PackageBuilder Sample() {
  return package::SamplePackage(*ReadFile(TUNEFARM_LAUNCH_TEST_KERNELS, 16 << 20), ReadCpu().name);
}

// No config prepares anything.
PackageBuilder Plain() {
  PackageBuilder builder = Sample();
  builder.choices[1].prepares = 0;
  builder.choices[1].layout = 0;
  return builder;
}

// Another best for n = 1024: CHUNK 32, which computes z = 3 * x + y.
PackageBuilder WithBetterBest(PackageBuilder builder) {
  const auto first_argument = static_cast<uint32_t>(builder.arguments.size());
  const uint32_t factor = builder.Formula("3.0");
  for (size_t i = 0; i < 6; ++i) builder.arguments.push_back(package::ArgumentRecord(builder.arguments[i]));
  builder.arguments.back().target = factor;
  package::ChoiceRecord& best = builder.choices[0];
  best.first_step = static_cast<uint32_t>(builder.steps.size());
  builder.steps.push_back(package::HostStep(builder.String("affine"), first_argument, 6));
  best.first_parameter = static_cast<uint32_t>(builder.pairs.size());
  builder.pairs.push_back({builder.String("CHUNK"), builder.AddValue(int64_t{32})});
  return builder;
}

// The best for n = 1024 has a work space of 2 * n elements.
PackageBuilder WithLargerWorkspace(PackageBuilder builder) {
  builder.choices[0].first_buffer = static_cast<uint32_t>(builder.buffers.size());
  for (size_t i = 0; i < 4; ++i) builder.buffers.push_back(package::BufferRecord(builder.buffers[i]));
  builder.buffers.back().length = builder.Formula("2 * n");
  return builder;
}

// The best for n = 1024 wants y doubled.
PackageBuilder WithOtherLayout(PackageBuilder builder) {
  builder.choices[0].prepares = 1;
  builder.choices[0].layout = 9;
  return builder;
}

class UpdateTest : public AffineTest {
 protected:
  // The sentence.
  std::string Refusal(const PackageBuilder& builder, tunefarm_status status) {
    EXPECT_EQ(UpdateTo(builder.Finish()), status) << error_.message;
    return error_.message;
  }

  // Fresh arguments of n elements, with a work space of so many bytes.
  void Fill(int64_t n) {
    x_.assign(static_cast<size_t>(n), 2);
    y_.assign(static_cast<size_t>(n), 1);
    z_.assign(static_cast<size_t>(n), 100);
  }
  using Function = decltype(&tunefarm_kernel_launch);
  tunefarm_status Call(Function function, int64_t n, uint64_t generation, uint64_t workspace_bytes) {
    void* const arguments[] = {x_.data(), y_.data(), z_.data()};
    tunefarm_launch launch = AffineLaunch(&n, arguments, workspace_, workspace_bytes);
    launch.generation = generation;
    return function(kernel_, &launch, &error_);
  }
  tunefarm_status Launch(int64_t n, uint64_t generation = 0, uint64_t workspace_bytes = sizeof(workspace_)) {
    Fill(n);
    return Call(&tunefarm_kernel_launch, n, generation, workspace_bytes);
  }
  // What a launch that goes well writes to every element.
  float Result(int64_t n, uint64_t generation = 0, uint64_t workspace_bytes = sizeof(workspace_)) {
    EXPECT_EQ(Launch(n, generation, workspace_bytes), TUNEFARM_OK) << error_.message;
    EXPECT_THAT(z_, testing::Each(z_[0]));
    return z_[0];
  }

  std::vector<float> x_, y_, z_;
  alignas(256) std::byte workspace_[64 << 10];
};

TEST_F(UpdateTest, LaterPlansAndLaunchesTakeTheBetterBest) {
  Load(Plain());
  const tunefarm_plan old = PlanOf(1024);
  EXPECT_STREQ(old.config, "CHUNK=64");
  EXPECT_EQ(Result(1024), 6);
  Update(WithBetterBest(Plain()));
  EXPECT_STREQ(error_.message, "");
  const tunefarm_plan better = PlanOf(1024);
  EXPECT_STREQ(better.config, "CHUNK=32");
  EXPECT_NE(better.generation, old.generation);
  EXPECT_EQ(Result(1024), 7);
  EXPECT_EQ(Result(1024, better.generation), 7);
  // Work space and layout are those of the old plan, whose texts live on.
  EXPECT_EQ(Result(1024, old.generation, old.workspace_bytes), 7);
  EXPECT_STREQ(old.config, "CHUNK=64");
  // What both packages have is the same.
  EXPECT_EQ(Result(4096), 6);
  // Back again: the generation is that of before.
  Update(Plain());
  EXPECT_EQ(PlanOf(1024).generation, old.generation);
  EXPECT_EQ(Result(1024, better.generation), 6);
}

TEST_F(UpdateTest, ALargerWorkspaceMakesAPlanStaleUnlessItFits) {
  Load(Plain());
  const tunefarm_plan old = PlanOf(1024);
  Update(WithLargerWorkspace(Plain()));
  const tunefarm_plan larger = PlanOf(1024);
  EXPECT_EQ(larger.workspace_bytes, 2 * old.workspace_bytes);
  EXPECT_NE(larger.generation, old.generation);  // though it is the same config
  EXPECT_EQ(Launch(1024, old.generation, old.workspace_bytes), TUNEFARM_STALE);
  EXPECT_THAT(error_.message, HasSubstr("needs 8192 bytes of work space for these dims, but has 4096"));
  EXPECT_THAT(z_, testing::Each(100));
  EXPECT_EQ(Result(1024, old.generation, larger.workspace_bytes), 6);
  EXPECT_EQ(Result(1024, larger.generation, larger.workspace_bytes), 6);
  EXPECT_EQ(Launch(1024, 0, old.workspace_bytes), TUNEFARM_INVALID_ARGUMENT);
  // A smaller one fits.
  Update(Plain());
  EXPECT_EQ(Result(1024, larger.generation, larger.workspace_bytes), 6);
}

TEST_F(UpdateTest, AnotherLayoutMakesAPlanStale) {
  Load(Plain());
  const tunefarm_plan old = PlanOf(1024);
  Update(WithOtherLayout(WithBetterBest(Plain())));
  EXPECT_EQ(PlanOf(1024).needs_prepare, 1);
  EXPECT_EQ(Launch(1024, old.generation), TUNEFARM_STALE);
  EXPECT_THAT(error_.message,
              HasSubstr("prepared for the config CHUNK=64, and these dims are for the config CHUNK=32"));
  EXPECT_THAT(z_, testing::Each(100));
  // Nobody knows what arguments without a generation are prepared for.
  EXPECT_EQ(Launch(1024), TUNEFARM_STALE);
  EXPECT_THAT(error_.message, HasSubstr("give the plan's generation with each launch"));
  Fill(1024);
  ASSERT_EQ(Call(&tunefarm_kernel_prepare, 1024, 0, sizeof(workspace_)), TUNEFARM_OK) << error_.message;
  EXPECT_THAT(y_, testing::Each(2));
  const uint64_t prepared = PlanOf(1024).generation;
  ASSERT_EQ(Call(&tunefarm_kernel_launch, 1024, prepared, sizeof(workspace_)), TUNEFARM_OK) << error_.message;
  EXPECT_THAT(z_, testing::Each(8));  // 3 * 2 + 2
  // The prepared arguments are not those of a plain config.
  Update(Plain());
  EXPECT_EQ(Launch(1024, prepared), TUNEFARM_STALE);
  EXPECT_EQ(Launch(1024), TUNEFARM_STALE);
  EXPECT_EQ(Result(1024, old.generation), 6);
}

TEST_F(UpdateTest, NobodyIsStaleWhereNothingChanged) {
  Load(Sample());
  const tunefarm_plan prepared = PlanOf(4096);
  Fill(4096);
  ASSERT_EQ(Call(&tunefarm_kernel_prepare, 4096, prepared.generation, sizeof(workspace_)), TUNEFARM_OK);
  // Exported again: all is as it was, without a generation, too.
  std::string again = Sample().Finish();
  again[offsetof(package::Header, made_at_ms)] = 1;
  package::SetChecksum(&again);
  ASSERT_EQ(UpdateTo(again), TUNEFARM_OK) << error_.message;
  EXPECT_EQ(PlanOf(4096).generation, prepared.generation);
  ASSERT_EQ(Call(&tunefarm_kernel_launch, 4096, 0, sizeof(workspace_)), TUNEFARM_OK) << error_.message;
  EXPECT_THAT(z_, testing::Each(7));  // 2.5 * 2 + 2
  // The config is one of those that did not change, and its layout is known by its generation.
  Update(WithBetterBest(Sample()));
  EXPECT_EQ(PlanOf(4096).generation, prepared.generation);
  ASSERT_EQ(Call(&tunefarm_kernel_launch, 4096, prepared.generation, sizeof(workspace_)), TUNEFARM_OK)
      << error_.message;
  EXPECT_THAT(z_, testing::Each(7));
}

TEST_F(UpdateTest, WhatTakesOtherArgumentsOrDimsIsRefusedAndAllStaysAsItWas) {
  Load(Plain());
  const tunefarm_plan old = PlanOf(1024);
  PackageBuilder other = WithBetterBest(Plain());
  other.kernels[0].name = other.String("another");
  EXPECT_EQ(Refusal(other, TUNEFARM_NOT_FOUND), "The package has no kernel 'affine'; it has another.");
  other = WithBetterBest(Plain());
  other.dims[0].name = other.String("m");
  EXPECT_EQ(Refusal(other, TUNEFARM_INCOMPATIBLE),
            "The package's affine has other dims (a launch gives m) than the loaded one (n); load it by itself.");
  other = WithBetterBest(Plain());
  other.dims[1].name = other.String("type");
  EXPECT_EQ(Refusal(other, TUNEFARM_INVALID_ARGUMENT), "The kernel affine has no dim 'dtype'.");
  other = WithBetterBest(Plain());
  other.dims[1].bind = package::kRun;
  other.dims[1].kind = package::kBool;
  other.dims[1].default_value = package::kNone;
  for (package::ChoiceRecord& choice : other.choices) choice.first_dim_value = other.AddValues({int64_t{1024}, true});
  EXPECT_EQ(Refusal(other, TUNEFARM_INVALID_ARGUMENT),
            "The dim 'dtype' of affine takes a bool, and was given something else.");
  const auto with_argument = [](const auto& change) {
    PackageBuilder builder = WithBetterBest(Plain());
    change(&builder, &builder.buffers[1]);
    return builder;
  };
  const std::string differs = "with another name, type, access or length than the loaded one takes 'y'";
  other = with_argument([](PackageBuilder* builder, auto* y) { y->name = builder->String("v"); });
  EXPECT_THAT(Refusal(other, TUNEFARM_INCOMPATIBLE), HasSubstr("takes the argument 'v' " + differs));
  other = with_argument([](PackageBuilder*, auto* y) { y->data_type = 5; });
  EXPECT_THAT(Refusal(other, TUNEFARM_INCOMPATIBLE), HasSubstr("takes the argument 'y' " + differs));
  other = with_argument([](PackageBuilder*, auto* y) { y->access = package::kIn; });
  EXPECT_THAT(Refusal(other, TUNEFARM_INCOMPATIBLE), HasSubstr("takes the argument 'y' " + differs));
  other = with_argument([](PackageBuilder* builder, auto* y) { y->length = builder->Formula("n + 1"); });
  EXPECT_THAT(Refusal(other, TUNEFARM_INCOMPATIBLE), HasSubstr("takes the argument 'y' " + differs));
  other = WithBetterBest(Plain());
  other.buffers[3].access = package::kIn;
  other.buffers[3].init = package::kUntouched;
  EXPECT_EQ(Refusal(other, TUNEFARM_INCOMPATIBLE),
            "The package's affine takes 4 arguments, the loaded one 3; load it by itself.");
  other = WithBetterBest(package::SamplePackage(package::NoBinary(), ReadCpu().name));
  EXPECT_THAT(Refusal(other, TUNEFARM_INCOMPATIBLE), HasSubstr("A binary of the package cannot be loaded"));
  tunefarm_package* const package = OpenPackage(Plain().Finish());
  EXPECT_EQ(tunefarm_kernel_update(nullptr, package, &error_), TUNEFARM_INVALID_ARGUMENT);
  EXPECT_EQ(tunefarm_kernel_update(kernel_, nullptr, &error_), TUNEFARM_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "The argument 'package' of the call is NULL.");
  tunefarm_package_close(package);
  EXPECT_EQ(PlanOf(1024).generation, old.generation);
  EXPECT_EQ(Result(1024), 6);
}

TEST_F(UpdateTest, DimsThatWereFixedStayFixed) {
  Load(Plain(), {{"n", TUNEFARM_INT, {1024}}});
  PackageBuilder builder = WithBetterBest(Plain());
  builder.dims[1].default_value = builder.AddValue("f64");  // The loaded kernel has "f32".
  Update(builder);
  EXPECT_EQ(tunefarm_kernel_dim_count(kernel_), 0U);
  tunefarm_plan plan = TUNEFARM_PLAN_INIT;
  ASSERT_EQ(tunefarm_kernel_plan(kernel_, nullptr, 0, &plan, &error_), TUNEFARM_OK) << error_.message;
  EXPECT_STREQ(plan.config, "CHUNK=32");
  for (package::ChoiceRecord& choice : builder.choices) choice.first_dim_value = builder.AddValues({1024, "f64"});
  EXPECT_THAT(Refusal(builder, TUNEFARM_NOT_FOUND), HasSubstr("no config of affine for dtype=f32"));
}

TEST_F(UpdateTest, AnswersThatANewerPackageLacksAreMissing) {
  Load(Plain());
  PackageBuilder builder = Plain();
  builder.choices.resize(1);
  builder.kernels[0].choices = 1;
  Update(builder);
  EXPECT_EQ(Result(1024), 6);
  EXPECT_EQ(Launch(1000), TUNEFARM_NOT_FOUND);
}

TEST_F(UpdateTest, SoManyUpdatesAndNoMore) {
  std::shared_ptr<const Package> packages[2];
  const std::string bytes[] = {Plain().Finish(), WithBetterBest(Plain()).Finish()};
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(Package::Copy(bytes[i].data(), bytes[i].size(), &packages[i], &error_), TUNEFARM_OK) << error_.message;
  }
  std::unique_ptr<Kernel> loaded;
  ASSERT_EQ(Kernel::Load(packages[0], "affine", nullptr, 0, -1, &loaded, &error_), TUNEFARM_OK) << error_.message;
  UpdatableKernel kernel(std::move(loaded));
  EXPECT_EQ(kernel.Update(packages[0], &error_), TUNEFARM_OK);
  EXPECT_EQ(kernel.newest().updates(), 0) << "the same content is none";
  for (size_t i = 1; i <= UpdatableKernel::kUpdatesMax; ++i) {
    ASSERT_EQ(kernel.Update(packages[i % 2], &error_), TUNEFARM_OK) << error_.message;
  }
  EXPECT_EQ(kernel.newest().updates(), UpdatableKernel::kUpdatesMax);
  EXPECT_EQ(kernel.Update(packages[1], &error_), TUNEFARM_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("affine has been updated 1000 times"));
  EXPECT_EQ(kernel.Update(packages[0], &error_), TUNEFARM_OK) << "the same content";
}

// Some threads update, some plan, and some launch: every launch is one of one package or of the other.
TEST_F(UpdateTest, UpdatesGoOnBesideLaunches) {
  Load(Plain());
  const uint64_t old = PlanOf(1024).generation;
  tunefarm_package* const packages[] = {OpenPackage(WithBetterBest(Plain()).Finish()), OpenPackage(Plain().Finish())};
  constexpr int kUpdates = 40, kLaunchers = 6;
  std::atomic<int> wrong = 0, updating = 2;
  {
    std::vector<Thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back("update", [&] {
        for (int i = 0; i < kUpdates; ++i) {
          if (tunefarm_kernel_update(kernel_, packages[i % 2], nullptr) != TUNEFARM_OK) ++wrong;
        }
        --updating;
      });
    }
    for (int t = 0; t < kLaunchers; ++t) {
      threads.emplace_back("launch", [&, t] {
        const int64_t n = 1024;
        std::vector<float> x(1024, 2), y(1024, 1), z(1024, 0);
        void* const arguments[] = {x.data(), y.data(), z.data()};
        alignas(256) std::byte workspace[4096];
        tunefarm_launch launch = AffineLaunch(&n, arguments, workspace, sizeof(workspace));
        launch.generation = t % 2 == 0 ? 0 : old;
        for (int i = 0; i < 50 || updating > 0; ++i) {
          if (tunefarm_kernel_launch(kernel_, &launch, nullptr) != TUNEFARM_OK) ++wrong;
          if ((z[0] != 6 && z[0] != 7) || z[1023] != z[0]) ++wrong;
          tunefarm_plan plan = TUNEFARM_PLAN_INIT;
          if (tunefarm_kernel_plan(kernel_, &n, 1, &plan, nullptr) != TUNEFARM_OK) ++wrong;
          const std::string_view config = plan.config;
          if (config != "CHUNK=64" && config != "CHUNK=32") ++wrong;
        }
      });
    }
    for (Thread& thread : threads) thread.Join();
  }
  EXPECT_EQ(wrong, 0);
  ASSERT_EQ(tunefarm_kernel_update(kernel_, packages[0], &error_), TUNEFARM_OK) << error_.message;
  EXPECT_EQ(Result(1024), 7);
  for (tunefarm_package* package : packages) tunefarm_package_close(package);
}

}  // namespace
}  // namespace tunefarm::launch
