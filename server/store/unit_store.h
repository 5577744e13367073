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

// What a trial that an agent holds does (TrialRow::work); 0: not known.
struct WorkClaim {
  int64_t study_id = 0, work = 0;
  int64_t unit_id = 0, token = 0, ordinal = 0;
};

struct WorkClaimRequest {
  std::string agent_id;
  int64_t epoch = 0;
  std::vector<WorkClaim> claims;  // at most kWorkClaimsMax
};

// Nothing set: the trial runs.
struct WorkAnswer {
  bool is_elsewhere = false;         // another agent has the claim of the work
  std::optional<TrialRow> measured;  // whose result the trial takes over; log and samples left out
};

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
  // What trials are to do that an agent holds and has not reported, in the order of the claims. A trial takes over the
  // result of a stored trial of its study with the same work; else it waits while another agent has the claim of the
  // work; else it runs, and its agent has the claim, which is void once every trial that ran under it is stored or its
  // unit is not claimed under that token. A trial that the agent does not hold under token and epoch runs and
  // claims nothing, as one whose work is not known. InvalidArgument: too many claims.
  virtual absl::StatusOr<std::vector<WorkAnswer>> ClaimWorks(const WorkClaimRequest& request) = 0;
  static constexpr size_t kWorkClaimsMax = 256;
  // Whether a work of the study was ever claimed, or stored with a trial. No for a study that is not there.
  virtual absl::StatusOr<bool> HasWorks(int64_t study_id) = 0;
};

}  // namespace tunefarm
