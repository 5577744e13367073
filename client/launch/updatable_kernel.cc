#include "client/launch/updatable_kernel.h"

#include <utility>

#include "client/launch/failure.h"

namespace tunefarm::launch {

UpdatableKernel::~UpdatableKernel() {
  for (const Kernel* kernel = &newest(); kernel != nullptr;) {
    const std::unique_ptr<const Kernel> gone(kernel);
    kernel = gone->previous();
  }
}

const Kernel& UpdatableKernel::GoOver(const Kernel& launched, const Kernel& newest,
                                      const tunefarm_launch& launch) const {
  if (launch.size < sizeof(launch)) return launched;  // which refuses it
  // A generation says itself which choice a captured launch takes.
  if (newest.IsCapturing(launch)) return launch.generation == 0 ? launched : newest;
  const Kernel* expected = &launched;
  (void)launched_.compare_exchange_strong(expected, &newest, std::memory_order_acq_rel);
  return newest;
}

tunefarm_status UpdatableKernel::Update(std::shared_ptr<const Package> package, tunefarm_error* error) {
  const Kernel* newest = newest_.load(std::memory_order_acquire);
  if (package->HasContentOf(newest->package())) return TUNEFARM_OK;
  if (newest->updates() >= kUpdatesMax) {
    return Fail(error, TUNEFARM_INVALID_ARGUMENT,
                "%s has been updated %d times and keeps the binaries of each update; "
                "load the kernel again and close this one.",
                newest->name(), kUpdatesMax);
  }
  std::unique_ptr<Kernel> loaded;
  const tunefarm_status status = Kernel::LoadNewer(std::move(package), *newest, &loaded, error);
  if (status != TUNEFARM_OK) return status;
  Kernel* const added = loaded.release();
  // Another thread may have updated meanwhile: this one is the newest then.
  do {
    added->SetPrevious(newest);
  } while (!newest_.compare_exchange_weak(newest, added, std::memory_order_acq_rel, std::memory_order_acquire));
  return TUNEFARM_OK;
}

}  // namespace tunefarm::launch
