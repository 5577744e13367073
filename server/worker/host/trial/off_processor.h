// Keeps the calling thread off one processor while this lives, so that a process which is woken there finds it idle and
// stays.
//
// Destroyed by the thread that made it. Processes that the thread forks meanwhile stay off it, too.
#pragma once

#include <sched.h>

namespace tunefarm {

class OffProcessor {
 public:
  // The number of the processor. Nothing happens where it is -1 or the only one that the thread may use.
  explicit OffProcessor(int processor);
  ~OffProcessor();
  OffProcessor(const OffProcessor&) = delete;
  OffProcessor& operator=(const OffProcessor&) = delete;

 private:
  cpu_set_t allowed_ = {};
  bool is_off_ = false;
};

}  // namespace tunefarm
