#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "server/base/mutex.h"
#include "server/base/thread.h"
#include "server/base/unique_fd.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {

// Stands between a client and a PostgreSQL server on Unix sockets and cuts a connection where it hurts: when the client
// has sent a certain thing. Thread-safe.
class CuttingProxy {
 public:
  enum class Cut {
    kNever,
    kBefore,  // what was sent does not reach the server
    kAfter,   // the server has answered, and the answer does not reach the client
    kStall    // it reaches the server, and from then on nothing reaches anybody, until Resume
  };

  explicit CuttingProxy(const std::string& server_socket_directory);
  // All clients are gone by then.
  ~CuttingProxy();

  const std::string& socket_directory() const { return directory_.path(); }
  // The next message that holds `text` (any, if it is empty) is cut, once.
  void Arm(Cut cut, const std::string& text);
  // Nothing passes any more, in no connection, and none is closed; as if the server stood still.
  void Stall();
  void Resume();
  // Connections that have come so far.
  int connections() const { return connections_.load(); }
  // How many were cut.
  int cuts() const { return cuts_.load(); }

 private:
  void Accept();
  void Forward(int client);
  Cut Take(const std::string& sent);
  void AwaitPassage();

  const std::string server_;
  TemporaryDirectory directory_;
  UniqueFd listener_;
  std::atomic<int> cuts_{0}, connections_{0};
  std::atomic<bool> is_closing_{false};
  Mutex mutex_;
  CondVar resumed_;
  bool is_stalled_ GUARDED_BY(mutex_) = false;
  Cut cut_ GUARDED_BY(mutex_) = Cut::kNever;
  std::string text_ GUARDED_BY(mutex_);
  std::vector<Thread> forwarders_ GUARDED_BY(mutex_);
  Thread acceptor_;
};

}  // namespace tunefarm
