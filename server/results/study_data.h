// What has been read of the trials of a study: those of its search by columns, and what charts say of the others.
//
// Threads: not thread-safe; const use from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/analysis/study_columns.h"
#include "server/store/trial_store.h"

namespace tunefarm {

class StudyData {
 public:
  // `types` of the parameters, as far as they are known; `default_config` as its canonical text, or empty.
  explicit StudyData(ValueTypeMap types = {}, std::string default_config = {})
      : columns_(std::move(types)), default_config_(std::move(default_config)) {}

  // Trials come in passes, each with the trials from first_open() on, in the order of their ordinals. DataLoss for a
  // row that cannot be read, and the errors of StudyColumns::Add: the row is left out and counted in unreadable().
  void BeginPass();
  absl::Status Add(const TrialColumns& row);
  // After some were added, before anything is read.
  void Settle() { columns_.Settle(); }

  // Trials of the search that were left out because they cannot be read.
  int64_t unreadable() const { return unreadable_; }
  // All trials with lower ordinals have been added.
  int64_t first_open() const { return first_open_; }
  // Grows with each trial that was added and changes what charts show.
  int64_t changes() const { return changes_; }
  size_t bytes() const { return columns_.bytes() + sizeof(int64_t) * (ahead_.capacity() + known_.capacity()); }

  // Trials of the search but for LOST ones; outcomes are v1::Outcome.
  const StudyColumns& columns() const { return columns_; }
  // Medians in nanoseconds; 0: none. Of the default config its time in the last final if it has one, else in the
  // search.
  double default_ns() const { return default_final_ns_ > 0 ? default_final_ns_ : default_search_ns_; }
  double baseline_ns() const { return baseline_ns_; }
  double final_ns() const { return final_ns_; }  // the least of the final
  // When the study began. `job_started_ms` of a job that has this study alone; else 0, and the study begins with its
  // first trial. 0 before the first trial ended.
  int64_t StartMs(int64_t job_started_ms) const;

 private:
  absl::Status AddToColumns(const TrialColumns& row, double objective_ns);

  StudyColumns columns_;
  std::string default_config_;
  double default_final_ns_ = 0, default_search_ns_ = 0, baseline_ns_ = 0, final_ns_ = 0;
  int64_t first_began_ms_ = 0;  // 0: none has ended
  int64_t changes_ = 0;
  int64_t unreadable_ = 0;

  int64_t first_open_ = 0;
  // Ordinals above first_open_ that were added, ascending: in this pass, and before it.
  std::vector<int64_t> ahead_, known_;
  size_t known_at_ = 0;  // those of known_ before it are lower than the last ordinal of this pass
};

}  // namespace tunefarm
