// Binaries of packages in this process. What was loaded stays loaded until the process ends, and is loaded once,
// whatever the number of packages that hold it.
//
// Threads: any, one at a time (load_lock.h).
#pragma once

#include <cstddef>
#include <span>

#include "client/launch/cuda_driver.h"
#include "client/launch/include/tunefarm/launch.h"

namespace tunefarm::launch {

// A shared object; *handle is dlopen's. INCOMPATIBLE or OUT_OF_MEMORY.
tunefarm_status LoadSharedObject(std::span<const std::byte> bytes, void** handle, tunefarm_error* error);

// A cubin, for all contexts. A context must be current. INCOMPATIBLE or DEVICE_ERROR.
tunefarm_status LoadCubin(const cuda::Driver& driver, std::span<const std::byte> bytes, cuda::Library* library,
                          tunefarm_error* error);

}  // namespace tunefarm::launch
