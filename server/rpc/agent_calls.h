// The calls of agents on other machines. They run on threads of their own, as each waits for the database; those that
// wait for news hold no thread. Those that claim works have threads apart from the others: they may wait for a claim of
// another daemon.
//
// Threads: AddTo by one thread, before the server starts. The calls end before it does.
#pragma once

#include "server/api/router.h"
#include "server/base/clock.h"
#include "server/base/executor.h"
#include "server/base/thread_pool.h"
#include "server/farm/control_link.h"

namespace tunefarm {

class AgentCalls {
 public:
  // Both outlive it.
  AgentCalls(ControlLink* link, Clock* clock);
  AgentCalls(const AgentCalls&) = delete;
  AgentCalls& operator=(const AgentCalls&) = delete;

  void AddTo(Router* router);

 private:
  ControlLink* const link_;
  ThreadExecutor timers_;
  ThreadPool threads_, work_threads_;
};

}  // namespace tunefarm
