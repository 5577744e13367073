// UnitStore: work units in the hands of agents, and their results. Threads and errors: as Store (store.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/job_rows.h"

namespace tunefarm {

struct ClaimRequest {
  std::string agent_id;
  int64_t epoch = 0;
  std::string device_uuid;
  std::string class_id;
  int units_max = 1;
  int64_t now_ms = 0;
  std::vector<std::string> device_names = {};  // what the device answers to besides its UUID; without line breaks
  int trials_max = 0;                          // nothing is added to units that have as many trials; 0: no such bound
};

struct ClaimedUnit {
  UnitRow unit;
  int64_t job_id = 0;
  std::string kernel_id;
  std::string problem;                            // opaque
  std::string job_spec;                           // opaque
  std::vector<int64_t> present_ordinals;          // trials of the unit that are already stored
  std::vector<std::string> present_devices = {};  // of FINALS: those that these name
};

struct ReportRequest {
  std::string agent_id;
  int64_t epoch = 0;
  int64_t unit_id = 0;
  int64_t token = 0;
  std::vector<TrialRow> trials;
  bool unit_done = false;
  int64_t now_ms = 0;
  bool unit_returned = false;  // not with unit_done
  int64_t replacements = 0;    // Replacements() before the unit was read
};

enum class ReportVerdict { kAccepted, kStale };

class UnitStore {
 public:
  virtual ~UnitStore() = default;

  // Hands out READY units of the device's class, of jobs QUEUED or RUNNING, by job priority then claim order; a QUEUED
  // job becomes RUNNING in the same transaction. FailedPrecondition if the epoch is not the agent's current one.
  virtual absl::StatusOr<std::vector<ClaimedUnit>> ClaimUnits(const ClaimRequest& request) = 0;
  // What the agent holds, by unit id; nothing for another epoch than its current one.
  virtual absl::StatusOr<std::vector<ClaimedUnit>> ClaimsOf(std::string_view agent_id, int64_t epoch) = 0;
  // Stores trials (an ordinal already present is left as it is) if token and epoch are current, checked in the same
  // statement; unit_done makes the unit DONE; unit_returned makes it READY, behind a new claim order, or removes it if
  // its study has ended. kStale otherwise, with nothing stored. InvalidArgument, with nothing stored, for a trial that
  // is not one of the unit's. Unavailable, with nothing stored, if the database was replaced after the unit was read:
  // results that were reported before may be missing from this one.
  virtual absl::StatusOr<ReportVerdict> ReportTrials(const ReportRequest& request) = 0;
};

}  // namespace tunefarm
