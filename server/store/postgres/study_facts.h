#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "server/base/mutex.h"

namespace tunefarm::postgres {

// What every unit of a study is handed out with. Never changes.
struct StudyFacts {
  int64_t job_id = 0;
  std::string kernel_id, problem, job_spec;
};

// What is known of studies, so that claims do not read it each time. Thread-safe.
class StudyFactsCache {
 public:
  using Facts = std::shared_ptr<const StudyFacts>;

  // Null: not known.
  Facts Find(int64_t study_id) LOCKS_EXCLUDED(mutex_);
  Facts Keep(int64_t study_id, StudyFacts facts) LOCKS_EXCLUDED(mutex_);
  // Forgets everything, and returns true, if the database's catalog has another id than before: ids of studies may mean
  // others than they did.
  bool Begin(std::string_view catalog_id) LOCKS_EXCLUDED(mutex_);

 private:
  Mutex mutex_;
  std::map<int64_t, Facts> facts_ GUARDED_BY(mutex_);  // by study
  size_t bytes_ GUARDED_BY(mutex_) = 0;
  std::string catalog_id_ GUARDED_BY(mutex_);  // of the database that the facts are of
};

}  // namespace tunefarm::postgres
