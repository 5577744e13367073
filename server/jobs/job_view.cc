#include "server/jobs/job_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/catalog/best_row.h"
#include "server/jobs/job_summary.h"
#include "server/jobs/newer_job.h"
#include "server/jobs/saturating.h"
#include "server/jobs/scheduler.h"
#include "server/records/resource_names.h"
#include "server/records/trial_rows.h"
#include "server/store/best_store.h"
#include "server/store/job_store.h"
#include "server/store/trial_store.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm {
namespace {

// Trials that are read until one is not damaged: it bounds what a call costs on a damaged database.
constexpr int kFastestLookedAtMax = 100;

absl::StatusOr<tunefarm::v1::Job> Described(const JobRow& row) {
  tunefarm::v1::Job job;
  if (!job.ParseFromString(row.spec)) return DataLoss("the stored request of {} cannot be read", JobName(row.job_id));
  job.clear_starting_configs();
  job.set_name(JobName(row.job_id));
  job.set_uid(row.uid);
  job.set_state(ToProto(row.state));
  job.set_created_at_ms(row.created_at_ms);
  job.set_started_at_ms(row.started_at_ms);
  job.set_ended_at_ms(row.ended_at_ms);
  SetReason(row, &job);
  for (const StudyRow& study : row.studies) job.set_device_busy_ms(job.device_busy_ms() + study.device_busy_ms);
  return job;
}

void AddCount(const OutcomeCountRow& count, bool has_finals, tunefarm::v1::Progress* progress) {
  if (count.purpose == tunefarm::v1::TRIAL_PURPOSE_FINALIST) {
    progress->set_finals_done(progress->finals_done() + count.count);
    progress->set_finals_total(progress->finals_done());
    return;
  }
  if (count.purpose == tunefarm::v1::TRIAL_PURPOSE_BASELINE) return;
  progress->set_done(progress->done() + count.count);
  if (has_finals) progress->set_total(progress->done());
  for (auto& slot : *progress->mutable_outcomes()) {
    if (slot.outcome() != count.outcome) continue;
    slot.set_count(slot.count() + count.count);
    return;
  }
  auto* slot = progress->add_outcomes();
  slot->set_outcome(static_cast<tunefarm::v1::Outcome>(count.outcome));
  slot->set_count(count.count);
}

// Of a study that has ended, as it has stored it.
void AddProgress(const tunefarm::v1::Progress& study, tunefarm::v1::Progress* progress) {
  for (const tunefarm::v1::OutcomeCount& count : study.outcomes()) {
    AddCount({0, tunefarm::v1::TRIAL_PURPOSE_SEARCH, count.outcome(), count.count()}, true, progress);
  }
  progress->set_finals_done(progress->finals_done() + study.finals_done());
  progress->set_finals_total(progress->finals_done());
}

// The fastest OK trial of a purpose. One that is damaged in the database is left out, as lists do.
absl::StatusOr<std::optional<tunefarm::v1::Trial>> Fastest(Store* store, const JobRow& row, int number,
                                                           tunefarm::v1::TrialPurpose purpose) {
  TrialQuery query;
  query.job_id = row.job_id;
  query.study_number = number;
  query.order_by_time = true;
  query.outcomes = {tunefarm::v1::OUTCOME_OK};
  query.purpose = purpose;
  query.page.page_size = 1;
  for (int i = 0; i < kFastestLookedAtMax; ++i) {
    ASSIGN_OR_RETURN(const Page<TrialRow> page, store->trials()->ListTrials(query));
    if (page.rows.empty()) return std::nullopt;
    if (absl::StatusOr<tunefarm::v1::Trial> trial = TrialOfRow(page.rows[0]); trial.ok()) {
      trial->set_name(TrialNameOf(row.job_id, number, trial->ordinal()));
      return *std::move(trial);
    }
    if (page.next_page_token.empty()) return std::nullopt;
    query.page.page_token = page.next_page_token;
  }
  return std::nullopt;
}

// The canonical text of the default config.
absl::StatusOr<std::string> DefaultConfigOf(const KernelPlan& plan, const StudyRow& row) {
  tunefarm::v1::Problem problem;
  if (!problem.ParseFromString(row.problem)) return DataLoss("the problem {} cannot be read", row.problem_key);
  ASSIGN_OR_RETURN(const ResolvedProblem resolved, plan.ResolveProblem(problem));
  return plan.DefaultConfig(resolved).ToText();
}

// The default config in the final: what speedups are measured against where the definition declares no baseline.
// Damaged trials are left out.
absl::StatusOr<std::optional<tunefarm::v1::Trial>> DefaultFinalist(Store* store, const std::string& config,
                                                                   const JobRow& job, const StudyRow& row) {
  TrialQuery query;
  query.job_id = job.job_id;
  query.study_number = row.number;
  query.outcomes = {tunefarm::v1::OUTCOME_OK};
  query.purpose = tunefarm::v1::TRIAL_PURPOSE_FINALIST;
  query.page.page_size = 1000;
  ASSIGN_OR_RETURN(const Page<TrialRow> page, store->trials()->ListTrials(query));
  // A final may be measured again, and the last one counts.
  for (auto trial = page.rows.rbegin(); trial != page.rows.rend(); ++trial) {
    if (trial->config != config) continue;
    absl::StatusOr<tunefarm::v1::Trial> found = TrialOfRow(*trial);
    if (!found.ok()) continue;
    found->set_name(TrialNameOf(job.job_id, row.number, found->ordinal()));
    return *std::move(found);
  }
  return std::nullopt;
}

// Where no final has measured it, the default config is found as the first trial of the search: it is, unless others
// were to be tried first. 0: not found.
absl::StatusOr<double> DefaultInSearch(Store* store, const std::string& config, const JobRow& job,
                                       const StudyRow& row) {
  const absl::StatusOr<TrialRow> first = store->trials()->GetTrial(job.job_id, row.number, 0);
  if (absl::IsNotFound(first.status())) return 0;
  RETURN_IF_ERROR(first.status());
  const bool is_it = first->config == config && first->outcome == tunefarm::v1::OUTCOME_OK;
  return is_it ? first->median_ns : 0;
}

// `plan`: null where the definition was deleted; then the default config and the catalog's best are not told apart.
absl::Status FillStudy(Store* store, const KernelPlan* plan, const std::string& kernel_name, const JobRow& job,
                       const StudyRow& row, tunefarm::v1::Study* study) {
  ASSIGN_OR_RETURN(const auto searched, Fastest(store, job, row.number, tunefarm::v1::TRIAL_PURPOSE_SEARCH));
  ASSIGN_OR_RETURN(auto finalist, Fastest(store, job, row.number, tunefarm::v1::TRIAL_PURPOSE_FINALIST));
  ASSIGN_OR_RETURN(auto baseline, Fastest(store, job, row.number, tunefarm::v1::TRIAL_PURPOSE_BASELINE));
  const bool has_library_baseline = baseline.has_value();
  if (plan != nullptr && (!has_library_baseline || study->default_ns() == 0)) {
    ASSIGN_OR_RETURN(const std::string config, DefaultConfigOf(*plan, row));
    ASSIGN_OR_RETURN(const auto by_default, DefaultFinalist(store, config, job, row));
    if (!has_library_baseline) baseline = by_default;
    if (by_default.has_value()) {
      study->set_default_ns(by_default->measurement().median_ns());
    } else if (study->default_ns() == 0) {
      ASSIGN_OR_RETURN(const double default_ns, DefaultInSearch(store, config, job, row));
      study->set_default_ns(default_ns);
    }
  }
  if (study->has_incumbent()) {
    // As its last step stored it: the winner of a final need not have the least time there.
    tunefarm::v1::Trial* incumbent = study->mutable_incumbent();
    incumbent->set_name(TrialNameOf(job.job_id, row.number, incumbent->ordinal()));
    if (incumbent->purpose() == tunefarm::v1::TRIAL_PURPOSE_FINALIST) finalist = *incumbent;
  } else if (finalist.has_value()) {
    *study->mutable_incumbent() = *finalist;
  } else if (searched.has_value()) {
    *study->mutable_incumbent() = *searched;
  }
  if (baseline.has_value()) *study->mutable_baseline() = *baseline;
  if (row.state != StudyState::kEnded || job.state != JobState::kSucceeded || !finalist.has_value())
    return absl::OkStatus();
  if (plan != nullptr) {
    ASSIGN_OR_RETURN(const auto best, store->bests()->FindBest(plan->program_digest(), row.problem_key, row.class_id));
    if (best.has_value() && best->job_id == job.job_id) {
      ASSIGN_OR_RETURN(*study->mutable_best(), BestOfRow(*best));
      return absl::OkStatus();
    }
  }
  // Another job's, or none, is in the catalog: what this one's final measured stands here without a revision.
  tunefarm::v1::BestConfig* own = study->mutable_best();
  own->set_kernel_name(kernel_name);
  own->set_kernel_id(job.kernel_id);
  if (plan != nullptr) own->set_program_digest(plan->program_digest());
  *own->mutable_problem() = study->problem();
  own->set_device_class_id(study->device_class_id());
  own->set_device_class_name(study->device_class_name());
  *own->mutable_config() = finalist->config();
  *own->mutable_measurement() = finalist->measurement();
  own->set_job(JobName(job.job_id));
  own->set_ordinal(finalist->ordinal());
  own->set_promoted_at_ms(finalist->ended_at_ms());
  if (baseline.has_value()) {
    own->set_baseline_ns(baseline->measurement().median_ns());
    const std::string library = plan != nullptr ? plan->kernel().baseline().label() : "baseline";
    own->set_baseline_label(has_library_baseline ? library : "default config");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<tunefarm::v1::Job> FindJob(Store* store, KernelRegistry* kernels, const Scheduler& scheduler,
                                          int64_t job_id) {
  if (auto active = scheduler.Find(job_id)) return *std::move(active);
  const absl::StatusOr<JobRow> row = store->jobs()->GetJob(job_id);
  if (!row.ok()) return WithJobName(row.status(), JobName(job_id));
  return StoredJob(store, kernels, *row);
}

absl::Status WithJobName(const absl::Status& status, std::string_view name) {
  if (!absl::IsNotFound(status)) return status;
  return WithReason(NotFound("there is no job '{}'; it may have been deleted", name), "JOB_NOT_FOUND");
}

void SetReason(const JobRow& row, tunefarm::v1::Job* job) {
  if (row.state == JobState::kFailed) {
    job->set_error(row.state_reason);
  } else {
    job->set_state_reason(row.state_reason);
  }
}

absl::StatusOr<tunefarm::v1::Job> StoredJobSummary(Store* store, KernelRegistry* kernels, const JobRow& row,
                                                   int* look_ups_left) {
  ASSIGN_OR_RETURN(tunefarm::v1::Job job, Described(row));
  std::vector<tunefarm::v1::Study> studies(row.studies.size());
  bool have_ended = true;
  for (size_t i = 0; i < studies.size(); ++i) {
    if (!studies[i].ParseFromString(row.studies[i].detail)) studies[i].Clear();  // what it was is not known
    have_ended = have_ended && studies[i].has_progress();
  }
  if (have_ended) {
    for (const tunefarm::v1::Study& study : studies) AddProgress(study.progress(), job.mutable_progress());
  } else {
    ASSIGN_OR_RETURN(const std::vector<OutcomeCountRow> counts, store->trials()->CountOutcomes(row.job_id));
    for (const OutcomeCountRow& count : counts) AddCount(count, true, job.mutable_progress());
  }
  SummaryOfStudies summary;
  for (size_t i = 0; i < studies.size(); ++i) {
    if (!studies[i].has_progress() && row.studies[i].next_ordinal > 0 && *look_ups_left > 0) {
      --*look_ups_left;
      const absl::StatusOr<std::shared_ptr<const KernelPlan>> plan = kernels->GetById(row.kernel_id);
      // What cannot be looked up is left out.
      FillStudy(store, plan.ok() ? plan->get() : nullptr, job.kernel_name(), row, row.studies[i], &studies[i])
          .IgnoreError();
    }
    summary.Add(studies[i]);
  }
  *job.mutable_summary() = summary.Get(job.progress());
  if (!IsTerminal(row.state) && row.state_reason.empty()) {
    if (const std::string unknown = FirstUnknown(row); !unknown.empty()) {
      job.set_state_reason(fmt::format("only newer daemons drive it: {} is not known here", unknown));
    }
  }
  return job;
}

absl::StatusOr<tunefarm::v1::Job> StoredJob(Store* store, KernelRegistry* kernels, const JobRow& row) {
  int look_ups_left = 0;
  ASSIGN_OR_RETURN(tunefarm::v1::Job job, StoredJobSummary(store, kernels, row, &look_ups_left));
  std::shared_ptr<const KernelPlan> plan;
  if (auto found = kernels->GetById(row.kernel_id); found.ok()) {
    plan = *std::move(found);
  } else if (ReasonOf(found.status()) != "KERNEL_DELETED") {
    return found.status();
  }
  std::optional<std::vector<OutcomeCountRow>> counts;  // of the whole job, once a study needs them
  SummaryOfStudies summary;
  for (const StudyRow& study_row : row.studies) {
    tunefarm::v1::Study* study = job.add_studies();
    if (!study->ParseFromString(study_row.detail)) {
      return DataLoss("{} cannot be read", StudyNameOf(row.job_id, study_row.number));
    }
    study->set_name(StudyNameOf(row.job_id, study_row.number));
    study->set_state(ToProto(study_row.state));
    const bool has_ended = study->has_progress();
    if (has_ended) {
      summary.Add(*study);  // of what it stored, as lists do
    } else {
      if (!counts.has_value()) {
        ASSIGN_OR_RETURN(counts, store->trials()->CountOutcomes(row.job_id));
      }
      // As the scheduler tells it: what is to be tried, and once the search is over what was.
      int64_t total = study->space().valid();
      if (job.budget().max_trials() > 0) total = std::min(total, job.budget().max_trials());
      if (study_row.state == StudyState::kSearching) study->mutable_progress()->set_total(total);
      for (const OutcomeCountRow& count : *counts) {
        if (count.study_id != study_row.study_id) continue;
        AddCount(count, study_row.state != StudyState::kSearching, study->mutable_progress());
      }
    }
    if (study_row.number == 1 && !IsTerminal(row.state)) job.mutable_progress()->set_total(0);
    if (!IsTerminal(row.state)) {
      job.mutable_progress()->set_total(SaturatingAdd(job.progress().total(), study->progress().total()));
    }
    RETURN_IF_ERROR(FillStudy(store, plan.get(), job.kernel_name(), row, study_row, study));
    if (!has_ended) summary.Add(*study);
  }
  *job.mutable_summary() = summary.Get(job.progress());
  return job;
}

}  // namespace tunefarm
