#include "server/jobs/job_adoption.h"

#include <algorithm>
#include <utility>

#include "server/base/log.h"
#include "server/base/status_macros.h"
#include "server/records/resource_names.h"

namespace tunefarm {
namespace {

constexpr int kJobsPerPage = 1000;
// Jobs that Some answers at a time.
constexpr size_t kSomeMax = 256;
// Jobs left to newer daemons that are remembered; beyond it they are looked at again.
constexpr size_t kLeftMax = 10'000;

}  // namespace

void JobAdoption::TakeName() {
  is_answer_lost_ = false;
  name_ = node_->Name();
  board_->SetName(name_);
}

bool JobAdoption::WasReplaced() {
  const int64_t replacements = node_->replacements();
  if (replacements == replacements_) return false;
  replacements_ = replacements;
  left_.clear();
  return true;
}

void JobAdoption::Note(const DrivenJob& job, const std::function<void(int64_t)>& adopted) {
  adopted(job.job_id);
  epochs_[job.job_id] = job.driver_epoch;
  board_->Drive(job.job_id);
  LogInfo("jobs", "{} is driven here, epoch {}", JobName(job.job_id), job.driver_epoch);
}

absl::Status JobAdoption::Adopt(const std::function<void(int64_t job_id)>& adopted) {
  if (is_answer_lost_) RETURN_IF_ERROR(FindAdopted(adopted));
  int left = node_->options().adopted_at_once;
  while (left > 0) {
    const int jobs_max = std::min(left, kJobsPerPage);
    const auto jobs = store_->jobs()->AdoptJobs(name_, jobs_max, {left_.begin(), left_.end()});
    if (!jobs.ok()) {
      is_answer_lost_ = true;
      return jobs.status();
    }
    for (const DrivenJob& job : *jobs) Note(job, adopted);
    const auto count = static_cast<int>(jobs->size());
    if (count < jobs_max) break;
    left -= count;
  }
  return absl::OkStatus();
}

absl::Status JobAdoption::FindAdopted(const std::function<void(int64_t)>& adopted) {
  std::string page_token;
  do {
    ASSIGN_OR_RETURN(const Page<JobRow> page, store_->jobs()->ListJobs({JobState::kQueued, JobState::kRunning,
                                                                        JobState::kPaused, JobState::kCancelling},
                                                                       {kJobsPerPage, page_token}));
    std::vector<int64_t> unknown;
    for (const JobRow& row : page.rows) {
      if (epochs_.count(row.job_id) == 0) unknown.push_back(row.job_id);
    }
    ASSIGN_OR_RETURN(const std::vector<JobStateRow> rows, store_->jobs()->JobStates(unknown));
    for (const JobStateRow& row : rows) {
      if (row.driver == name_ && !IsTerminal(row.state)) Note({row.job_id, row.driver_epoch}, adopted);
    }
    page_token = page.next_page_token;
  } while (!page_token.empty());
  is_answer_lost_ = false;
  return absl::OkStatus();
}

absl::Status JobAdoption::LeaveToNewer(int64_t job_id, const std::string& unknown) {
  if (left_.size() >= kLeftMax) left_.clear();
  if (left_.insert(job_id).second) {
    LogWarn("jobs", "{} is left to newer daemons: {} is not known here", JobName(job_id), unknown);
  }
  RETURN_IF_ERROR(store_->jobs()->YieldJob(job_id, epochs_.at(job_id)));
  Forget(job_id);
  return absl::OkStatus();
}

void JobAdoption::Forget(int64_t job_id) {
  epochs_.erase(job_id);
  board_->Leave(job_id);
}

std::optional<int64_t> JobAdoption::EpochOf(int64_t job_id) const {
  const auto own = epochs_.find(job_id);
  return own == epochs_.end() ? std::nullopt : std::make_optional(own->second);
}

bool JobAdoption::IsOwn(const JobStateRow& row) const {
  return row.driver == name_ && EpochOf(row.job_id) == row.driver_epoch;
}

std::vector<int64_t> JobAdoption::All() const {
  std::vector<int64_t> all;
  for (const auto& [job_id, epoch] : epochs_) all.push_back(job_id);
  return all;
}

std::vector<int64_t> JobAdoption::Some(const std::function<bool(int64_t job_id)>& is_wanted) {
  std::vector<int64_t> some;
  auto next = epochs_.upper_bound(some_after_);
  for (; next != epochs_.end() && some.size() < kSomeMax; ++next) {
    some_after_ = next->first;
    if (is_wanted(next->first)) some.push_back(next->first);
  }
  if (next == epochs_.end()) some_after_ = 0;
  return some;
}

}  // namespace tunefarm
