// Is one config faster than another beyond noise?
//
// Pure and deterministic: equal samples give equal answers, on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "server/measure/statistics.h"
#include "tunefarm/v1/measurement.pb.h"

namespace tunefarm {

enum class SpeedVerdict {
  kFaster,      // a is faster than b by more than the margin, beyond noise
  kSlower,      // a is slower than b by more than the margin, beyond noise
  kNoDecision,  // the samples do not tell them apart by the margin
};

struct CompareOptions {
  double confidence = 0.95;
  // Differences up to this share do not count: a is faster only if its time is below (1 - margin) of b's.
  double margin = 0.0;
};

struct Comparison {
  double ratio = 0;         // time of a / time of b (of medians; paired: center of ratios): below 1, a is faster
  Interval ratio_interval;  // of the ratio
  SpeedVerdict verdict = SpeedVerdict::kNoDecision;
};

// From rounds in which a and b were measured side by side (interleaved): a[i] and b[i], one number each per round,
// share that round's conditions, and what drifts from round to round cancels. Rounds are what repeats: samples within
// one are not independent of each other, and an interval that took them for such would be too narrow. From the
// logarithms of the ratios a[i]/b[i], which are symmetric where a and b are equally fast: from 6 rounds on by signed
// ranks (SignedRankInterval), where a disturbed round moves the ratio little and widens the interval; from 2 to 5,
// where those cannot reach 95 %, by Student's t, since a round's number is a median of many samples and so nearly
// normal. Only the first min(a.size(), b.size()) rounds count, at most 256; one round gives a ratio and kNoDecision.
Comparison ComparePaired(std::span<const double> a, std::span<const double> b, const CompareOptions& options = {});

// From one positive figure of each with its interval. The interval of the ratio reaches from the smallest to the
// largest that both allow, so that a is only below b where the intervals are disjoint: wider than need be, and never
// too narrow.
Comparison CompareFigures(double a, const Interval& a_interval, double b, const Interval& b_interval,
                          double margin = 0);

// The medians of `rounds` consecutive stretches of equal length; what is left over at the end does not count. Empty if
// there are fewer samples than rounds.
std::vector<double> RoundMedians(std::span<const double> samples, size_t rounds);

// Two configs of one final with `rounds` rounds. Where both were measured beside a yardstick, a round's number is the
// mean of the ratios of samples to their neighbours: what drifts within a round cancels too, and the two need not
// have been measured at the same time. The mean (MeanWithoutOutliers), since a median of ratios of a few
// microseconds could only have the few values that the clock's resolution, 32 ns on Hopper, leaves. Else it is the
// median of the samples; without kept samples the measurement's median is all there is.
Comparison CompareMeasurements(const tunefarm::v1::Measurement& a, const tunefarm::v1::Measurement& b, int rounds,
                               const CompareOptions& options = {});

}  // namespace tunefarm
