#include "server/jobs/study_loader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/prior_choice.h"
#include "server/records/resource_names.h"
#include "server/records/trial_rows.h"
#include "server/space/space_limit.h"
#include "server/store/device_store.h"
#include "server/store/study_store.h"
#include "server/store/trial_store.h"

namespace tunefarm {

using tunefarm::v1::Trial;

namespace {

// Of a history, which may be of millions of trials: a few MiB.
constexpr int kHistoryEventsAtOnce = 128;

}  // namespace

absl::StatusOr<std::shared_ptr<const StudyLoader>> StudyLoader::Create(
    const Tools& tools, const JobRow& row, std::shared_ptr<const std::atomic<bool>> is_given_up) {
  std::shared_ptr<StudyLoader> loader(new StudyLoader(tools, row, std::move(is_given_up)));
  if (!loader->spec_.ParseFromString(row.spec)) {
    return DataLoss("the stored request of {} cannot be read", JobName(row.job_id));
  }
  ASSIGN_OR_RETURN(const std::vector<DeviceClassRow> classes, tools.store->devices()->ListDeviceClasses());
  for (const DeviceClassRow& stored : classes) {
    const bool is_wanted = std::any_of(row.studies.begin(), row.studies.end(),
                                       [&](const StudyRow& study) { return study.class_id == stored.class_id; });
    if (!is_wanted) continue;
    tunefarm::v1::DeviceClass proto;
    if (!proto.ParseFromString(stored.properties)) return DataLoss("device class {} cannot be read", stored.class_id);
    ASSIGN_OR_RETURN(loader->classes_[stored.class_id], DeviceClass::FromProto(proto));
  }
  return loader;
}

std::shared_ptr<WorkLimit> StudyLoader::NewLimit() const {
  return MakeSpaceLimit(spec_.kernel_name(), {.processor_time = kTaskTime,
                                              .is_cancelled = [given_up = is_given_up_] { return given_up->load(); }});
}

absl::StatusOr<StudyContext> StudyLoader::ContextOf(const StudyRow& row) const {
  StudyContext context;
  context.job_id = job_id_;
  context.spec = spec_;
  // Studies live as long as the job: of what is tried first each keeps its own.
  auto* const starting = context.spec.mutable_starting_configs();
  starting->erase(std::remove_if(starting->begin(), starting->end(),
                                 [&](const tunefarm::v1::StartingConfig& one) {
                                   // A study for each problem, and again for each further class.
                                   return one.problem_index() != (row.number - 1) % spec_.problems_size();
                                 }),
                  starting->end());
  ASSIGN_OR_RETURN(context.plan, tools_.kernels->GetById(kernel_id_));
  tunefarm::v1::Problem problem;
  tunefarm::v1::Study summary;
  if (!problem.ParseFromString(row.problem) || !summary.ParseFromString(row.detail)) {
    return DataLoss("{} cannot be read", StudyNameOf(job_id_, row.number));
  }
  ASSIGN_OR_RETURN(ResolvedProblem resolved, context.plan->ResolveProblem(problem));
  context.problem = std::make_shared<const ResolvedProblem>(std::move(resolved));
  context.size = summary.space();
  context.flops = summary.flops();
  context.bytes = summary.bytes();
  context.floor_ns = summary.floor_ns();
  context.row = row;
  const auto device_class = classes_.find(row.class_id);
  if (device_class == classes_.end()) {
    return DataLoss("device class {} of {} is not stored", row.class_id, StudyNameOf(job_id_, row.number));
  }
  context.device_class = device_class->second;
  return context;
}

absl::StatusOr<std::unique_ptr<Study>> StudyLoader::Load(const StudyRow& row, std::shared_ptr<WorkLimit> limit) const {
  ASSIGN_OR_RETURN(StudyContext context, ContextOf(row));
  std::unique_ptr<Study> study = Study::Create(std::move(context));
  const bool has_begun = row.next_ordinal > 0;
  // It has no history. Where another step of it is stored meanwhile, the row and with it the study are out of date.
  if (!has_begun) return study;
  if (row.state != StudyState::kEnded) {
    ChosenPriors priors;  // as they were chosen then
    ASSIGN_OR_RETURN(priors.rows, tools_.store->studies()->LoadPriors(row.study_id));
    RETURN_IF_ERROR(study->Begin(priors, limit));
    limit->Begin(Duration::max());  // a history takes its time, but may be given up
  }
  int64_t after_sequence = 0;
  while (true) {
    ASSIGN_OR_RETURN(const StudyHistory part,
                     tools_.store->studies()->LoadHistory(row.study_id, after_sequence, kHistoryEventsAtOnce));
    if (part.events.empty()) break;
    after_sequence = part.events.back().sequence;
    const absl::Status replayed = study->Replay(part, [&](int64_t ordinal) -> absl::StatusOr<Trial> {
      ASSIGN_OR_RETURN(const TrialRow trial, tools_.store->trials()->GetTrial(job_id_, row.number, ordinal));
      return TrialOfRow(trial);
    });
    RETURN_IF_ERROR(limit->Why());  // no config is of a space whose work has been given up
    RETURN_IF_ERROR(replayed);
  }
  if (study->state() == StudyState::kEnded) {
    const auto best = tools_.catalog->Find(study->context().plan->program_digest(), row.problem_key, row.class_id);
    if (best != nullptr && best->job() == JobName(job_id_)) study->SetBest(*best);
  }
  return study;
}

absl::StatusOr<std::unique_ptr<Study>> StudyLoader::LoadAgain(int64_t study_id,
                                                              std::shared_ptr<WorkLimit> limit) const {
  ASSIGN_OR_RETURN(const JobRow row, tools_.store->jobs()->GetJob(job_id_));
  for (const StudyRow& study : row.studies) {
    if (study.study_id == study_id) return Load(study, std::move(limit));
  }
  return DataLoss("study {} of {} is not stored", study_id, JobName(job_id_));
}

absl::StatusOr<std::unique_ptr<Study>> StudyLoader::Begin(StudyContext context,
                                                          std::shared_ptr<WorkLimit> limit) const {
  ChosenPriors priors;
  if (UsesPriors(context.spec)) {
    PriorQuestion question;
    question.study_id = context.row.study_id;
    question.plan = context.plan.get();
    question.problem = context.problem.get();
    question.device_class = &context.device_class;
    question.class_id = context.row.class_id;
    question.toolkit = context.row.toolkit;
    ASSIGN_OR_RETURN(priors, ChoosePriors(question, tools_.store));
    for (const auto& source : priors.summaries) {
      LogInfo("jobs", "{} starts from {} results: {}", StudyNameOf(context.job_id, context.row.number),
              source.measured() + source.failed(),
              source.difference().empty() ? "the same problem" : source.difference());
    }
  }
  std::unique_ptr<Study> study = Study::Create(std::move(context));
  RETURN_IF_ERROR(study->Begin(priors, std::move(limit)));
  return study;
}

}  // namespace tunefarm
