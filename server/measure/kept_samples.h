// What of a measurement belongs to the samples that finalists and failures keep: the samples themselves, their
// neighbours' times and the conditions of each block. Everything else is kept for every trial.
//
// Pure; any thread.
#pragma once

#include "tunefarm/v1/measurement.pb.h"

namespace tunefarm {

// Measurement.blocks has at most so many.
inline constexpr int kBlocksMax = 64;

// A message with nothing else.
tunefarm::v1::Measurement KeptSamples(const tunefarm::v1::Measurement& measurement);
// Replaces those of *measurement.
void SetKeptSamples(const tunefarm::v1::Measurement& samples, tunefarm::v1::Measurement* measurement);
void DropSamples(tunefarm::v1::Measurement* measurement);

}  // namespace tunefarm
