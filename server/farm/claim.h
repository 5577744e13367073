// Claim: a unit as it was handed to an agent, with all that is needed to take its results in. Pure but for MakeClaim
// and StoreTrials.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/definition/kernel_plan.h"
#include "server/farm/device_directory.h"
#include "server/farm/poison_index.h"
#include "server/records/kernel_registry.h"
#include "server/store/store.h"
#include "server/store/unit_store.h"
#include "tunefarm/agent/v1/agent.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {

// How many losses of agents a config is given (Job.agent_losses_max) unless the job says otherwise; fewer do not tell
// which config of a unit it was.
inline constexpr int kAgentLossesMax = 3;

// What the agent may do with it: run it, give it up for now, give it up for good.
enum class ClaimMode { kActive, kHeld, kDropped };

// What becomes of a unit with a report of its trials.
enum class UnitAfter { kGoesOn, kDone, kReturned };

// What does not change with the trials that are left.
struct ClaimFacts {
  std::string agent_id;
  int64_t epoch = 0, token = 0, job_id = 0, study_id = 0, unit_id = 0;
  int64_t replacements = 0;  // ReportRequest::replacements
  UnitKind kind = UnitKind::kSearch;
  std::string problem_key;
  std::shared_ptr<const KernelPlan> plan;
  PoisonKey poison;
  std::string measured_scope;  // MeasuredScope; empty for what is no search, or where nothing is to be taken over
  bool delivered = false;      // in the agent's hands, as far as is known here
  ClaimMode mode = ClaimMode::kActive;
  // After losses of agents (store/lost_units.h): how many there were while all that is left of it was in flight,
  // whether the unit has more trials than these, and whether its agent may have nothing else.
  int losses = 0;
  bool is_part = false, is_alone = false;
};

struct Claim : ClaimFacts {
  tunefarm::agent::v1::Assignment assignment;  // with the trials that are not stored yet, by ordinal

  // The canonical text of a trial's config; empty for a baseline. The trial must be one of the assignment's.
  const std::string& ConfigOf(int64_t ordinal) const;
  // Whether the assignment has a trial of this ordinal.
  bool Has(int64_t ordinal) const;
  // Makes a result that of the assignment's trial: all of it but for the attempt.
  void Name(const tunefarm::agent::v1::TrialSpec& spec, int64_t now_ms, tunefarm::v1::Trial* trial) const;
  // All of it but for the trials.
  Claim WithoutTrials() const;
  // These are stored.
  void EraseTrials(const std::vector<tunefarm::v1::Trial>& trials);
};

// `replacements`: Store::Replacements before the unit was read. Unavailable: its kernel cannot be read now; other
// errors: it never can be.
absl::StatusOr<Claim> MakeClaim(const std::string& agent_id, int64_t epoch, const std::string& device_uuid,
                                const ClaimedUnit& claimed, int64_t replacements, KernelRegistry* kernels,
                                const DeviceDirectory& devices);

// The trials of a report as they are stored, and no others than the claim's, whose configs they take.
std::vector<tunefarm::v1::Trial> OwnTrials(const Claim& claim, const tunefarm::agent::v1::ReportTrialsRequest& report,
                                           int64_t now_ms);

// The trials must be the claim's. See Store::ReportTrials.
absl::StatusOr<ReportVerdict> StoreTrials(Store* store, const Claim& claim,
                                          const std::vector<tunefarm::v1::Trial>& trials, UnitAfter after,
                                          int64_t now_ms);

}  // namespace tunefarm
