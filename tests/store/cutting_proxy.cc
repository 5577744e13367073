#include "tests/store/cutting_proxy.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "server/base/check.h"

namespace tunefarm {
namespace {

constexpr char kSocket[] = "/.s.PGSQL.5432";

sockaddr_un AddressOf(const std::string& directory) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = directory + kSocket;
  TUNEFARM_CHECK(path.size() < sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

bool WriteAll(int fd, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

// Empty: the end.
std::string ReadSome(int fd) {
  char buffer[65536];
  const ssize_t count = read(fd, buffer, sizeof(buffer));
  return std::string(buffer, count > 0 ? static_cast<size_t>(count) : 0);
}

}  // namespace

CuttingProxy::CuttingProxy(const std::string& server_socket_directory) : server_(server_socket_directory) {
  listener_ = UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = AddressOf(directory_.path());
  TUNEFARM_CHECK(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  TUNEFARM_CHECK(listen(listener_.get(), 64) == 0);
  acceptor_ = Thread("proxy", [this] { Accept(); });
}

CuttingProxy::~CuttingProxy() {
  is_closing_.store(true);
  Resume();
  shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.Join();
  std::vector<Thread> forwarders;
  {
    MutexLock lock(&mutex_);
    forwarders.swap(forwarders_);
  }
}

void CuttingProxy::Arm(Cut cut, const std::string& text) {
  MutexLock lock(&mutex_);
  cut_ = cut;
  text_ = text;
}

void CuttingProxy::Stall() {
  MutexLock lock(&mutex_);
  is_stalled_ = true;
}

void CuttingProxy::Resume() {
  MutexLock lock(&mutex_);
  is_stalled_ = false;
  resumed_.NotifyAll();
}

void CuttingProxy::AwaitPassage() {
  MutexLock lock(&mutex_);
  while (is_stalled_) resumed_.Wait(&mutex_);
}

CuttingProxy::Cut CuttingProxy::Take(const std::string& sent) {
  MutexLock lock(&mutex_);
  if (cut_ == Cut::kNever || (!text_.empty() && sent.find(text_) == std::string::npos)) return Cut::kNever;
  const Cut cut = cut_;
  cut_ = Cut::kNever;
  ++cuts_;
  return cut;
}

void CuttingProxy::Accept() {
  while (!is_closing_.load()) {
    const int client = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    ++connections_;
    MutexLock lock(&mutex_);
    forwarders_.emplace_back("proxy", [this, client] { Forward(client); });
  }
}

void CuttingProxy::Forward(int client_fd) {
  const UniqueFd client(client_fd);
  AwaitPassage();
  const UniqueFd server(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_un address = AddressOf(server_);
  if (connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return;
  pollfd ready[2] = {{client.get(), POLLIN, 0}, {server.get(), POLLIN, 0}};
  while (poll(ready, 2, -1) >= 0) {
    AwaitPassage();
    if (ready[0].revents != 0) {
      const std::string sent = ReadSome(client.get());
      const Cut cut = sent.empty() ? Cut::kNever : Take(sent);
      if (sent.empty() || cut == Cut::kBefore || !WriteAll(server.get(), sent)) return;
      if (cut == Cut::kStall) Stall();
      if (cut == Cut::kAfter) {
        // Until it has answered: what was sent is done by then.
        ReadSome(server.get());
        return;
      }
    }
    if (ready[1].revents != 0) {
      const std::string answered = ReadSome(server.get());
      if (answered.empty() || !WriteAll(client.get(), answered)) return;
    }
  }
}

}  // namespace tunefarm
