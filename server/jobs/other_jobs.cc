#include "server/jobs/other_jobs.h"

#include <algorithm>

#include "server/base/status_macros.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {
namespace {

constexpr size_t kSearchesAtOnce = 16;

}  // namespace

void OtherJobs::Follow(const JobStateRow& row) {
  if (IsTerminal(row.state)) {
    told_.erase(row.job_id);
    link_->Forget(row.job_id);
    link_->Wake();
    return;
  }
  const auto [told, is_new] = told_.try_emplace(row.job_id, row.state);
  if (!is_new && told->second == row.state) return;
  told->second = row.state;
  if (row.state == JobState::kCancelling) {
    link_->Cancel(row.job_id);
  } else if (row.state == JobState::kPaused) {
    link_->Hold(row.job_id);
  } else {
    link_->Resume(row.job_id);
  }
}

std::vector<int64_t> OtherJobs::Searching(const std::function<bool(int64_t job_id)>& is_own) {
  const std::vector<int64_t> in_hand = link_->JobsInHand();
  std::erase_if(told_, [&](const auto& entry) {
    return std::find(in_hand.begin(), in_hand.end(), entry.first) == in_hand.end();
  });
  std::vector<int64_t> others;
  for (const int64_t job_id : in_hand) {
    if (others.size() == kSearchesAtOnce) break;
    if (!is_own(job_id)) others.push_back(job_id);
  }
  return others;
}

absl::Status OtherJobs::EndSearches(Store* store, ControlLink* link, const std::vector<int64_t>& job_ids) {
  for (const int64_t job_id : job_ids) {
    const auto row = store->jobs()->GetJob(job_id);
    if (absl::IsNotFound(row.status())) continue;
    RETURN_IF_ERROR(row.status());
    for (const StudyRow& study : row->studies) {
      tunefarm::v1::Study summary;
      const bool is_over = study.state != StudyState::kSearching ||
                           (summary.ParseFromString(study.detail) && !summary.search_ended_because().empty());
      if (is_over) link->StopStudySearch(job_id, study.study_id);
    }
  }
  return absl::OkStatus();
}

std::vector<int64_t> OtherJobs::All() const {
  std::vector<int64_t> all;
  for (const auto& [job_id, state] : told_) all.push_back(job_id);
  return all;
}

}  // namespace tunefarm
