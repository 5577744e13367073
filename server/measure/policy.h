// The one place that turns a measurement policy with presets into plain numbers. Pure; any thread.
#pragma once

#include "tunefarm/v1/measurement.pb.h"

namespace tunefarm {

// Rounds of a final. With n of them the interval of a ratio is about sqrt(n) times narrower than one round's spread;
// launches of a few microseconds vary by 2 % between rounds, because each round loads the module at another address.
inline constexpr int kFinalRoundsMax = 256;
// What MeasurementPolicy.locked_clock_mhz may be besides 0.
inline constexpr int kLockedClockMhzMin = 100;
inline constexpr int kLockedClockMhzMax = 10'000;

// Every 0 replaced by its preset's value (an unknown or unset preset is DEFAULT) and every number brought into the
// range that measurement.proto documents; min_samples never exceeds max_samples, and whichever of the two is given
// alone moves the other. Flags stay as they are; an unset method stays unset, since the worker chooses by what it
// times. Resolving twice changes nothing.
tunefarm::v1::MeasurementPolicy ResolvePolicy(const tunefarm::v1::MeasurementPolicy& policy);

}  // namespace tunefarm
