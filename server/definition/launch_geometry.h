// LaunchGeometry: what the timed launches of a config look like, as far as that is known before anything is compiled:
// for predictions over whole spaces, so made to be asked millions of times (KernelPlan::Steps evaluates everything).
//
// Pure. Threads: never changes after it was made; const use from any thread, each with a Scratch of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "server/definition/kernel_plan.h"
#include "server/device/device_class.h"
#include "server/space/space.h"

namespace tunefarm {

// One launch. Extents that need kernel.* are 1, and not known.
struct KnownLaunch {
  LaunchShape shape;            // shared memory: what is declared, static and dynamic
  bool is_grid_known = true;    // else the grid depends on kernel.*, as those do that fill the device
  bool is_shared_known = true;  // else the dynamic shared memory depends on kernel.* and counts as none
  // The blocks that the work would need without rounding up over those that there are: the grid's formula with every
  // ceil_div(a, b) read as a / b. 1 where it rounds in no other way, or not at all.
  double unrounded_share = 1;
};

struct ConfigGeometry {
  std::vector<KnownLaunch> launches;  // timed ones that run, in order; those whose block is not known are left out
  double flops = 0, bytes = 0;        // of one launch sequence as declared; 0 not declared
};

class LaunchGeometry {
 public:
  // Values of slots, kept between calls.
  struct Scratch {
    std::vector<Value> values;
    std::vector<int64_t> numbers;  // the same as ints, where they are
  };

  // `space` is what plan->BuildSpace made of the problem and device. FailedPrecondition, in one sentence, where no
  // config has a launch with a known block: kernels of the host, definitions that launch nothing of their own or whose
  // blocks need kernel.*.
  static absl::StatusOr<std::shared_ptr<const LaunchGeometry>> Make(std::shared_ptr<const KernelPlan> plan,
                                                                    const ResolvedProblem& problem,
                                                                    const DeviceClass& device, const Space& space);
  ~LaunchGeometry();
  LaunchGeometry(const LaunchGeometry&) = delete;
  LaunchGeometry& operator=(const LaunchGeometry&) = delete;

  Scratch MakeScratch() const;
  // Of the config with these value indices in the space. False where a formula cannot be evaluated or gives no possible
  // extent.
  bool Read(std::span<const uint16_t> point, Scratch* scratch, ConfigGeometry* geometry) const;

 private:
  struct Impl;
  explicit LaunchGeometry(std::unique_ptr<const Impl> impl);
  const std::unique_ptr<const Impl> impl_;
};

}  // namespace tunefarm
