// A kernel as its handle has it: what it was loaded with, and what each update brought since. Plans are made from the
// newest. Launches go over to it with the first launch or preparation that no graph captures.
//
// Threads: any. A launch reads two pointers; what they pointed to before stays until the handle goes, since launches
// may be under way with it.
#pragma once

#include <atomic>
#include <memory>

#include "client/launch/include/tunefarm/launch.h"
#include "client/launch/kernel.h"
#include "client/launch/package.h"

namespace tunefarm::launch {

class UpdatableKernel {
 public:
  static constexpr int kUpdatesMax = 1000;

  explicit UpdatableKernel(std::unique_ptr<Kernel> kernel) : newest_(kernel.get()), launched_(kernel.release()) {}
  ~UpdatableKernel();
  UpdatableKernel(const UpdatableKernel&) = delete;
  UpdatableKernel& operator=(const UpdatableKernel&) = delete;

  const Kernel& newest() const { return *newest_.load(std::memory_order_acquire); }
  // For the launch or the preparation, whose structure need not be checked. A preparation chooses as a launch does: one
  // for the newest, before a capture whose launches go on with what was loaded before, would prepare for another
  // config.
  const Kernel& ForLaunch(const tunefarm_launch& launch) const {
    // In this order, so that the second is never the older one.
    const Kernel* const launched = launched_.load(std::memory_order_acquire);
    const Kernel* const newest = newest_.load(std::memory_order_acquire);
    return launched == newest ? *newest : GoOver(*launched, *newest, launch);
  }

  // See tunefarm_kernel_update.
  tunefarm_status Update(std::shared_ptr<const Package> package, tunefarm_error* error);

 private:
  const Kernel& GoOver(const Kernel& launched, const Kernel& newest, const tunefarm_launch& launch) const;

  std::atomic<const Kernel*> newest_;
  mutable std::atomic<const Kernel*> launched_;  // what captured launches without a generation choose from
};

}  // namespace tunefarm::launch
