#include "server/farm/study_works.h"

#include <iterator>
#include <utility>

namespace tunefarm {

void StudyWorks::Note(int64_t job_id, int64_t study_id, bool is_shared) {
  const auto [noted, is_new] = studies_.try_emplace(study_id, Study{job_id, is_shared, {}});
  if (!is_new) return;
  shared_ += is_shared;
  if (studies_.size() <= kStudiesMax) return;
  const auto oldest = studies_.begin() == noted ? std::next(noted) : studies_.begin();
  shared_ -= oldest->second.is_shared;
  studies_.erase(oldest);
}

void StudyWorks::ShareAll() {
  if (shared_ == studies_.size()) return;
  for (auto& [study_id, study] : studies_) study.is_shared = true;
  shared_ = studies_.size();
}

void StudyWorks::Wait(int64_t study_id, int64_t work, const std::string& agent_id) {
  const auto study = studies_.find(study_id);
  if (study == studies_.end()) return;
  auto& awaited = study->second.awaited;
  if (awaited.size() < kAwaitedPerStudyMax || awaited.count(work) > 0) awaited[work].insert(agent_id);
}

void StudyWorks::Stop(int64_t study_id, int64_t work, const std::string& agent_id) {
  const auto study = studies_.find(study_id);
  if (study == studies_.end()) return;
  const auto agents = study->second.awaited.find(work);
  if (agents == study->second.awaited.end()) return;
  agents->second.erase(agent_id);
  if (agents->second.empty()) study->second.awaited.erase(agents);
}

std::set<std::string> StudyWorks::End(int64_t study_id, int64_t work, const std::string& agent_id) {
  const auto study = studies_.find(study_id);
  if (study == studies_.end()) return {};
  const auto agents = study->second.awaited.find(work);
  if (agents == study->second.awaited.end()) return {};
  std::set<std::string> others = std::move(agents->second);
  study->second.awaited.erase(agents);
  others.erase(agent_id);
  return others;
}

void StudyWorks::ForgetJob(int64_t job_id) {
  std::erase_if(studies_, [&](const auto& entry) {
    const bool is_of_job = entry.second.job_id == job_id;
    shared_ -= is_of_job && entry.second.is_shared;
    return is_of_job;
  });
}

void StudyWorks::Clear() {
  studies_.clear();
  shared_ = 0;
}

}  // namespace tunefarm
