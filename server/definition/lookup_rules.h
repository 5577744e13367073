// What a definition says about which tuned problem answers for another.
//
// Pure; any thread.
#pragma once

#include "server/expression/config.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm {

// The greatest distance at which one problem answers for another: lookup_distance_max, or four doublings.
double LookupDistanceMax(const tunefarm::v1::Kernel& kernel);

// How many dims with inputs_only are away from their defaults: of bests that answer equally well, the one with the
// fewest is chosen, then the newest.
int InputsOffDefault(const tunefarm::v1::Kernel& kernel, const Config& dims);

}  // namespace tunefarm
