// Packages of the catalog's bests and of given ones, over a compiler that plays.
#include "server/api/package_api.h"

#include <elf.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "client/launch/package.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/status.h"
#include "server/device/device_class.h"
#include "tests/fakes/cuda_definition.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The least that passes for a binary, and differs from config to config.
CompiledConfig CompiledBy(const Config& config) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  CompiledConfig compiled;
  compiled.outcome = v1::OUTCOME_OK;
  compiled.binary = std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + config.ToText();
  compiled.binary_digest = config.ToText();
  compiled.binary_bytes = compiled.binary.size();
  compiled.lowered_names["scale"] = "scale";
  compiled.toolchain = "g++ 12.2.0 (/usr/bin/c++)";
  return compiled;
}

absl::StatusOr<std::vector<CompiledConfig>> CompileAll(const CompileOrder& order) {
  std::vector<CompiledConfig> compiled;
  for (const Config& config : order.configs) compiled.push_back(CompiledBy(config));
  return compiled;
}

class PackageApiTest : public testing::Test {
 protected:
  // A=4,B=2 is best for both.
  PackageApiTest() {
    farm_.evaluator().set_scripter(Bowl);
    EXPECT_TRUE(farm_.Finish(farm_.SubmitJob({1024, 4096})));
  }

  MadePackage Made(
      const v1::ExportPackageRequest& request, const CompileConfigs& compile = CompileAll,
      const std::function<bool()>& is_cancelled = [] { return false; }) {
    PackageApi api(&kernels_, &farm_.service().devices(), &farm_.service().catalog(), &farm_.clock, compile);
    return api.ExportPackage(request, is_cancelled);
  }
  static std::string Text(const MadePackage& made) { return std::string(MessageOf(made.file.status())); }

  static std::shared_ptr<const launch::Package> Read(const std::string& bytes) {
    std::shared_ptr<const launch::Package> package;
    tunefarm_error error = TUNEFARM_ERROR_INIT;
    EXPECT_EQ(launch::Package::Copy(bytes.data(), bytes.size(), &package, &error), TUNEFARM_OK) << error.message;
    return package;
  }
  // Medians of the tuned configs.
  static std::vector<double> Times(const launch::Package& package) {
    std::vector<double> times;
    for (const auto& choice : package.choices()) {
      if (choice.kind == package::kTuned) times.push_back(choice.median_ns);
    }
    return times;
  }

  std::vector<v1::BestConfig> Bests() {
    const auto list = farm_.service().lookup_api().ListBestConfigs({});
    EXPECT_TRUE(list.ok()) << list.status();
    return {list->bests().begin(), list->bests().end()};
  }
  // TestKernel with another text.
  static v1::Kernel Changed() {
    v1::Kernel kernel = TestKernel();
    kernel.mutable_sources(0)->set_content("extern \"C\" void scale(const float*, float*) {}  // Another version.");
    return kernel;
  }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path()};
  KernelRegistry kernels_{farm_.hooked_store.get()};
};

TEST_F(PackageApiTest, BestsAndTheDefaultConfigAreCompiledAndWritten) {
  const MadePackage made = Made({});
  ASSERT_TRUE(made.file.ok()) << made.file.status();
  EXPECT_EQ(made.contents.file_bytes(), static_cast<int64_t>(made.file->size()));
  EXPECT_EQ(made.contents.bests(), 2);
  EXPECT_EQ(made.contents.kernels(), 1);
  EXPECT_EQ(made.contents.bests_without_time(), 0);
  EXPECT_THAT(made.contents.left_out(), IsEmpty());
  const auto package = Read(*made.file);
  ASSERT_NE(package, nullptr);
  ASSERT_EQ(package->kernels().size(), 1U);
  EXPECT_STREQ(package->String(package->kernels()[0].name), "scale");
  // One default config for both, since N is given with each launch.
  EXPECT_EQ(package->choices().size(), 3U);
  EXPECT_THAT(Times(*package), testing::Each(testing::Gt(0)));
  EXPECT_EQ(package->binaries().size(), 2U);
  EXPECT_EQ(package->String(package->binaries()[0].toolchain), std::string("g++ 12.2.0"));
}

TEST_F(PackageApiTest, FiltersChooseBests) {
  v1::ExportPackageRequest request;
  request.set_kernel("scale");
  request.set_device_class("cpu");  // a word of its name
  v1::DimFilter* const dim = request.add_dims();
  dim->set_dim("N");
  dim->add_values("4096");
  const MadePackage made = Made(request);
  ASSERT_TRUE(made.file.ok()) << made.file.status();
  EXPECT_EQ(made.contents.bests(), 1);
  dim->set_values(0, "77");
  const MadePackage none = Made(request);
  EXPECT_TRUE(absl::IsNotFound(none.file.status()));
  EXPECT_EQ(ReasonOf(none.file.status()), "BEST_NOT_FOUND");
  EXPECT_EQ(Text(none), "no best of scale is known on cpu with N=77; there are bests on: Test CPU");
  request.set_kernel("absent");
  EXPECT_EQ(Text(Made(request)), "no best of absent is known");
  request.set_kernel("kernels/absent");
  EXPECT_EQ(ReasonOf(Made(request).file.status()), "KERNEL_NOT_FOUND");
  request.set_kernel("scale");
  dim->clear_values();
  EXPECT_EQ(ReasonOf(Made(request).file.status()), "FILTER_INVALID");
}

