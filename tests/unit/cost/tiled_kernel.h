// A definition with what the cost model goes by: a grid of tiles, blocks of several sizes, shared memory.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "server/base/status.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm {

// 6 x 4 x 3 configs without those over 1,024 threads; the default has 64 threads.
inline constexpr std::string_view kTiledText = R"kernel(
display_name: "tiled"
language: LANGUAGE_CUDA
sources { path: "tiled.cu" content: "// nothing" }
dims { name: "N" default_value { int_value: 100000 } }
dims { name: "wide" type: VALUE_TYPE_BOOL default_value { bool_value: false } }
parameters { name: "THREADS" values { ints: [8, 32, 48, 64, 256, 2048] } default_value { int_value: 64 } }
parameters { name: "PER_THREAD" values { ints: [1, 2, 4, 8] } default_value { int_value: 1 } }
parameters { name: "SHARED" values { ints: [0, 16384, 98304] } default_value { int_value: 0 } }
derived { name: "tile" expression: "THREADS * PER_THREAD" }
constraints { expression: "THREADS <= 1024" reason: "too many threads" }
arguments { name: "x" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_IN } }
arguments { name: "y" buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT } }
launches { kernel { entry: "tiled" grid: "ceil_div(N, tile)" block: "THREADS" dynamic_shared_bytes: "SHARED"
                    arguments: ["x", "y"] } }
unverified_reason: "of no interest here"
)kernel";

inline std::shared_ptr<const KernelPlan> TiledPlan(std::string_view from = "", std::string_view to = "") {
  std::string text(kTiledText);
  if (!from.empty()) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << "the definition has no '" << from << "'";
    if (at != std::string::npos) text.replace(at, from.size(), to);
  }
  const auto kernel = ParseKernelText(text, "kernel.pbtxt");
  EXPECT_TRUE(kernel.ok()) << MessageOf(kernel.status());
  const auto plan = kernel.ok() ? KernelPlan::Compile(*kernel) : kernel.status();
  EXPECT_TRUE(plan.ok()) << MessageOf(plan.status());
  return plan.ok() ? *plan : nullptr;
}

}  // namespace tunefarm
