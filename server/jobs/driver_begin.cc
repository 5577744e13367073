// How the driver lets studies begin: one after another, each with what is known by then.

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/driver.h"
#include "server/records/resource_names.h"

namespace tunefarm {
namespace {

// The next study of a job begins when those at work leave fewer open trials per device: a quarter of what one tries, so
// that most of it is known by then, but enough for compilers and devices until the new one has proposed.
constexpr int64_t kOpenAtBeginMin = 8, kOpenAtBeginMax = 32;

int64_t OpenAtBegin(const StudyContext& study, int devices) {
  int64_t trials = study.size.valid();
  const int64_t budget = study.spec.budget().max_trials();
  if (budget > 0) trials = std::min(trials, budget);
  return std::clamp(trials / 4, kOpenAtBeginMin * devices, kOpenAtBeginMax * devices);
}

}  // namespace

void Driver::BeginNext(Active& job) {
  if (job.beginning != 0 || job.row.state == JobState::kPaused || job.row.state == JobState::kCancelling ||
      IsTerminal(job.row.state) || !job.stop_because.empty() || job.retry_timer != 0 || stopped_) {
    return;
  }
  // Devices of one class take no work of another one's studies.
  std::map<std::string, int64_t> open;
  for (const auto& [study_id, study] : job.studies) {
    if (study->has_begun()) open[study->context().row.class_id] += study->open_trials();
  }
  const Study* next = nullptr;
  std::set<std::string> waiting;
  for (const auto& [study_id, study] : job.studies) {
    const StudyRow& row = study->context().row;
    if (study->has_begun() || job.broken.count(study_id) > 0 || !waiting.insert(row.class_id).second) continue;
    const int devices = std::max(1, deps_.devices->CountReady(row.class_id, row.device_uuid));
    if (open[row.class_id] >= OpenAtBegin(study->context(), devices)) continue;
    next = study.get();
    break;
  }
  if (next == nullptr) return;
  const StudyRow& row = next->context().row;
  job.beginning = row.study_id;
  Post([job_id = job.row.job_id, study_id = row.study_id](Driver* self) { self->BeginStudy(job_id, study_id); });
}

void Driver::BeginStudy(int64_t job_id, int64_t study_id) {
  StudyContext context;
  {
    MutexLock lock(&mutex_);
    Active* job = FindActive(job_id);
    if (job == nullptr || stopped_) return;
    context = job->studies.at(study_id)->context();
  }
  auto begun = Begun(std::move(context));

  MutexLock lock(&mutex_);
  Active* job = FindActive(job_id);
  if (job == nullptr || stopped_) return;
  job->beginning = 0;
  if (!begun.ok()) {
    // Somebody wanted its end meanwhile, which waits for what is in hand: that is what it ends with.
    if (job->row.state != JobState::kCancelling) OnStepError(*job, study_id, begun.status());
    return;
  }
  std::unique_ptr<Study>& slot = job->studies.at(study_id);
  // Whatever has happened to it meanwhile is stored, and only what has not begun may be replaced.
  if (!slot->has_begun() && job->broken.count(study_id) == 0) slot = *std::move(begun);
  Step(job_id);
}

absl::StatusOr<std::unique_ptr<Study>> Driver::Begun(StudyContext context) {
  ChosenPriors priors;
  if (UsesPriors(context.spec)) {
    PriorQuestion question;
    question.study_id = context.row.study_id;
    question.plan = context.plan.get();
    question.problem = context.problem.get();
    question.device_class = &context.device_class;
    question.class_id = context.row.class_id;
    question.toolkit = context.row.toolkit;
    ASSIGN_OR_RETURN(priors, ChoosePriors(question, deps_.store));
    for (const auto& source : priors.summaries) {
      LogInfo("jobs", "{} starts from {} results: {}", StudyNameOf(context.job_id, context.row.number),
              source.measured() + source.failed(),
              source.difference().empty() ? "the same problem" : source.difference());
    }
  }
  std::unique_ptr<Study> study = Study::Create(std::move(context));
  RETURN_IF_ERROR(study->Begin(priors));
  return study;
}

}  // namespace tunefarm
