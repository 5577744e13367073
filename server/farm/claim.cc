#include "server/farm/claim.h"

#include <set>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/measure/policy.h"
#include "server/records/measured_key.h"
#include "server/records/resource_names.h"
#include "server/store/lost_units.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;
using tunefarm::v1::Trial;

namespace {

// A config that cannot be read has none, which whoever needs it finds out again.
std::shared_ptr<const std::map<int64_t, std::string>> TextsOf(const KernelPlan& plan,
                                                              const wire::Assignment& assignment) {
  auto texts = std::make_shared<std::map<int64_t, std::string>>();
  for (const wire::TrialSpec& spec : assignment.trials()) {
    if (spec.purpose() == tunefarm::v1::TRIAL_PURPOSE_BASELINE) continue;
    const absl::StatusOr<Config> config = plan.ParseConfig(spec.config());
    if (config.ok()) texts->emplace_hint(texts->end(), spec.ordinal(), config->ToText());
  }
  return texts;
}

// Of a trial, or of what one is to be.
template <typename Message>
absl::StatusOr<std::string> TextOf(const Claim& claim, const Message& message) {
  if (message.purpose() == tunefarm::v1::TRIAL_PURPOSE_BASELINE) return std::string();
  if (claim.texts != nullptr) {
    const auto text = claim.texts->find(message.ordinal());
    if (text != claim.texts->end()) return text->second;
  }
  ASSIGN_OR_RETURN(const Config config, claim.plan->ParseConfig(message.config()));
  return config.ToText();
}

}  // namespace

Claim Claim::WithoutTrials() const {
  Claim claim;
  claim.agent_id = agent_id;
  claim.epoch = epoch;
  claim.token = token;
  claim.job_id = job_id;
  claim.study_id = study_id;
  claim.unit_id = unit_id;
  claim.replacements = replacements;
  claim.kind = kind;
  claim.assignment.set_unit_id(unit_id);
  claim.assignment.set_token(token);
  claim.assignment.set_job_id(job_id);
  claim.assignment.set_study_id(study_id);
  claim.assignment.set_device_uuid(assignment.device_uuid());
  claim.assignment.set_kernel_id(assignment.kernel_id());
  *claim.assignment.mutable_problem() = assignment.problem();
  *claim.assignment.mutable_policy() = assignment.policy();
  claim.assignment.set_interleaved_rounds(assignment.interleaved_rounds());
  claim.assignment.set_race_limit_ns(assignment.race_limit_ns());
  claim.problem_key = problem_key;
  claim.plan = plan;
  claim.poison = poison;
  claim.measured_scope = measured_scope;
  claim.delivered = delivered;
  claim.mode = mode;
  claim.losses = losses;
  claim.is_part = is_part;
  claim.is_alone = is_alone;
  claim.texts = texts;
  return claim;
}

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
  claim.poison.class_id = devices.ClassOf(device_uuid);
  claim.texts = TextsOf(*claim.plan, assignment);
  if (claim.kind == UnitKind::kSearch) {
    claim.measured_scope = MeasuredScope(claim.poison.program_digest, claim.problem_key, claim.poison.class_id,
                                         claim.poison.toolkit, devices.DriverOf(device_uuid), assignment.policy());
  }
  return claim;
}

absl::StatusOr<std::string> ConfigText(const Claim& claim, const Trial& trial) { return TextOf(claim, trial); }

absl::StatusOr<std::string> ConfigText(const Claim& claim, const wire::TrialSpec& spec) { return TextOf(claim, spec); }

}  // namespace tunefarm
