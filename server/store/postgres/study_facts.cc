#include "server/store/postgres/study_facts.h"

#include <utility>

namespace tunefarm::postgres {
namespace {

// Beyond either, everything is read again.
constexpr size_t kFactsMax = 1024;
constexpr size_t kFactsBytesMax = size_t{64} << 20;

}  // namespace

StudyFactsCache::Facts StudyFactsCache::Find(int64_t study_id) {
  MutexLock lock(&mutex_);
  const auto found = facts_.find(study_id);
  return found != facts_.end() ? found->second : nullptr;
}

StudyFactsCache::Facts StudyFactsCache::Keep(int64_t study_id, StudyFacts facts) {
  const size_t bytes = facts.problem.size() + facts.job_spec.size();
  Facts shared = std::make_shared<const StudyFacts>(std::move(facts));
  MutexLock lock(&mutex_);
  if (facts_.size() >= kFactsMax || bytes_ + bytes > kFactsBytesMax) {
    facts_.clear();
    bytes_ = 0;
  }
  if (facts_.emplace(study_id, shared).second) bytes_ += bytes;
  return shared;
}

bool StudyFactsCache::Begin(std::string_view catalog_id) {
  MutexLock lock(&mutex_);
  if (catalog_id == catalog_id_) return false;
  catalog_id_ = catalog_id;
  facts_.clear();
  bytes_ = 0;
  return true;
}

}  // namespace tunefarm::postgres
