// What a device could do at best, for rooflines. Pure.
#pragma once

#include <map>
#include <string>

namespace tunefarm::cuda {

// Dense FLOP/s (or integer operations) by unit, named as Kernel.flops_unit names them: operations per clock and
// multiprocessor of the compute capability (times ten), times multiprocessors and clock. Empty for capabilities that
// nobody has listed.
std::map<std::string, double> PeakFlopsByUnit(int compute_capability, int sm_count, int clock_mhz);

// Bytes per second of the memory interface: both edges of its clock.
double PeakBytesPerSecond(int memory_clock_mhz, int bus_width_bits);

}  // namespace tunefarm::cuda
