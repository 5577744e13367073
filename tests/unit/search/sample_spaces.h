// Spaces and objectives for the tests of strategies.
#pragma once

#include "server/search/recording.h"
#include "server/search/strategy.h"
#include "server/space/space.h"

namespace tunefarm {

// 6 parameters of all types, tied by rules; some hundred configs, with a valid default.
Space SampleSpace();

// 10^10 points in ten parameters, a third of them valid: nothing lists it.
Space LargeSampleSpace();

// A time in ns for a config of either: smooth in most parameters, with interactions and a little roughness.
double SampleObjective(const Config& config);

// The results of another device for a whole listed space: the same objective, rougher by `roughness`, other failures.
PriorSource SamplePrior(const Space& space, double roughness);

// A recording of a listed space by SampleObjective; every seventh config fails.
Recording SampleRecording();

}  // namespace tunefarm
