// The energy of one launch sequence, from readings of a device's energy counter. Pure; any thread.
//
// A batch is a stretch of time in which the device repeats the same work without a pause, between two changes of the
// counter. The mean power of the batch times the time of one repetition is the energy of one repetition. Where samples
// are preceded by other work (flushing the caches, restoring buffers), batches of that work alone alternate with those
// of both, and the difference of two neighbours is the energy of one launch sequence: what drifts (heat, leakage) is in
// both. The energy of a launch sequence includes the power that the device draws whatever it does, for as long as the
// sequence runs, and that of its untimed steps.
#pragma once

#include <vector>

#include "tunefarm/v1/measurement.pb.h"

namespace tunefarm {

// A measurement of energy takes at most this long, in milliseconds: workers give up before, and deadlines allow it.
inline constexpr int kEnergyMsMax = 30'000;

// What messages say of a device without a counter, or without a driver that reads it.
inline constexpr char kNoEnergyCounter[] = "the device has no energy counter";

struct EnergyBatch {
  double millijoules = 0;       // by which the counter has grown
  double seconds = 0;           // between its two changes
  double sequence_seconds = 0;  // of one repetition, by the device's clock
};

struct EnergyReadings {
  // Of what comes before a launch sequence and the sequence.
  std::vector<EnergyBatch> launches;
  // Of what comes before alone: each the neighbour of the one at its place. Empty: nothing comes before.
  std::vector<EnergyBatch> before;
  double idle_millijoules = 0, idle_seconds = 0;  // of the idle device; 0: not read
};

// With a 95 % interval of the mean over the batches by Student's t. missing_because is set where nothing can be said:
// fewer than two batches, or a difference that is not positive.
tunefarm::v1::Energy EnergyOf(const EnergyReadings& readings);

}  // namespace tunefarm
