// Loads of binaries, and of the driver, one at a time in the process. Launches never take it.
#pragma once

#include <pthread.h>

namespace tunefarm::launch {

class LoadLock {
 public:
  LoadLock() { (void)pthread_mutex_lock(&mutex_); }
  ~LoadLock() { (void)pthread_mutex_unlock(&mutex_); }
  LoadLock(const LoadLock&) = delete;
  LoadLock& operator=(const LoadLock&) = delete;

 private:
  inline static pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

}  // namespace tunefarm::launch
