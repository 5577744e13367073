// The race between configs: after a few samples, can this one still be the fastest?
//
// A config is lost when its time is surely above a limit, which is the upper end of the interval of the best time so
// far. "Surely" must hold for three samples as well as for a thousand, and for looking again and again, so:
//
//  - the lower bound is median - t * 1.2533 * s / sqrt(n), with Student's t of n - 1 degrees (a normal sample's median
//    scatters by 1.2533 times what its mean does). The median, because outliers upwards, which is what disturbs times,
//    must not make a config look slow; the standard deviation, because they then widen the bound;
//  - s counts as at least 0.5 % of the median: samples of one batch can be equal by the clock's coarseness or by a
//    common cause, and then say nothing of their spread;
//  - the limit is raised by a margin of 2 %: the times of one config in two batches, minutes apart, differ by more than
//    their spread says, and what is lost within the margin could not be told from the winner by 1 % anyway;
//  - look j may be wrong with probability error / (j * (j + 1)), which adds up to `error` over any number of looks.
//
// So a config that is exactly as fast as the limit is given up with a probability of less than 1 %, wherever times of
// one config are scattered around one mode; race_test.cc counts it for normal, skewed and contaminated samples.
//
// Pure; any thread.
#pragma once

#include <cstdint>
#include <span>

namespace tunefarm {

inline constexpr double kRaceError = 0.01;
inline constexpr double kRaceMargin = 0.02;
// No look is taken at fewer.
inline constexpr uint64_t kRaceSamplesMin = 3;

// The lower bound at look `look` (from 1). 0 with fewer than kRaceSamplesMin samples. Samples of any unit, positive.
double RaceLowerBound(std::span<const double> samples, uint64_t look);

// Whether the config is lost; never with a limit of 0 or less, which means that there is none.
bool IsRaceLost(std::span<const double> samples, double limit, uint64_t look);

}  // namespace tunefarm
