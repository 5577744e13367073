#include "server/daemon/notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>

#include "server/base/log.h"
#include "server/base/unique_fd.h"

namespace tunefarm {

void NotifyServiceManager(std::string_view state, const EnvironmentGetter& environment) {
  const std::optional<std::string> path = environment("NOTIFY_SOCKET");
  if (!path || path->empty()) return;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path->size() >= sizeof(address.sun_path) || ((*path)[0] != '/' && (*path)[0] != '@')) {
    LogWarn("daemon", "NOTIFY_SOCKET '{}' is not a usable socket; the service manager is not told", *path);
    return;
  }
  std::memcpy(address.sun_path, path->data(), path->size());
  // A leading '@' means the abstract name space, whose names start with a zero byte.
  if (address.sun_path[0] == '@') address.sun_path[0] = 0;
  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path->size());
  if (!fd.valid() ||
      sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address), length) < 0) {
    LogWarn("daemon", "the service manager could not be told '{}': {}", state, std::strerror(errno));
  }
}

}  // namespace tunefarm
