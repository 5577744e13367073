#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace tunefarm::postgres {

// A study that has READY units.
struct ReadyStudy {
  int64_t study_id = 0, job_id = 0;
  int priority = 0;
  std::string device_selector;  // as StudyRow's
  bool job_is_queued = false;
};

// What this daemon knows of the queue: which studies have units to hand out, behind which one to look for more, and
// whose turn it is among the jobs of one priority. A hint, never the truth: the statement that claims decides. So
// agents do not wait for each other, and each daemon of a farm keeps turns of its own.
//
// A study's cursor is the highest claim order that was handed out: nothing is looked for below it. What comes back to
// the queue gets a new, higher order. Only of a claim that was undone can units lie below; they are found when the
// cursors are forgotten, at most kForgetCursors later.
//
// Thread-safe.
class ClaimBoard {
 public:
  struct Pick {
    int64_t study_id = 0, job_id = 0;
    int priority = 0;
    bool job_is_queued = false;
    int64_t after_seq = 0;
    int64_t trials_left = 0;  // of the job's turn
    uint64_t version = 0;
  };
  // Studies and the claim order above which their units are looked for.
  struct Floors {
    std::vector<int64_t> study_ids, seqs;
  };

  explicit ClaimBoard(Clock* clock) : clock_(clock) {}

  // The study that a device of the class that answers to these names (also the empty one) should be given units of
  // next. None: no study known has any.
  std::optional<Pick> Next(std::string_view class_id, const std::set<std::string_view>& names) LOCKS_EXCLUDED(mutex_);
  // What became of a pick: units of so many trials, or nothing.
  void Claimed(std::string_view class_id, const Pick& pick, int64_t trials, int64_t last_seq) LOCKS_EXCLUDED(mutex_);
  void Missed(std::string_view class_id, const Pick& pick) LOCKS_EXCLUDED(mutex_);

  // Units were added to the study, the first of them with this order.
  void Add(std::string_view class_id, const ReadyStudy& study, int64_t first_seq) LOCKS_EXCLUDED(mutex_);
  // Something else has changed that can make units claimable: everything is read again.
  void Invalidate() LOCKS_EXCLUDED(mutex_);

  // Whether the class must be read again before a claim.
  bool IsStale(std::string_view class_id) LOCKS_EXCLUDED(mutex_);
  struct Reading {
    Floors floors;
    bool is_full = false;
    uint64_t version = 0;
  };
  // Around a reading of the database; `found_nothing`: on behalf of a claim that came back empty.
  Reading BeginReading(std::string_view class_id, bool found_nothing) LOCKS_EXCLUDED(mutex_);
  void EndReading(std::string_view class_id, const Reading& reading, const std::vector<ReadyStudy>& ready)
      LOCKS_EXCLUDED(mutex_);
  // How many readings of the class have begun: one that began after a call did needs not be made for it again.
  uint64_t readings(std::string_view class_id) LOCKS_EXCLUDED(mutex_);

  // Held through a reading: one at a time.
  Mutex* reading_mutex() { return &reading_mutex_; }

 private:
  // The highest priority first, then by job and study.
  using Place = std::tuple<int64_t, int64_t, int64_t>;
  static Place PlaceOf(const ReadyStudy& study) { return {-int64_t{study.priority}, study.job_id, study.study_id}; }
  struct Ready {
    ReadyStudy study;
    uint64_t version = 0;  // when it was last said to have units
  };
  struct Turn {
    int64_t job_id = 0;
    int64_t trials = 0;  // handed out in it
  };
  struct Queue {
    std::map<Place, Ready> ready;
    std::unordered_map<int64_t, int64_t> cursors;  // by study
    std::map<int64_t, Turn> turns;                 // by priority
    bool is_stale = true;
    uint64_t readings = 0;
    MonotonicTime read_at, forgot_at;
  };

  Queue& QueueOf(std::string_view class_id) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static const Ready* FindIn(const Queue& queue, Place from, Place to, const std::set<std::string_view>& names);

  Clock* const clock_;
  Mutex reading_mutex_;
  Mutex mutex_;
  std::map<std::string, Queue, std::less<>> queues_ GUARDED_BY(mutex_);  // by class
  uint64_t version_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tunefarm::postgres
