#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/base/thread.h"

namespace tunefarm::postgres {

// Whether the server answers at all, for everybody who has sessions with it. A server that hangs closes no
// connection: each call would find that out by waiting for itself. So the first that waits long asks here, one thread
// asks the server, and while it does not answer everybody else is refused at once, until it does. Thread-safe.
class Presence {
 public:
  // Whether the server answered; ends by itself after a while. Called by one thread at a time, not the constructing
  // one.
  using Probe = std::function<bool()>;

  // `server` is what it is called in messages.
  Presence(std::string server, Probe probe);
  // Waits for a probe under way.
  ~Presence();
  Presence(const Presence&) = delete;
  Presence& operator=(const Presence&) = delete;

  bool is_away() const { return is_away_.load(std::memory_order_acquire); }
  // Unavailable while the server is away. Never waits.
  absl::Status Check() const;
  // The server has not answered for a while: it is asked, behind the caller's back.
  void Suspect() LOCKS_EXCLUDED(mutex_);

 private:
  void Work() LOCKS_EXCLUDED(mutex_);
  void Note(bool answered);

  const std::string server_;
  const Probe probe_;
  std::atomic<bool> is_away_{false};

  Mutex mutex_;
  CondVar wake_;
  bool is_suspected_ GUARDED_BY(mutex_) = false;
  bool is_closing_ GUARDED_BY(mutex_) = false;
  Thread thread_;  // last: its body uses the rest
};

}  // namespace tunefarm::postgres
