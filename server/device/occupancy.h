// How many blocks of a launch a multiprocessor holds at once, and what bounds them.
//
// Pure functions of their arguments.
#pragma once

#include <string_view>

#include "server/device/device_class.h"

namespace tunefarm {

enum class OccupancyLimit { kBlocks, kWarps, kSharedMemory, kRegisters };

// "blocks", "threads", "shared memory", "registers".
std::string_view NameOf(OccupancyLimit limit);

struct Occupancy {
  int blocks_per_sm = 0;  // as MaxActiveBlocks says; 0: the launch does not fit at all
  int warps_per_block = 0;
  // Of several that bound alike the first in the order of the enum.
  OccupancyLimit limit = OccupancyLimit::kBlocks;
  double share = 0;  // resident warps over the most that there may be
};

// CUDA C++ Programming Guide, "Multiprocessor Level" and "Compute Capabilities". Registers count where they are known.
Occupancy ComputeOccupancy(const DeviceClass& device, const LaunchShape& launch);

}  // namespace tunefarm
