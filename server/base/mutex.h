#pragma once

// The project's only locks: std::mutex, std::shared_mutex and std::condition_variable with clang's thread-safety
// annotations. (The prebuilt absl::Mutex makes ThreadSanitizer report false races; std::mutex does not.)

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#include "server/base/thread_annotations.h"

namespace tunefarm {

// Not recursive. Locked and unlocked by the same thread; prefer MutexLock.
class LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() UNLOCK_FUNCTION() { mutex_.unlock(); }
  bool TryLock() EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Holds a mutex for a scope. The mutex must outlive it.
class SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_->Lock(); }
  ~MutexLock() UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

// A mutex that many readers or one writer hold. Not recursive, not even for reading. A writer that waits comes before
// readers that arrive later, so that it waits only for the readers that already hold the mutex.
class LOCKABLE SharedMutex {
 public:
  SharedMutex() = default;
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void Lock() EXCLUSIVE_LOCK_FUNCTION() {
    const std::lock_guard<std::mutex> turn(turn_);
    mutex_.lock();
  }
  void Unlock() UNLOCK_FUNCTION() { mutex_.unlock(); }
  void ReaderLock() SHARED_LOCK_FUNCTION() {
    const std::lock_guard<std::mutex> turn(turn_);
    mutex_.lock_shared();
  }
  void ReaderUnlock() UNLOCK_FUNCTION() { mutex_.unlock_shared(); }

 private:
  std::mutex turn_;  // held while one waits for mutex_
  std::shared_mutex mutex_;
};

// Holds a SharedMutex for a scope, to write; ReaderMutexLock to read. The mutex must outlive it.
class SCOPED_LOCKABLE WriterMutexLock {
 public:
  explicit WriterMutexLock(SharedMutex* mutex) EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_->Lock(); }
  ~WriterMutexLock() UNLOCK_FUNCTION() { mutex_->Unlock(); }
  WriterMutexLock(const WriterMutexLock&) = delete;
  WriterMutexLock& operator=(const WriterMutexLock&) = delete;

 private:
  SharedMutex* const mutex_;
};

class SCOPED_LOCKABLE ReaderMutexLock {
 public:
  explicit ReaderMutexLock(SharedMutex* mutex) SHARED_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_->ReaderLock(); }
  ~ReaderMutexLock() UNLOCK_FUNCTION() { mutex_->ReaderUnlock(); }
  ReaderMutexLock(const ReaderMutexLock&) = delete;
  ReaderMutexLock& operator=(const ReaderMutexLock&) = delete;

 private:
  SharedMutex* const mutex_;
};

// Waits may wake without a notification: always test the condition in a loop.
class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // Releases the mutex while waiting; holds it again on return.
  void Wait(Mutex* mutex) EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }

  // As Wait, for at most `timeout` of real time. False when the time ran out.
  template <typename Rep, typename Period>
  bool WaitFor(Mutex* mutex, std::chrono::duration<Rep, Period> timeout) EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const bool notified = condition_.wait_for(lock, timeout) == std::cv_status::no_timeout;
    lock.release();
    return notified;
  }

  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace tunefarm
