// Ctrl-C while a stream is being read.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <csignal>

#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/base/thread.h"
#include "server/base/unique_fd.h"

namespace tunefarm::cli {

// While it lives, Ctrl-C (and SIGTERM) cancels the open stream instead of ending the program. Nothing of gRPC may be
// called from a signal handler, so the handler only writes into a pipe that a thread reads. (Blocking the signals
// instead would leave them to gRPC's own threads, which started before.) One at a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // The open stream; null: none. Cancelled at once if it happened before.
  void Guard(grpc::ClientContext* context);
  bool happened() const { return happened_.load(); }
  // Waits for another one after the first; false where none comes in time.
  bool HappensAgain(Duration within) const { return again_.WaitFor(within); }

 private:
  void Listen();

  UniqueFd reader_;
  UniqueFd writer_;
  struct sigaction old_int_ = {};
  struct sigaction old_term_ = {};
  std::atomic<bool> happened_{false};
  Notification again_;
  Mutex mutex_;
  grpc::ClientContext* context_ GUARDED_BY(mutex_) = nullptr;
  Thread thread_;
};

}  // namespace tunefarm::cli
