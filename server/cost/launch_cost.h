// LaunchCost: how well one launch keeps a device busy, from its geometry alone. The time of a launch is its work spread
// over all multiprocessors, divided by four shares:
//
//   lanes    Threads over the lanes of their warps: a warp of 17 threads takes the time of 32. CUDA C++ Programming
//            Guide, "SIMT Architecture".
//   tiles    Tile quantisation: blocks that the work needs over blocks that it gets once their number is rounded up.
//            NVIDIA, "Matrix Multiplication Background User's Guide", "Tile Quantization".
//   hiding   A multiprocessor with few resident warps waits for results that are on their way: its throughput grows in
//            proportion to the warps until it saturates. Volkov, "Understanding Latency Hiding on GPUs" (thesis,
//            Berkeley 2016), chapter 4. Where it saturates depends on the kernel; that published kernels run at full
//            rate with very few warps whose threads have independent instructions (Volkov, "Better Performance at Lower
//            Occupancy", GTC 2010) is why the point here is low: kSaturatingWarps for each multiprocessor.
//   waves    Wave quantisation: the last blocks do not fill the device. The busiest multiprocessor has full rounds of
//            as many blocks as fit (the occupancy), then the rest with what hiding those have. Same guide, "Wave
//            Quantization". A persistent kernel's grid is at most one round, of which all multiprocessors have the same
//            number of blocks, and so has no such loss: how evenly it hands out its work is not known here. With fewer
//            blocks than multiprocessors some idle, whatever the kernel does.
//
// A grid that is known only after compiling (it asks how many blocks fit) fills the device: no loss.
//
// Pure functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>

#include "server/definition/launch_geometry.h"
#include "server/device/device_class.h"
#include "server/device/occupancy.h"

namespace tunefarm {

// Two for each of the four schedulers of a multiprocessor.
inline constexpr int kSaturatingWarps = 8;

struct LaunchCost {
  int64_t threads_per_block = 0;
  int64_t blocks = 0;  // 0: not known
  int64_t shared_bytes = 0;
  Occupancy occupancy;
  double waves = 0;  // rounds of resident blocks; 0: not known
  // The four shares, each above 0 and at most 1.
  double lanes = 1, tiles = 1, hiding = 1, waves_share = 1;

  // Their product: the part of the launch's time in which the device is as busy as it can be.
  double efficiency() const { return lanes * tiles * hiding * waves_share; }
};

// The part of its throughput that a multiprocessor reaches with so many resident warps.
double HidingOf(int64_t warps);

// Time of `blocks` equal blocks of `warps` warps each on `multiprocessors` that hold `resident` of them at once, as a
// multiple of what it were without a rest and with the hiding of full rounds: the inverse of the waves' share. All at
// least 1.
double WaveLoss(int64_t blocks, int64_t multiprocessors, int64_t resident, int64_t warps);

// Nothing where not even one block fits.
std::optional<LaunchCost> CostOfLaunch(const DeviceClass& device, const KnownLaunch& launch);

}  // namespace tunefarm
