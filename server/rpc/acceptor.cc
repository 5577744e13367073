#include "server/rpc/acceptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr int kBacklog = 1024;
constexpr int kAcceptedAtOnce = 64;  // then the other addresses have their turn
// Where the process has no descriptor left.
constexpr int kAcceptAgainMs = 100;
constexpr Duration kLogInterval = std::chrono::seconds(10);
// Some 50 KB of memory each, once they are connections.
constexpr rlim_t kDescriptorsMost = 1 << 16;

absl::StatusOr<int> PortOf(int fd) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return ErrnoStatus(errno, "reading the port");
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

absl::StatusOr<UniqueFd> ListenOn(const addrinfo& at, int port) {
  sockaddr_storage address = {};
  std::copy_n(reinterpret_cast<const char*>(at.ai_addr), at.ai_addrlen, reinterpret_cast<char*>(&address));
  if (at.ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address)->sin6_port = htons(static_cast<uint16_t>(port));
  } else {
    reinterpret_cast<sockaddr_in*>(&address)->sin_port = htons(static_cast<uint16_t>(port));
  }
  UniqueFd fd(socket(at.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "making a socket");
  // Not SO_REUSEPORT: two daemons must never share a port by accident.
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (at.ai_family == AF_INET6) {
    // "[::]" is every address of the machine, those of IPv4 too.
    const int only = IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr) ? 0 : 1;
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
  }
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), at.ai_addrlen) != 0) {
    return ErrnoStatus(errno, "binding");
  }
  if (listen(fd.get(), kBacklog) != 0) return ErrnoStatus(errno, "listening");
  return fd;
}

}  // namespace

Acceptor::Acceptor(std::string address, int descriptors_max)
    : address_(std::move(address)), descriptors_max_(descriptors_max), refusals_(Clock::Real(), kLogInterval) {}

int Acceptor::DescriptorsMax(Peers peers) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = 1024;
  const int eighth = static_cast<int>(std::min(limit.rlim_cur, kDescriptorsMost) / 8);
  switch (peers) {
    case Peers::kNetwork:
      return eighth * 4;
    case Peers::kClientSocket:
      return eighth * 5;
    case Peers::kAdminSocket:
      break;
  }
  return eighth * 6;
}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Open(const std::string& address, int descriptors_max) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) {
    return InvalidArgument("the address '{}' has no port; write 127.0.0.1:7070", address);
  }
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  std::unique_ptr<Acceptor> acceptor(new Acceptor(address, descriptors_max));
  RETURN_IF_ERROR(acceptor->MakeEvent());
  RETURN_IF_ERROR(acceptor->Bind(host, address.substr(colon + 1)));
  return acceptor;
}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::OpenUnix(const std::string& path, mode_t mode,
                                                             int descriptors_max) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor("unix:" + path, descriptors_max));
  RETURN_IF_ERROR(acceptor->MakeEvent());
  RETURN_IF_ERROR(acceptor->BindUnix(path, mode));
  return acceptor;
}

absl::Status Acceptor::MakeEvent() {
  stop_ = UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  return stop_.valid() ? absl::OkStatus() : ErrnoStatus(errno, "making an event");
}

absl::Status Acceptor::BindUnix(const std::string& path, mode_t mode) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return InvalidArgument("the path of a socket has 1 to {} bytes, not {}: '{}'", sizeof(address.sun_path) - 1,
                           path.size(), path);
  }
  path.copy(address.sun_path, path.size());
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, "replacing the socket {}", path);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "making a socket");
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoStatus(errno, "binding {}", path);
  }
  unix_path_ = path;
  // Nobody can connect before listen, so that no wider mode is ever of use.
  if (chmod(path.c_str(), mode) != 0) return ErrnoStatus(errno, "setting the mode of {}", path);
  if (listen(fd.get(), kBacklog) != 0) return ErrnoStatus(errno, "listening on {}", path);
  listeners_.push_back(std::move(fd));
  return absl::OkStatus();
}

absl::Status Acceptor::Bind(const std::string& host, const std::string& port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return Unavailable("the name {} has no address: {}", host, gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  absl::Status first_error;
  port_ = std::stoi(port);
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    absl::StatusOr<UniqueFd> fd = ListenOn(*at, port_);
    // A name may have an address of a family that this machine does not speak; an address in use is an error.
    if (!fd.ok()) {
      if (first_error.ok()) first_error = fd.status();
      continue;
    }
    if (port_ == 0) {
      ASSIGN_OR_RETURN(port_, PortOf(fd->get()));
    }
    listeners_.push_back(*std::move(fd));
  }
  if (!listeners_.empty()) return absl::OkStatus();
  return first_error.ok() ? Unavailable("the name {} has no address", host) : first_error;
}

void Acceptor::Start(std::function<void(int, UniqueFd)> take) {
  take_ = std::move(take);
  thread_ = Thread("rpc-accept", [this] { Run(); });
}

Acceptor::~Acceptor() {
  is_stopping_.store(true);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote = write(stop_.get(), &one, sizeof(one));
  thread_.Join();
  if (!unix_path_.empty()) (void)unlink(unix_path_.c_str());
}

void Acceptor::Run() {
  std::vector<pollfd> polled = {{stop_.get(), POLLIN, 0}};
  for (const UniqueFd& listener : listeners_) polled.push_back({listener.get(), POLLIN, 0});
  bool has_descriptors = true;
  while (true) {
    // Without a descriptor to take, all that is waited for is the time to try again.
    const int ready = poll(polled.data(), has_descriptors ? polled.size() : 1, has_descriptors ? -1 : kAcceptAgainMs);
    if (is_stopping_.load()) return;
    if (ready < 0) continue;
    has_descriptors = true;
    for (const UniqueFd& listener : listeners_) has_descriptors = AcceptFrom(listener.get()) && has_descriptors;
  }
}

bool Acceptor::AcceptFrom(int listener) {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    UniqueFd connection(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!connection.valid()) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
      // What befell one connection says nothing of the next one.
      if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) continue;
      return false;
    }
    if (connection.get() >= descriptors_max_) {
      uint64_t skipped = 0;
      if (refusals_.Allow(&skipped)) {
        LogWarn("rpc",
                "a connection to {} is closed at once: {} descriptors are open, and the rest is left for the daemon "
                "itself; raise its limit of open files ({} more since the last message)",
                address_, descriptors_max_, skipped);
      }
      continue;
    }
    if (unix_path_.empty()) {
      const int on = 1;
      setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    take_(listener, std::move(connection));
  }
  return true;
}

}  // namespace tunefarm
