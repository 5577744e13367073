// The reports people read after a job: device block, ranked table, outcome counts, best.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/session.h"
#include "tunefarm/v1/best_config.pb.h"
#include "tunefarm/v1/device.pb.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/lookup_service.pb.h"
#include "tunefarm/v1/tuning_service.pb.h"

namespace tunefarm::cli {

// "NVIDIA H200  sm_90  132 SMs  ..." one line.
std::string DeviceLine(const v1::Device& device);

struct ReportOptions {
  int rows = 10;     // best configs shown; 0: all
  bool all = false;  // every trial in the order of the search, with its outcome, not only the ranked ones
};

// The whole report of a job in the session's format.
absl::Status PrintResults(Session* session, const std::string& job_name, const ReportOptions& options);

// The report of one best config.
std::string BestText(const v1::LookupConfigResponse& response, const std::string& question);

}  // namespace tunefarm::cli
