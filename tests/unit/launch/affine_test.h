// What tests share that launch "affine" of the sample package through the functions of launch.h.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "client/launch/include/tunefarm/launch.h"
#include "tests/unit/launch/sample_package.h"

namespace tunefarm::launch {

// For *n elements. `arguments`: x, y and z. All outlive it.
inline tunefarm_launch AffineLaunch(const int64_t* n, void* const* arguments, void* workspace,
                                    uint64_t workspace_bytes) {
  tunefarm_launch launch = TUNEFARM_LAUNCH_INIT;
  launch.dims = n;
  launch.dim_count = 1;
  launch.arguments = arguments;
  launch.argument_count = 3;
  launch.workspace = workspace;
  launch.workspace_bytes = workspace_bytes;
  return launch;
}

class AffineTest : public testing::Test {
 protected:
  void TearDown() override { tunefarm_kernel_close(kernel_); }

  tunefarm_package* OpenPackage(const std::string& bytes) {
    tunefarm_package* package = nullptr;
    EXPECT_EQ(tunefarm_package_open_bytes(bytes.data(), bytes.size(), &package, &error_), TUNEFARM_OK)
        << error_.message;
    return package;
  }
  void Load(const package::PackageBuilder& builder, const std::vector<tunefarm_dim>& dims = {}) {
    tunefarm_package* const package = OpenPackage(builder.Finish());
    ASSERT_EQ(tunefarm_kernel_load(package, "affine", dims.data(), dims.size(), nullptr, &kernel_, &error_),
              TUNEFARM_OK)
        << error_.message;
    tunefarm_package_close(package);
  }
  tunefarm_status UpdateTo(const std::string& bytes) {
    tunefarm_package* const package = OpenPackage(bytes);
    const tunefarm_status status = tunefarm_kernel_update(kernel_, package, &error_);
    tunefarm_package_close(package);
    return status;
  }
  void Update(const package::PackageBuilder& builder) {
    ASSERT_EQ(UpdateTo(builder.Finish()), TUNEFARM_OK) << error_.message;
  }
  tunefarm_plan PlanOf(int64_t n) {
    tunefarm_plan plan = TUNEFARM_PLAN_INIT;
    EXPECT_EQ(tunefarm_kernel_plan(kernel_, &n, 1, &plan, &error_), TUNEFARM_OK) << error_.message;
    return plan;
  }

  tunefarm_kernel* kernel_ = nullptr;
  tunefarm_error error_ = TUNEFARM_ERROR_INIT;
};

}  // namespace tunefarm::launch