TEST_F(PackageApiTest, OfTheCatalogOnlyBestsOfTheVeryDefinitionAreTaken) {
  v1::ExportPackageRequest request;
  request.set_kernel("scale");
  *request.add_definitions() = Changed();
  EXPECT_EQ(ReasonOf(Made(request).file.status()), "BEST_NOT_FOUND");
  // Where it is the newest of the name, what the others have found is named.
  request.clear_definitions();
  ASSERT_TRUE(farm_.service().CreateKernel(Changed()).ok());
  const MadePackage made = Made(request);
  EXPECT_EQ(ReasonOf(made.file.status()), "PACKAGE_EMPTY");
  EXPECT_THAT(Text(made), AllOf(HasSubstr("nothing can be packaged"), HasSubstr("another version of the kernel")));
  EXPECT_EQ(made.contents.left_out_count(), 2);
  // The newest first.
  EXPECT_THAT(made.contents.left_out(),
              ElementsAre(HasSubstr("scale for N=4096 on Test CPU"), HasSubstr("scale for N=1024 on Test CPU")));
  // The definition that found them may still be named.
  *request.add_definitions() = TestKernel();
  EXPECT_EQ(Made(request).contents.bests(), 2);
  *request.add_definitions() = TestKernel();
  EXPECT_EQ(ReasonOf(Made(request).file.status()), "KERNEL_REPEATED");
}

TEST_F(PackageApiTest, GivenBestsServeAnyVersionAndKeepTheirTimesOnlyForTheirOwn) {
  v1::ExportPackageRequest request;
  for (const v1::BestConfig& best : Bests()) *request.add_bests() = best;
  *request.add_definitions() = TestKernel();
  const MadePackage own = Made(request);
  ASSERT_TRUE(own.file.ok()) << own.file.status();
  EXPECT_EQ(own.contents.bests(), 2);
  EXPECT_EQ(own.contents.bests_without_time(), 0);
  *request.mutable_definitions(0) = Changed();
  const MadePackage other = Made(request);
  ASSERT_TRUE(other.file.ok()) << other.file.status();
  EXPECT_EQ(other.contents.bests(), 2);
  EXPECT_EQ(other.contents.bests_without_time(), 2);
  const auto package = Read(*other.file);
  ASSERT_NE(package, nullptr);
  EXPECT_THAT(Times(*package), ElementsAre(0, 0));
}

