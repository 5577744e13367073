// Turn: the right to step the jobs that are driven here. One thread has it at a time, also across calls of the store.
// TakeFirst is for orders of people, such as a cancel: it precedes all threads in Take, and has a time limit.
//
// Not recursive. Taken and given by the same thread; thread-safe.
#pragma once

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace tunefarm {

class LOCKABLE Turn {
 public:
  // Waits as long as it takes.
  void Take() EXCLUSIVE_LOCK_FUNCTION() {
    MutexLock lock(&mutex_);
    while (is_taken_ || first_ > 0) changed_.Wait(&mutex_);
    is_taken_ = true;
  }
  // Before all that Take lets wait. False: not within `limit` of real time.
  bool TakeFirst(Duration limit) EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    const MonotonicTime end = Clock::Real()->Now() + limit;
    MutexLock lock(&mutex_);
    ++first_;
    while (is_taken_) {
      const Duration left = end - Clock::Real()->Now();
      if (left <= Duration::zero()) break;
      changed_.WaitFor(&mutex_, left);
    }
    --first_;
    const bool is_mine = !is_taken_;
    if (is_mine) is_taken_ = true;
    changed_.NotifyAll();
    return is_mine;
  }
  void Give() UNLOCK_FUNCTION() {
    MutexLock lock(&mutex_);
    TUNEFARM_CHECK(is_taken_);
    is_taken_ = false;
    changed_.NotifyAll();
  }
  // Whether somebody waits in TakeFirst.
  bool IsWanted() const {
    MutexLock lock(&mutex_);
    return first_ > 0;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool is_taken_ GUARDED_BY(mutex_) = false;
  int first_ GUARDED_BY(mutex_) = 0;  // threads in TakeFirst
};

class SCOPED_LOCKABLE TurnLock {
 public:
  explicit TurnLock(Turn* turn) EXCLUSIVE_LOCK_FUNCTION(turn) : turn_(turn) { turn_->Take(); }
  ~TurnLock() UNLOCK_FUNCTION() { turn_->Give(); }
  TurnLock(const TurnLock&) = delete;
  TurnLock& operator=(const TurnLock&) = delete;

 private:
  Turn* const turn_;
};

}  // namespace tunefarm
