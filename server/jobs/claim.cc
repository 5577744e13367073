#include "server/jobs/claim.h"

#include <set>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/measured_key.h"
#include "server/jobs/resource_names.h"
#include "server/measure/policy.h"
#include "server/store/lost_units.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;
using tunefarm::v1::Trial;

absl::StatusOr<Claim> MakeClaim(const std::string& agent_id, int64_t epoch, const std::string& device_uuid,
                                const ClaimedUnit& claimed, KernelRegistry* kernels, const DeviceDirectory& devices) {
  Claim claim;
  claim.agent_id = agent_id;
  claim.epoch = epoch;
  claim.token = claimed.unit.token;
  claim.job_id = claimed.job_id;
  claim.study_id = claimed.unit.study_id;
  claim.unit_id = claimed.unit.unit_id;
  claim.kind = claimed.unit.kind;
  wire::Assignment payload;
  tunefarm::v1::Job spec;
  wire::Assignment& assignment = claim.assignment;
  if (!payload.ParseFromString(claimed.unit.payload) || !spec.ParseFromString(claimed.job_spec) ||
      !assignment.mutable_problem()->ParseFromString(claimed.problem)) {
    return DataLoss("its stored form cannot be read");
  }
  ASSIGN_OR_RETURN(claim.plan, kernels->GetById(claimed.kernel_id));
  assignment.set_unit_id(claimed.unit.unit_id);
  assignment.set_token(claimed.unit.token);
  assignment.set_job_id(claimed.job_id);
  assignment.set_study_id(claimed.unit.study_id);
  assignment.set_device_uuid(device_uuid);
  assignment.set_kernel_id(KernelName(claimed.kernel_id));
  *assignment.mutable_policy() = ResolvePolicy(spec.policy());
  assignment.set_interleaved_rounds(claimed.unit.rounds);
  const int64_t handed_end = claimed.unit.handed_end;
  claim.losses = handed_end > 0 || claim.kind != UnitKind::kSearch ? claimed.unit.losses : 0;
  claim.is_alone = claim.losses >= kAloneFromLoss;
  const std::set<int64_t> present(claimed.present_ordinals.begin(), claimed.present_ordinals.end());
  for (wire::TrialSpec& trial : *payload.mutable_trials()) {
    if (present.count(trial.ordinal()) > 0) continue;
    if (handed_end > 0 && trial.ordinal() >= handed_end) {
      claim.is_part = true;
      continue;
    }
    trial.set_attempt(1);
    *assignment.add_trials() = std::move(trial);
  }
  claim.problem_key = assignment.problem().key();
  claim.poison = {claim.plan->program_digest(), "", devices.ToolkitOf(device_uuid), claim.problem_key};
  for (const tunefarm::v1::Device& device : devices.List()) {
    if (device.uuid() == device_uuid) claim.poison.class_id = device.device_class().id();
  }
  if (claim.kind == UnitKind::kSearch) {
    claim.measured_scope = MeasuredScope(claim.poison.program_digest, claim.problem_key, claim.poison.class_id,
                                         claim.poison.toolkit, devices.DriverOf(device_uuid), assignment.policy());
  }
  return claim;
}

absl::StatusOr<std::string> ConfigText(const Claim& claim, const Trial& trial) {
  if (trial.purpose() == tunefarm::v1::TRIAL_PURPOSE_BASELINE) return std::string();
  ASSIGN_OR_RETURN(const Config config, claim.plan->ParseConfig(trial.config()));
  return config.ToText();
}

}  // namespace tunefarm
