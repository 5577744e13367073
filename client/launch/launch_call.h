// Launches of a loaded kernel. Nothing here allocates, loads, or waits for another thread.
//
// Threads: any, with one kernel too.
#pragma once

#include "client/launch/include/tunefarm/launch.h"
#include "client/launch/kernel.h"
#include "client/launch/lane.h"

namespace tunefarm::launch {

// Chooses for the dims of a launch, of which there are as many as the kernel takes.
tunefarm_status Select(const Kernel& kernel, const int64_t* dims, Selection* selection, tunefarm_error* error);

// See tunefarm_kernel_launch and tunefarm_kernel_prepare; the structure's size is checked.
tunefarm_status Launch(const Kernel& kernel, const tunefarm_launch& launch, tunefarm_error* error);
tunefarm_status Prepare(const Kernel& kernel, const tunefarm_launch& launch, tunefarm_error* error);

}  // namespace tunefarm::launch
