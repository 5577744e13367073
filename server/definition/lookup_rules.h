// What a definition says about which tuned problem answers for another.
//
// Pure; any thread.
#pragma once

#include "server/expression/config.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm {

// The greatest distance at which one problem answers for another: lookup_distance_max, or four doublings.
double LookupDistanceMax(const tunefarm::v1::Kernel& kernel);

// The dims with inputs_only, with their defaults.
Config InputDefaults(const tunefarm::v1::Kernel& kernel);

// How many of `dims` are away from their defaults, which are those of InputDefaults: of bests that answer equally well,
// the one with the fewest is chosen, then the newest.
int InputsOffDefault(const Config& defaults, const Config& dims);

}  // namespace tunefarm
