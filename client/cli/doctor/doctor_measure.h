// doctor --repeatability: the A/A test. Enters one config twice, many times, as ordinary jobs whose finals interleave
// the twins, and says how often the stated intervals tell them apart, how narrow they are, and what the device did
// meanwhile.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/options/measure_options.h"
#include "client/cli/options/problem_options.h"
#include "client/cli/session.h"

namespace tunefarm::cli {

struct DoctorMeasureOptions {
  bool wanted = false;
  std::string kernel;  // empty: those of repeatability_suite.h
  std::string device;  // as for tune
  ProblemOptions problem;
  int pairs = 200;
  int rounds = 8;
  MeasureOptions measure;

  void AddTo(CLI::App* command);
};

// kExitOk when the intervals are what they say.
absl::StatusOr<ExitCode> DoctorMeasure(Session* session, const DoctorMeasureOptions& options);

}  // namespace tunefarm::cli
