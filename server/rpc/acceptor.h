// Acceptor: takes connections of a TCP address or a Unix socket, and leaves descriptors for everything else. gRPC's own
// listener takes all there are, and stops listening for good when the process has none left.
//
// Threads: Open, Start and the destructor by one thread; `take` is called on a thread of its own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/thread.h"
#include "server/base/unique_fd.h"

namespace tunefarm {

// Who may connect, which decides how many descriptors may be open when a connection is taken: those who are closer to
// the daemon still reach it when others have taken all that is theirs.
enum class Peers {
  kNetwork,       // peers over TCP: half of the descriptors that the process may have
  kClientSocket,  // users of this machine: five eighths
  kAdminSocket,   // the daemon's own user and root: three quarters; the rest is for files, the store and workers
};

class Acceptor {
 public:
  // Binds and listens: "127.0.0.1:7070", "[::1]:0", "farm-1:7070"; all addresses of a name. A connection with this
  // descriptor number or a higher one is closed at once: the kernel gives the lowest number that is free.
  // InvalidArgument for an address without a port; the errors of the system.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Open(const std::string& address, int descriptors_max);
  // The same for a Unix socket with this mode, whatever the umask. A file that is there is replaced; the destructor
  // removes the socket.
  static absl::StatusOr<std::unique_ptr<Acceptor>> OpenUnix(const std::string& path, mode_t mode, int descriptors_max);
  // The share of `peers` in the process's limit of open files, of which 65,536 count at most: above them memory would
  // be the bound.
  static int DescriptorsMax(Peers peers);
  // Takes no more; what was taken stays open.
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // 0 for a Unix socket.
  int port() const { return port_; }

  // `listener`: the descriptor that it came from. Once.
  void Start(std::function<void(int listener, UniqueFd connection)> take);

 private:
  Acceptor(std::string address, int descriptors_max);
  absl::Status MakeEvent();
  absl::Status Bind(const std::string& host, const std::string& port);
  absl::Status BindUnix(const std::string& path, mode_t mode);
  void Run();
  // False: there is no descriptor left now.
  bool AcceptFrom(int listener);

  const std::string address_;
  const int descriptors_max_;
  int port_ = 0;
  std::string unix_path_;  // empty: TCP
  std::vector<UniqueFd> listeners_;
  UniqueFd stop_;  // an event
  std::atomic<bool> is_stopping_{false};
  std::function<void(int, UniqueFd)> take_;
  LogRateLimit refusals_;
  Thread thread_;
};

}  // namespace tunefarm
