#include "server/farm/claim.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "server/agent/trial_report.h"
#include "server/base/check.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/farm/agent_numbers.h"
#include "server/measure/policy.h"
#include "server/records/measured_key.h"
#include "server/records/resource_names.h"
#include "server/records/trial_rows.h"
#include "server/store/lost_units.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;
using tunefarm::v1::Trial;

namespace {

// Null: it is not one of the assignment's.
const wire::TrialSpec* FindSpec(const wire::Assignment& assignment, int64_t ordinal) {
  const auto& specs = assignment.trials();
  const auto spec = std::lower_bound(specs.begin(), specs.end(), ordinal,
                                     [](const wire::TrialSpec& one, int64_t other) { return one.ordinal() < other; });
  return spec != specs.end() && spec->ordinal() == ordinal ? &*spec : nullptr;
}

}  // namespace

const std::string& Claim::ConfigOf(int64_t ordinal) const {
  const wire::TrialSpec* const spec = FindSpec(assignment, ordinal);
  TUNEFARM_CHECK(spec != nullptr);
  return spec->config();
}

bool Claim::Has(int64_t ordinal) const { return FindSpec(assignment, ordinal) != nullptr; }

void Claim::Name(const wire::TrialSpec& spec, int64_t now_ms, Trial* trial) const {
  trial->set_ordinal(spec.ordinal());
  trial->set_purpose(spec.purpose());
  trial->clear_config();
  if (spec.purpose() != tunefarm::v1::TRIAL_PURPOSE_BASELINE) {
    // A config that cannot be read is shown without its values, and stored under its text.
    const absl::StatusOr<Config> config = plan->ConfigFromText(spec.config());
    if (config.ok()) *trial->mutable_config() = plan->ToProto(*config);
  }
  trial->set_problem_key(problem_key);
  trial->set_ended_at_ms(now_ms);
}

Claim Claim::WithoutTrials() const {
  Claim claim;
  static_cast<ClaimFacts&>(claim) = *this;
  wire::Assignment& rest = claim.assignment;
  rest.set_unit_id(unit_id);
  rest.set_token(token);
  rest.set_job_id(job_id);
  rest.set_study_id(study_id);
  rest.set_device_uuid(assignment.device_uuid());
  rest.set_kernel_id(assignment.kernel_id());
  *rest.mutable_problem() = assignment.problem();
  *rest.mutable_policy() = assignment.policy();
  rest.set_interleaved_rounds(assignment.interleaved_rounds());
  rest.set_race_limit_ns(assignment.race_limit_ns());
  return claim;
}

void Claim::EraseTrials(const std::vector<Trial>& trials) {
  std::set<int64_t> ordinals;
  for (const Trial& trial : trials) ordinals.insert(trial.ordinal());
  auto* const open = assignment.mutable_trials();
  open->erase(std::remove_if(open->begin(), open->end(),
                             [&](const wire::TrialSpec& spec) { return ordinals.count(spec.ordinal()) > 0; }),
              open->end());
}

absl::StatusOr<Claim> MakeClaim(const std::string& agent_id, int64_t epoch, const std::string& device_uuid,
                                const ClaimedUnit& claimed, int64_t replacements, KernelRegistry* kernels,
                                const DeviceDirectory& devices) {
  Claim claim;
  claim.replacements = replacements;
  claim.agent_id = agent_id;
  claim.epoch = epoch;
  claim.token = claimed.unit.token;
  claim.job_id = claimed.job_id;
  claim.study_id = claimed.unit.study_id;
  claim.unit_id = claimed.unit.unit_id;
  claim.kind = claimed.unit.kind;
  tunefarm::v1::Job spec;
  wire::Assignment& assignment = claim.assignment;
  if (!spec.ParseFromString(claimed.job_spec) || !assignment.mutable_problem()->ParseFromString(claimed.problem)) {
    return DataLoss("its stored form cannot be read");
  }
  ASSIGN_OR_RETURN(std::vector<wire::TrialSpec> specs, SpecsOfUnit(claimed.unit));
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
  for (wire::TrialSpec& trial : specs) {
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
  if (claim.plan->language() == tunefarm::v1::LANGUAGE_TRITON) {
    claim.poison.toolkit += " triton " + devices.TritonOf(device_uuid);
  }
  claim.poison.class_id = devices.ClassOf(device_uuid);
  if (claim.kind == UnitKind::kSearch) {
    claim.measured_scope = MeasuredScope(claim.poison.program_digest, claim.problem_key, claim.poison.class_id,
                                         claim.poison.toolkit, devices.DriverOf(device_uuid), assignment.policy());
  }
  return claim;
}

std::vector<Trial> OwnTrials(const Claim& claim, const wire::ReportTrialsRequest& report, int64_t now_ms) {
  std::map<int64_t, const wire::TrialSpec*> specs;
  for (const wire::TrialSpec& spec : claim.assignment.trials()) specs[spec.ordinal()] = &spec;
  std::vector<Trial> trials;
  trials.reserve(static_cast<size_t>(report.trials_size()));
  for (const Trial& reported : report.trials()) {
    const auto spec = specs.find(reported.ordinal());
    if (spec == specs.end()) continue;  // stored before, or listed twice
    claim.Name(*spec->second, now_ms, &trials.emplace_back(reported));
    LoseIfNotNumbers(&trials.back());
    specs.erase(spec);
  }
  return trials;
}

absl::StatusOr<ReportVerdict> StoreTrials(Store* store, const Claim& claim, const std::vector<Trial>& trials,
                                          UnitAfter after, int64_t now_ms) {
  ReportRequest report;
  report.agent_id = claim.agent_id;
  report.epoch = claim.epoch;
  report.unit_id = claim.unit_id;
  report.token = claim.token;
  report.unit_done = after == UnitAfter::kDone;
  report.unit_returned = after == UnitAfter::kReturned;
  report.now_ms = now_ms;
  report.replacements = claim.replacements;
  for (const Trial& trial : trials) {
    const std::string& text = claim.ConfigOf(trial.ordinal());
    report.trials.push_back(RowOfTrial(claim.study_id, text, trial));
    if (IsMeasurement(trial)) report.trials.back().measured_key = MeasuredKey(claim.measured_scope, text);
    // A copy is none: the trial that ran is filed.
    if (!trial.reused() && IsVerdict(trial)) report.trials.back().work = WorkKey(claim.measured_scope, trial.work());
  }
  return store->units()->ReportTrials(report);
}

}  // namespace tunefarm
