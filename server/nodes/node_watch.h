// NodeWatch: the clockwork of a node. It renews the node's lease on an executor of its own,
// so that a long step of the driver costs no lease, and asks the store on the driver's what others have done: often
// while there is something to drive, slowly otherwise, and once a second what can wait.
//
// It also knows how old what this daemon answers from memory may be: the time since a round of questions was answered
// whole.
//
// Threads: all methods from any thread; work runs on the executors, which outlive it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"
#include "server/nodes/node.h"

namespace tunefarm {

class NodeWatch : public std::enable_shared_from_this<NodeWatch> {
 public:
  static constexpr Duration kRefresh = std::chrono::seconds(1);

  // What is asked. Called on the poll executor until Stop and the end of what is under way.
  struct Questions {
    std::function<absl::Status()> follow;   // every poll
    std::function<absl::Status()> refresh;  // every kRefresh, before follow
    std::function<bool()> is_busy;
    std::function<void()> on_lease;  // on the lease executor, after each renewal
  };

  NodeWatch(Node* node, Executor* poll, Executor* lease, Questions questions);

  // Takes the lease and asks once, before it returns; the clockwork goes on from there, also after an error. The first
  // error of both.
  absl::Status Start();
  void Stop() LOCKS_EXCLUDED(mutex_);
  // What waits for the next refresh is asked now, and again until the store answers.
  void AskNow();

  // How long ago the store was agreed with, in milliseconds.
  int64_t AgeMs() const;
  // What is in memory is as old as this, and was not asked for: it comes from a copy.
  void SetAge(Duration age);
  // Of the last round: OK, or why the store did not answer.
  absl::Status LastStatus() const LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status Ask() LOCKS_EXCLUDED(mutex_);
  void PollAgain() LOCKS_EXCLUDED(mutex_);
  absl::Status Renew() LOCKS_EXCLUDED(mutex_);
  void RenewAgain(const absl::Status& last) LOCKS_EXCLUDED(mutex_);
  void Note(const absl::Status& status) LOCKS_EXCLUDED(mutex_);

  Node* const node_;
  Executor* const poll_;
  Executor* const lease_;
  const Questions questions_;
  MonotonicTime refreshed_{};  // the poll executor's
  std::atomic<int64_t> agreed_ns_;

  mutable Mutex mutex_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  absl::Status last_ GUARDED_BY(mutex_);
  TimerId poll_timer_ GUARDED_BY(mutex_) = 0;
  TimerId lease_timer_ GUARDED_BY(mutex_) = 0;
  TimerId ask_timer_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tunefarm
