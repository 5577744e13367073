// What the driver does as one of several: it adopts jobs that nobody drives, drops those that another node took
// over, and looks in the store for what happened through other daemons.

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/driver.h"
#include "server/records/resource_names.h"
#include "server/records/trial_rows.h"

namespace tunefarm {

using tunefarm::v1::Trial;

namespace {

// Of jobs that wait here and need little more than their ids: so many are asked about at a time.
constexpr size_t kWaitingAtOnce = 256;
// Studies whose results are asked for at a time, and units of each.
constexpr size_t kStudiesAtOnce = 16;
constexpr int kUnitsAtOnce = 64;
constexpr size_t kSearchesAtOnce = 16;
// Of a study whose results all came through this daemon, so far.
constexpr Duration kAskPauseFirst = std::chrono::milliseconds(200);
constexpr Duration kAskPauseMax = std::chrono::seconds(2);
constexpr int kJobsPerPage = 1000;

}  // namespace

bool Driver::MayDrive() const { return !name_.empty() && deps_.node->Name() == name_; }

bool Driver::HoldsEpoch(int64_t job_id, int64_t epoch) const {
  const auto own = epochs_.find(job_id);
  return own != epochs_.end() && own->second == epoch;
}

bool Driver::KeepName() {
  std::string name = deps_.node->Name();
  if (name != name_) {
    std::vector<int64_t> all;
    for (const auto& [job_id, epoch] : epochs_) all.push_back(job_id);
    if (!all.empty()) LogWarn("jobs", "{} jobs are left to other nodes", all.size());
    for (int64_t job_id : all) Drop(job_id);
    adoption_unknown_ = false;
    name_ = std::move(name);
    const int64_t replacements = deps_.node->replacements();
    if (replacements != replacements_) {
      replacements_ = replacements;
      told_link_.clear();
      left_alone_.clear();
      deps_.link->BeginAgain();
    }
  }
  return !name_.empty();
}

void Driver::Drop(int64_t job_id) {
  if (Active* job = FindActive(job_id)) {
    LogInfo("jobs", "{} is no longer driven here", JobName(job_id));
    deps_.executor->Cancel(job->time_timer);
    deps_.executor->Cancel(job->retry_timer);
    for (const auto& [study_id, study] : job->studies) job_of_study_.erase(study_id);
    jobs_.erase(job_id);
  }
  epochs_.erase(job_id);
  MakeRoom(job_id);
}

void Driver::NoteAdopted(const DrivenJob& job) {
  if (epochs_.count(job.job_id) > 0) Drop(job.job_id);
  epochs_[job.job_id] = job.driver_epoch;
  LogInfo("jobs", "{} is driven here, epoch {}", JobName(job.job_id), job.driver_epoch);
  Adopt(job.job_id);
}

absl::Status Driver::AdoptOrphans() {
  MutexLock lock(&mutex_);
  if (stopped_ || !KeepName()) return absl::OkStatus();
  if (adoption_unknown_) RETURN_IF_ERROR(FindAdopted());
  int left = deps_.node->options().adopted_at_once;
  while (left > 0) {
    const int jobs_max = std::min(left, kJobsPerPage);
    const auto adopted = deps_.store->AdoptJobs(name_, jobs_max, {left_alone_.begin(), left_alone_.end()});
    if (!adopted.ok()) {
      adoption_unknown_ = true;
      return adopted.status();
    }
    for (const DrivenJob& job : *adopted) NoteAdopted(job);
    const auto count = static_cast<int>(adopted->size());
    if (count < jobs_max) break;
    left -= count;
  }
  return absl::OkStatus();
}

absl::Status Driver::FindAdopted() {
  std::string page_token;
  do {
    ASSIGN_OR_RETURN(const Page<JobRow> page, deps_.store->ListJobs({JobState::kQueued, JobState::kRunning,
                                                                     JobState::kPaused, JobState::kCancelling},
                                                                    {kJobsPerPage, page_token}));
    std::vector<int64_t> unknown;
    for (const JobRow& row : page.rows) {
      if (epochs_.count(row.job_id) == 0) unknown.push_back(row.job_id);
    }
    ASSIGN_OR_RETURN(const std::vector<JobStateRow> rows, deps_.store->JobStates(unknown));
    for (const JobStateRow& row : rows) {
      if (row.driver == name_ && !IsTerminal(row.state)) NoteAdopted({row.job_id, row.driver_epoch});
    }
    page_token = page.next_page_token;
  } while (!page_token.empty());
  adoption_unknown_ = false;
  return absl::OkStatus();
}

bool Driver::Drives(int64_t job_id) const {
  MutexLock lock(&mutex_);
  return epochs_.count(job_id) > 0;
}

bool Driver::is_busy() const {
  MutexLock lock(&mutex_);
  return !jobs_.empty() || !told_link_.empty();
}

void Driver::AgentsChanged() {
  Post([](Driver* self) {
    MutexLock lock(&self->mutex_);
    std::vector<int64_t> cancelling(self->parked_.begin(), self->parked_.end());
    std::erase_if(cancelling, [&](int64_t job_id) { return self->FindActive(job_id) != nullptr; });
    for (const auto& [job_id, job] : self->jobs_) {
      if (job->row.state == JobState::kCancelling) cancelling.push_back(job_id);
    }
    for (const int64_t job_id : cancelling) self->FinishCancel(job_id);
  });
  TellWaiting();
}

// All that are at work here or with agents here, and a part of those that wait.
std::vector<int64_t> Driver::FollowedJobs() {
  std::vector<int64_t> ids = deps_.link->JobsInHand();
  for (const auto& [job_id, job] : jobs_) ids.push_back(job_id);
  for (const auto& [job_id, state] : told_link_) ids.push_back(job_id);
  size_t waiting = 0;
  auto next = epochs_.upper_bound(states_after_);
  while (next != epochs_.end() && waiting < kWaitingAtOnce) {
    states_after_ = next->first;
    if (jobs_.count(next->first) == 0) {
      ids.push_back(next->first);
      ++waiting;
    }
    ++next;
  }
  if (next == epochs_.end()) states_after_ = 0;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

absl::Status Driver::Follow() {
  MutexLock lock(&mutex_);
  if (stopped_) return absl::OkStatus();
  KeepName();
  const std::vector<int64_t> ids = FollowedJobs();
  if (ids.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<JobStateRow> rows, deps_.store->JobStates(ids));
  std::set<int64_t> gone(ids.begin(), ids.end());
  for (const JobStateRow& row : rows) {
    gone.erase(row.job_id);
    const auto own = epochs_.find(row.job_id);
    if (own != epochs_.end() && own->second == row.driver_epoch && row.driver == name_) {
      FollowOwn(row);
      continue;
    }
    if (own != epochs_.end()) Drop(row.job_id);
    FollowOther(row);
  }
  for (int64_t job_id : gone) {  // deleted
    if (epochs_.count(job_id) > 0) Drop(job_id);
    told_link_.erase(job_id);
    deps_.link->Forget(job_id);
  }
  FreeFinals();
  return FollowResults();
}

void Driver::FollowOwn(const JobStateRow& row) {
  Active* job = FindActive(row.job_id);
  if (job == nullptr) {
    FollowWaiting(row);
    return;
  }
  if (IsTerminal(row.state)) {  // stored by a call whose answer was lost
    Ended(row.job_id, row.state, row.error);
    return;
  }
  const JobState before = job->row.state;
  if (row.state == before) {
    if (row.state == JobState::kCancelling && row.claimed_units == 0) FinishCancel(row.job_id);
    return;
  }
  if (row.state == JobState::kRunning && before == JobState::kQueued) {
    Begin(*job);
    return;
  }
  LogInfo("jobs", "{} became {} through another daemon", JobName(row.job_id), NameOf(row.state));
  job->row.state = row.state;
  job->row.error = row.error;
  PublishJob(*job);
  if (row.state == JobState::kCancelling) {
    deps_.link->Cancel(row.job_id);
    FinishCancel(row.job_id);
  } else if (row.state == JobState::kPaused) {
    deps_.link->Hold(row.job_id);
    backlog_.Remove(row.job_id);
    DriveNext();
  } else {
    deps_.link->Resume(row.job_id);
    Admit(job->row);
    Post([job_id = row.job_id](Driver* self) {
      MutexLock lock(&self->mutex_);
      self->Step(job_id);
    });
  }
}

// It is held as an id only, or is being loaded, after which its state is read again.
void Driver::FollowWaiting(const JobStateRow& row) {
  if (IsTerminal(row.state)) {
    Ended(row.job_id, row.state, row.error);
    return;
  }
  if (!backlog_.IsWaiting(row.job_id) && parked_.count(row.job_id) == 0) return;
  switch (row.state) {
    case JobState::kCancelling:
      FinishCancel(row.job_id);
      return;
    case JobState::kPaused:
      backlog_.Remove(row.job_id);
      parked_.insert(row.job_id);
      return;
    default:
      if (parked_.erase(row.job_id) > 0) Adopt(row.job_id);
  }
}

void Driver::FollowOther(const JobStateRow& row) {
  if (IsTerminal(row.state)) {
    told_link_.erase(row.job_id);
    deps_.link->Forget(row.job_id);
    deps_.link->Wake();
    return;
  }
  const auto [told, is_new] = told_link_.try_emplace(row.job_id, row.state);
  if (!is_new && told->second == row.state) return;
  told->second = row.state;
  if (row.state == JobState::kCancelling) {
    deps_.link->Cancel(row.job_id);
  } else if (row.state == JobState::kPaused) {
    deps_.link->Hold(row.job_id);
  } else {
    deps_.link->Resume(row.job_id);
  }
}

absl::Status Driver::FollowSearches() {
  std::vector<int64_t> others;
  {
    MutexLock lock(&mutex_);
    if (stopped_) return absl::OkStatus();
    const std::vector<int64_t> in_hand = deps_.link->JobsInHand();
    // What agents here hold nothing of any more needs no further question.
    std::erase_if(told_link_, [&](const auto& entry) {
      return std::find(in_hand.begin(), in_hand.end(), entry.first) == in_hand.end();
    });
    for (int64_t job_id : in_hand) {
      if (epochs_.count(job_id) == 0 && others.size() < kSearchesAtOnce) others.push_back(job_id);
    }
  }
  for (int64_t job_id : others) {
    const auto row = deps_.store->GetJob(job_id);
    if (absl::IsNotFound(row.status())) continue;
    RETURN_IF_ERROR(row.status());
    for (const StudyRow& study : row->studies) {
      tunefarm::v1::Study summary;
      const bool is_over = study.state != StudyState::kSearching ||
                           (summary.ParseFromString(study.space_summary) && !summary.search_ended_because().empty());
      if (is_over) deps_.link->StopStudySearch(job_id, study.study_id);
    }
  }
  return absl::OkStatus();
}

absl::Status Driver::FollowResults() {
  std::vector<std::pair<int64_t, int64_t>> studies;  // and their jobs
  const MonotonicTime now = deps_.executor->clock()->Now();
  for (const auto& [job_id, job] : jobs_) {
    if (job->row.state == JobState::kPaused || job->retry_timer != 0) continue;
    for (const auto& [study_id, study] : job->studies) {
      const auto asked = job->asked.find(study_id);
      if (asked != job->asked.end() && now < asked->second.at + asked->second.pause) continue;
      if (study->HasOpenUnits() && job->broken.count(study_id) == 0) studies.emplace_back(study_id, job_id);
    }
  }
  // Round by round, each its turn.
  std::sort(studies.begin(), studies.end());
  const auto first = std::upper_bound(studies.begin(), studies.end(), std::make_pair(results_after_, INT64_MAX));
  std::rotate(studies.begin(), first, studies.end());
  if (studies.size() > kStudiesAtOnce) studies.resize(kStudiesAtOnce);
  for (const auto& [study_id, job_id] : studies) {
    results_after_ = study_id;
    Active* job = FindActive(job_id);
    if (job == nullptr) continue;  // a step for an earlier one has ended it
    ASSIGN_OR_RETURN(const bool is_known, TakeDone(*job, *job->studies.at(study_id)));
    if (!is_known) job->broken.insert(study_id);
    if (!is_known || job->studies.at(study_id)->HasDoneUnits()) Step(job_id);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Driver::TakeDone(Active& job, Study& study) {
  const StudyRow& row = study.context().row;
  // Not again what is known: a busy study's results would be read twice.
  std::vector<int64_t> known(study.done_units().begin(), study.done_units().end());
  {
    MutexLock lock(&arriving_mutex_);
    known.insert(known.end(), arriving_.begin(), arriving_.end());
  }
  ASSIGN_OR_RETURN(const StudyHistory done, deps_.store->LoadDone(row.study_id, kUnitsAtOnce, known));
  bool is_news = false;
  for (const UnitRow& unit : done.units) {
    if (study.IsDone(unit.unit_id) || IsArriving(unit.unit_id)) continue;
    is_news = true;
    // Proposed by a step whose answer was lost.
    if (!study.HasUnit(unit.unit_id)) return false;
    auto ended = std::lower_bound(done.trials.begin(), done.trials.end(), unit.first_ordinal,
                                  [](const TrialRow& trial, int64_t ordinal) { return trial.ordinal < ordinal; });
    std::vector<Trial> trials;
    for (; ended != done.trials.end() && ended->ordinal < unit.first_ordinal + unit.trial_count; ++ended) {
      if (unit.kind == UnitKind::kFinals) {  // judged by its samples
        ASSIGN_OR_RETURN(const TrialRow whole, deps_.store->GetTrial(job.row.job_id, row.number, ended->ordinal));
        ASSIGN_OR_RETURN(Trial trial, TrialOfRow(whole));
        trials.push_back(std::move(trial));
        continue;
      }
      Trial trial;
      if (!trial.ParseFromString(ended->detail)) {
        return DataLoss("{} cannot be read", TrialNameOf(job.row.job_id, row.number, ended->ordinal));
      }
      trials.push_back(std::move(trial));
    }
    AddTrials(job, study, unit.unit_id, std::move(trials));
    study.UnitDone(unit.unit_id);
  }
  Asked& asked = job.asked[row.study_id];
  asked.at = deps_.executor->clock()->Now();
  asked.pause = is_news ? Duration::zero() : std::min(kAskPauseMax, asked.pause * 2 + kAskPauseFirst);
  return true;
}

bool Driver::IsArriving(int64_t unit_id) {
  MutexLock lock(&arriving_mutex_);
  return arriving_.count(unit_id) > 0;
}

}  // namespace tunefarm
