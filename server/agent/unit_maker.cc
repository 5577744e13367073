#include "server/agent/unit_maker.h"

#include <algorithm>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/data_file.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

namespace {

constexpr size_t kReferencesMax = 16;
constexpr size_t kTrialsPerUnitMax = 64;

// Whether the sequences that run once per problem have code of the definition's own, and so need a binary.
bool NeedsReferenceBinary(const KernelPlan& plan, bool baseline) {
  return !plan.Entries(Sequence::kReference).empty() || !plan.Entries(Sequence::kPreparePerProblem).empty() ||
         (baseline && !plan.Entries(Sequence::kBaseline).empty());
}

}  // namespace

absl::StatusOr<std::unique_ptr<UnitWork>> UnitMaker::Make(const wire::Assignment& assignment) {
  if (assignment.trials_size() > static_cast<int>(kTrialsPerUnitMax)) {
    return Internal("it has {} trials, more than {}", assignment.trials_size(), kTrialsPerUnitMax);
  }
  auto unit = std::make_unique<UnitWork>();
  unit->assignment = assignment;
  ASSIGN_OR_RETURN(unit->plan, plans_.Get(assignment.kernel_id()));
  ASSIGN_OR_RETURN(ResolvedProblem problem, unit->plan->ResolveProblem(assignment.problem()));
  unit->problem = std::make_shared<const ResolvedProblem>(std::move(problem));
  bool baseline = false;
  for (const wire::TrialSpec& spec : assignment.trials()) {
    TrialWork trial;
    trial.spec = spec;
    trial.baseline = spec.purpose() == tunefarm::v1::TRIAL_PURPOSE_BASELINE;
    baseline = baseline || trial.baseline;
    if (!trial.baseline) {
      ASSIGN_OR_RETURN(trial.config, unit->plan->ConfigFromText(spec.config()));
    }
    unit->trials.push_back(std::move(trial));
  }
  unit->reference = ReferenceFor(*unit, baseline);
  unit->data_files = DataFilesFor(*unit->plan);
  return unit;
}

std::shared_ptr<ReferenceWork> UnitMaker::ReferenceFor(const UnitWork& unit, bool baseline) {
  if (!NeedsReferenceBinary(*unit.plan, baseline)) return nullptr;
  const std::string key = unit.plan->kernel_id() + " " + unit.problem->key + " " + unit.assignment.device_uuid();
  const auto found =
      std::find_if(references_.begin(), references_.end(), [&](const auto& slot) { return slot.first == key; });
  std::shared_ptr<ReferenceWork> reference;
  if (found != references_.end()) {
    reference = found->second;
    references_.erase(found);
  }
  // What the machinery lost says nothing; a later unit tries again.
  const bool lost = reference != nullptr && reference->state == ReferenceWork::State::kFailed &&
                    reference->result.outcome == tunefarm::v1::OUTCOME_LOST;
  if (reference == nullptr || lost) reference = std::make_shared<ReferenceWork>();
  references_.emplace_back(key, reference);
  if (references_.size() > kReferencesMax) references_.erase(references_.begin());
  return reference;
}

std::shared_ptr<DataFilesWork> UnitMaker::DataFilesFor(const KernelPlan& plan) {
  if (DataFilesOf(plan.kernel()).empty()) return nullptr;
  std::erase_if(data_files_, [](const auto& slot) { return slot.second.expired(); });
  std::weak_ptr<DataFilesWork>& slot = data_files_[plan.kernel_id()];
  std::shared_ptr<DataFilesWork> files = slot.lock();
  // What failed may have been uploaded since.
  if (files == nullptr || files->state == DataFilesWork::State::kFailed) files = std::make_shared<DataFilesWork>();
  slot = files;
  return files;
}

}  // namespace tunefarm
