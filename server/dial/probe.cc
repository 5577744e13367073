#include "server/dial/probe.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "server/base/freed.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/dial/dial_options.h"

namespace tunefarm {
namespace {

constexpr int kPatienceSeconds = 3;

bool IsUnix(const std::string& address) { return address.rfind("unix:", 0) == 0; }

void LimitPatience(int fd) {
  const timeval patience = {kPatienceSeconds, 0};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

// 0, or an errno; with SOCK_NONBLOCK in `flags` EAGAIN where the queue of connections is full.
int ConnectUnix(const std::string& path, int flags, UniqueFd* fd) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return ENAMETOOLONG;
  std::memcpy(address.sun_path, path.data(), path.size());
  fd->Reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
  if (!fd->valid()) return errno;
  LimitPatience(fd->get());
  return connect(fd->get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
}

absl::Status NoDaemon(const std::string& address, const std::string& why) {
  return WithReason(
      Unavailable("no daemon answers at {}: {}; start tunefarmd there, or correct the address", address, why),
      "NO_DAEMON");
}

absl::Status UnixError(const std::string& address, int error) {
  const std::string path = address.substr(5);
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return NoDaemon(address, "the socket does not exist");
    case ECONNREFUSED: {
      struct stat found = {};
      const bool is_other = stat(path.c_str(), &found) == 0 && !S_ISSOCK(found.st_mode);
      return NoDaemon(address, is_other ? "that is not a socket" : "nobody listens on the socket");
    }
    case EACCES:
    case EPERM:
      return WithReason(
          Unavailable("user id {} has no permission to open the daemon's socket {}; ask the daemon's owner "
                      "for membership in the group of its client.sock, or for a TCP address and a token",
                      geteuid(), path),
          "NO_PERMISSION");
    case EAGAIN:  // its queue of connections is full: nobody has accepted one for a while
      return DoesNotAnswer(address);
    default:
      return NoDaemon(address, std::strerror(error));
  }
}

absl::Status TcpError(const std::string& address, int error) {
  switch (error) {
    case ECONNREFUSED:
      return NoDaemon(address, "nobody listens on the port");
    case EINPROGRESS:  // the patience of SO_SNDTIMEO is over
    case EAGAIN:
    case ETIMEDOUT:
      return WithReason(Unavailable("{} cannot be reached: nothing comes back within {} s; see whether the machine is "
                                    "up, and whether a firewall drops the port",
                                    address, kPatienceSeconds),
                        "HOST_UNREACHABLE");
    default:
      return WithReason(Unavailable("{} cannot be reached: {}; see the network of this machine and the address",
                                    address, std::strerror(error)),
                        "HOST_UNREACHABLE");
  }
}

enum class Reply { kNone, kHttp2, kOther };

// What comes back for the first bytes of an HTTP/2 connection: its preface, and empty settings.
Reply AskForHttp2(int fd) {
  static constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
  (void)!send(fd, kPreface, sizeof(kPreface) - 1, MSG_NOSIGNAL);
  // A frame's length (3 bytes) and type; that of settings comes first and is 4.
  unsigned char head[4] = {};
  size_t size = 0;
  while (size < sizeof(head)) {
    const ssize_t n = recv(fd, head + size, sizeof(head) - size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Reply::kNone;
    if (n <= 0) return Reply::kOther;
    size += static_cast<size_t>(n);
  }
  return head[0] == 0 && head[3] == 4 ? Reply::kHttp2 : Reply::kOther;
}

}  // namespace

HostPort SplitAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostPort result{address.substr(0, colon), colon == std::string::npos ? "" : address.substr(colon + 1)};
  if (result.host.size() > 2 && result.host.front() == '[') result.host = result.host.substr(1, result.host.size() - 2);
  return result;
}

int UnixSocketError(const std::string& path) {
  UniqueFd fd;
  const int error = ConnectUnix(path, SOCK_NONBLOCK, &fd);
  return error == EAGAIN ? 0 : error;
}

absl::Status DoesNotAnswer(const std::string& address) {
  return WithReason(
      Unavailable("the daemon at {} accepts connections but does not answer: it hangs, is stopped, or its "
                  "machine is overloaded; see its log, and restart it if that lasts",
                  address),
      "NOT_ANSWERING");
}

absl::StatusOr<UniqueFd> ConnectTo(const std::string& address) {
  UniqueFd fd;
  if (IsUnix(address)) {
    const int error = ConnectUnix(address.substr(5), 0, &fd);
    if (error != 0) return UnixError(address, error);
    return fd;
  }
  const HostPort at = SplitAddress(address);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int unknown = getaddrinfo(at.host.c_str(), at.port.c_str(), &hints, &found);
  if (unknown != 0) {
    return WithReason(Unavailable("the host {} of the address {} is not known: {}; correct the address", at.host,
                                  address, gai_strerror(unknown)),
                      "HOST_UNKNOWN");
  }
  const std::unique_ptr<addrinfo, Freed<freeaddrinfo>> list(found);
  int error = ECONNREFUSED;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    fd.Reset(socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
    if (!fd.valid()) {
      error = errno;
      continue;
    }
    LimitPatience(fd.get());
    if (connect(fd.get(), one->ai_addr, one->ai_addrlen) == 0) return fd;
    error = errno;
  }
  return TcpError(address, error);
}

absl::Status ExplainUnreachable(const DialOptions& options) {
  RETURN_IF_ERROR(CheckAddress(options.address));
  const bool has_tls = !options.ca.empty() && !IsUnix(options.address);
  ASSIGN_OR_RETURN(const UniqueFd fd, ConnectTo(options.address));
  const Reply reply = has_tls ? Reply::kOther : AskForHttp2(fd.get());
  if (reply == Reply::kNone) return DoesNotAnswer(options.address);
  if (reply == Reply::kOther) RETURN_IF_ERROR(ExplainTls(options));
  if (reply == Reply::kHttp2 || has_tls) {
    return WithReason(
        Unavailable("the daemon at {} answers too slowly; its machine may be overloaded: try again", options.address),
        "NOT_ANSWERING");
  }
  return WithReason(Unavailable("what listens at {} is not a tunefarm daemon; correct the address", options.address),
                    "NOT_A_DAEMON");
}

}  // namespace tunefarm