TEST_F(PackageApiTest, GivenBestsThatDoNotFitAreNamed) {
  const v1::BestConfig good = Bests()[0];
  v1::ExportPackageRequest request;
  *request.add_bests() = good;
  v1::BestConfig* best = request.add_bests();
  *best = good;
  (*best->mutable_problem()->mutable_dims())["N"].set_int_value(64);
  best->mutable_problem()->clear_key();
  (*best->mutable_config()->mutable_values())["A"].set_int_value(8);
  (*best->mutable_config()->mutable_values())["B"].set_int_value(3);  // breaks the constraint
  best = request.add_bests();
  *best = good;
  (*best->mutable_config()->mutable_values())["C"].set_int_value(1);
  best = request.add_bests();
  *best = good;
  best->set_device_class_id("some-gpu");
  best->set_device_class_name("Some GPU");
  *request.add_bests() = good;
  const MadePackage made = Made(request);
  ASSERT_TRUE(made.file.ok()) << made.file.status();
  EXPECT_EQ(made.contents.bests(), 1);
  EXPECT_THAT(made.contents.left_out(),
              testing::UnorderedElementsAre(AllOf(HasSubstr("scale for N=64"), HasSubstr("breaks the constraint")),
                                            HasSubstr("'C'"), HasSubstr("no device of its class is known"),
                                            HasSubstr("another best is of the same dims")));
  best->clear_device_class_id();
  EXPECT_EQ(Text(Made(request)), "bests[3] has no device class");
  best->set_device_class_id(good.device_class_id());
  best->set_revision(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Text(Made(request)), "bests[3] has a negative revision");
  best->set_revision(0);
  best->mutable_measurement()->set_median_ns(-1);
  EXPECT_EQ(Text(Made(request)), "bests[3] has a negative median");
  while (request.bests_size() <= 10'000) *request.add_bests() = good;
  EXPECT_EQ(ReasonOf(Made(request).file.status()), "TOO_MANY_BESTS");
}

TEST_F(PackageApiTest, ClassesThatAreKnownWithoutADeviceAreCompiledFor) {
  v1::ExportPackageRequest request;
  *request.add_definitions() =
      CudaDefinition("fill", "parameters { name: 'A' values { ints: [ 1, 2 ] } }", "64", "128");
  for (const char* const card : {"H100", "H200"}) {
    const DeviceClass device_class = FindKnownClass(card).value();
    v1::BestConfig* const best = request.add_bests();
    best->set_kernel_name("fill");
    best->set_device_class_id(device_class.Id());
    best->set_device_class_name(device_class.display_name);
    (*best->mutable_config()->mutable_values())["A"].set_int_value(2);
  }
  request.set_device_class("H200");
  const MadePackage made = Made(request, [](const CompileOrder& order) {
    EXPECT_EQ(order.device_class.display_name, "NVIDIA H200");
    auto compiled = CompileAll(order);
    compiled->front().lowered_names = {{"fill", "_Z4fillPf"}};
    compiled->front().toolchain = "NVRTC 13.0 (libnvrtc.so.13)";
    return compiled;
  });
  ASSERT_TRUE(made.file.ok()) << made.file.status();
  EXPECT_EQ(made.contents.bests(), 1);
  EXPECT_THAT(made.contents.left_out(), IsEmpty());
  const auto package = Read(*made.file);
  ASSERT_NE(package, nullptr);
  ASSERT_EQ(package->classes().size(), 1U);
  EXPECT_EQ(package->String(package->classes()[0].name), std::string("NVIDIA H200"));
}

TEST_F(PackageApiTest, WhatDoesNotCompileIsLeftOut) {
  const auto only_defaults = [](const CompileOrder& order) {
    auto compiled = CompileAll(order);
    if (order.configs[0].Find("A")->int_value() == 1) return compiled;
    compiled->front() = CompiledConfig();
    compiled->front().outcome = v1::OUTCOME_COMPILE_ERROR;
    compiled->front().message = "the compiler does not like it";
    return compiled;
  };
  const MadePackage made = Made({}, only_defaults);
  // A default config alone is no reason for a package.
  EXPECT_EQ(ReasonOf(made.file.status()), "PACKAGE_EMPTY");
  EXPECT_EQ(made.contents.left_out_count(), 2);
  EXPECT_THAT(made.contents.left_out(1), HasSubstr("the compiler does not like it"));
  EXPECT_EQ(ReasonOf(Made({}, nullptr).file.status()), "NO_COMPILER");
  // An error of the compiler itself ends the call and says where.
  v1::ExportPackageRequest request;
  *request.add_bests() = Bests()[0];
  const MadePackage broken = Made(request, [](const CompileOrder&) -> absl::StatusOr<std::vector<CompiledConfig>> {
    return WithReason(FailedPrecondition("there is no compiler"), "NO_COMPILER");
  });
  EXPECT_EQ(ReasonOf(broken.file.status()), "NO_COMPILER");
  EXPECT_THAT(Text(broken), testing::MatchesRegex("(the default config of )?scale for N=.* on Test CPU: "
                                                  "there is no compiler"));
}

TEST_F(PackageApiTest, EndsWhenNobodyWaitsOrItBecomesTooMuch) {
  std::atomic<int> compiles{0};
  const auto counted = [&compiles](const CompileOrder& order) {
    ++compiles;
    return CompileAll(order);
  };
  EXPECT_TRUE(absl::IsCancelled(Made({}, counted, [] { return true; }).file.status()));
  EXPECT_EQ(compiles, 0);
  const auto huge = [](const CompileOrder& order) {
    auto compiled = CompileAll(order);
    compiled->front().binary_bytes = 60 << 20;
    return compiled;
  };
  EXPECT_EQ(ReasonOf(Made({}, huge).file.status()), "PACKAGE_TOO_LARGE");
  const auto slow = [this](const CompileOrder& order) {
    farm_.clock.Advance(std::chrono::minutes(31));
    return CompileAll(order);
  };
  v1::ExportPackageRequest many;
  for (int n = 1; n <= 64; ++n) {
    v1::BestConfig* const best = many.add_bests();
    *best = Bests()[0];
    (*best->mutable_problem()->mutable_dims())["N"].set_int_value(n);
  }
  const absl::Status late = Made(many, slow).file.status();
  EXPECT_EQ(ReasonOf(late), "PACKAGE_TIME");
  EXPECT_THAT(std::string(MessageOf(late)), testing::ContainsRegex("^[1-4] of [0-9]+ configs are compiled: .*the "
                                                                   "package was not made within 30 minutes"));
}

}  // namespace
}  // namespace tunefarm
