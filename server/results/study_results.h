// StudyResults: studies by columns, of those that were asked for last, as far as memory goes. What has ended since is
// read at each call, from the lowest ordinal on that was not stored yet, also of studies that another daemon drives.
// When a database was restored from a backup, its studies are read again from the start.
//
// Thread-safe. One thread of low priority reads, a part of each study in its turn; it starts with the first call. The
// destructor waits for the part that is being read; no call is open then.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/base/thread_pool.h"
#include "server/expression/config.h"
#include "server/results/study_data.h"
#include "server/store/store.h"

namespace tunefarm {

struct StudyResultsOptions {
  size_t bytes_max = size_t{256} << 20;  // of all studies; a larger one is cut
  int part_rows = 10'000;                // rows that are read at a time
  Duration wait = std::chrono::milliseconds(100);
};

// What a caller knows of a study.
struct KnownStudy {
  int64_t job_id = 0;
  int64_t study_id = 0;
  bool is_open = true;         // it may get further trials
  ValueTypeMap types;          // of the parameters, as far as they are known
  std::string default_config;  // as StudyData takes it
};

// What has been read of it.
struct StudyReading {
  const StudyData* data = nullptr;
  int64_t revision = 0;  // changes with every change and whenever the study is read from the start; never 0
  int64_t stored = 0;    // trials of the search but for LOST and unreadable ones, as far as is known
  bool is_cut = false;   // no more of it will be read
  // Not all that had ended before the call was read in time; `stored` may not know of it yet.
  bool is_behind = false;
};

class StudyResults {
 public:
  // All outlive it.
  StudyResults(Store* store, Clock* clock, const StudyResultsOptions& options = {});
  ~StudyResults();
  StudyResults(const StudyResults&) = delete;
  StudyResults& operator=(const StudyResults&) = delete;

  // Reads what is new, waits for that as long as the options say, and calls `answer` with what has been read by then.
  // Calls for one study run `answer` concurrently, but no new rows of the study are read meanwhile: work of more than
  // about 20 ms belongs after the call, not into `answer`. Rows that cannot be read are left out, and logged. The
  // errors of `answer` and of the store.
  absl::Status Read(const KnownStudy& study, const std::function<absl::Status(const StudyReading&)>& answer)
      LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry;

  std::shared_ptr<Entry> Find(const KnownStudy& study) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until what had ended when it was called is read, or the time is over; answers whether it is read.
  absl::StatusOr<bool> Refresh(const KnownStudy& study, const std::shared_ptr<Entry>& entry) LOCKS_EXCLUDED(mutex_);
  void PostPart(const std::shared_ptr<Entry>& entry) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The rest on the thread that reads.
  void ReadPart(const std::shared_ptr<Entry>& entry) LOCKS_EXCLUDED(mutex_);
  // Answers whether it was the last part of the pass.
  absl::StatusOr<bool> AddPart(Entry* entry);
  absl::Status CountStored(Entry* entry);
  // Drops others that nobody waits for. False where this one has to go, since that is not enough: of those that are
  // being read the largest stays, so that each gets its turn in the end.
  bool MakeRoomFor(const Entry& entry) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(const Entry& entry) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Store* const store_;
  Clock* const clock_;
  const StudyResultsOptions options_;

  Mutex mutex_;
  CondVar read_;                                                          // a pass has ended
  std::map<int64_t, std::shared_ptr<Entry>> entries_ GUARDED_BY(mutex_);  // by study id
  int64_t uses_ GUARDED_BY(mutex_) = 0;
  std::unique_ptr<ThreadPool> reader_ GUARDED_BY(mutex_);  // null before the first call, and at the end
};

}  // namespace tunefarm
