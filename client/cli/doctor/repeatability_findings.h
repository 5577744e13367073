// What an A/A test of one problem has found: the ratios of its pairs, and the conditions under which they were
// measured.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "server/measure/compare.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm::cli {

struct RepeatabilityFindings {
  std::string kernel, device, config;
  std::string problem, bound;  // of a suite (repeatability_suite.h)
  std::string failure;         // why it was not measured, in one sentence; empty: it was
  int rounds = 0;
  std::vector<Comparison> pairs;
  std::vector<double> round_ns;  // the device's pace: the median of all twins, round by round
  std::vector<double> medians;   // of all twins
  int64_t failed_pairs = 0, discarded = 0, throttled = 0, contended = 0, measured = 0;
  std::vector<double> clocks;
  std::vector<double> duty_cycles;  // those that are known
  double power_watts = 0;
  int temperature_c = 0;
  std::set<std::string> reasons, discard_reasons;
  std::string method;
};

// Adds one final: its twins by number, of which 2 i and 2 i + 1 are a pair. Those without a time are left out.
void AddTwins(const std::map<int, v1::Trial>& twins, int pairs, RepeatabilityFindings* findings);

}  // namespace tunefarm::cli
