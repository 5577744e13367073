// What a daemon with the role agent answers on its admin socket: what it is, and a request to end. Everything else is
// asked of control.
//
// Threads: Start and the destructor from one thread; the functions are called on gRPC's threads.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tunefarm/v1/server_service.pb.h"

namespace tunefarm {

class AgentAdmin {
 public:
  struct Hooks {
    std::function<tunefarm::v1::GetServerInfoResponse()> info;
    // Returns at once; the daemon ends on its own.
    std::function<void(bool immediately)> shutdown;
  };

  // Binds the Unix socket with mode 0600; a stale file is replaced, which is safe because the caller holds the data
  // directory's lock.
  static absl::StatusOr<std::unique_ptr<AgentAdmin>> Start(const std::string& socket_path, Hooks hooks);
  // Gives open calls two seconds.
  ~AgentAdmin();

 private:
  struct Impl;
  explicit AgentAdmin(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tunefarm
