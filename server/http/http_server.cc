#include "server/http/http_server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread.h"
#include "server/base/thread_pool.h"
#include "server/base/unique_fd.h"
#include "server/http/http_connection.h"

namespace tunefarm {
namespace {

constexpr int kPageThreads = 2;
constexpr int kAcceptedAtOnce = 16;
constexpr int kBacklog = 128;
constexpr size_t kSmallAnswerBytes = 64 << 10;
// Where the process has no descriptor left.
constexpr Duration kAcceptAgain = std::chrono::milliseconds(100);

bool NamesLoopback(std::string_view host_header) {
  const size_t bracket = host_header.find(']');
  const size_t colon = host_header.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string_view host = host_header.substr(0, colon);
  return host == "127.0.0.1" || host == "localhost" || host == "[::1]";
}

absl::StatusOr<UniqueFd> Listen(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed =
      getaddrinfo(host == "localhost" ? "127.0.0.1" : host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) return Unavailable("{}", gai_strerror(failed));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> address(found, freeaddrinfo);
  UniqueFd fd(socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "making a socket");
  // Not SO_REUSEPORT, which would let two daemons share one port.
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd.get(), address->ai_addr, address->ai_addrlen) != 0) return ErrnoStatus(errno, "binding");
  if (listen(fd.get(), kBacklog) != 0) return ErrnoStatus(errno, "listening");
  return fd;
}

absl::StatusOr<int> PortOf(int fd) {
  sockaddr_storage address = {};
  socklen_t length = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return ErrnoStatus(errno, "reading the port");
  return address.ss_family == AF_INET6 ? ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port)
                                       : ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

std::string PeerText(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    return fmt::format("ipv6:[{}]:{}", text, ntohs(v6.sin6_port));
  }
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
  inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
  return fmt::format("ipv4:{}:{}", text, ntohs(v4.sin_port));
}

// The answers on their way to the thread of the peers. Shared with those who make them, and may outlive the server.
class Outbox {
 public:
  absl::Status Open() {
    wake_ = UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    return wake_.valid() ? absl::OkStatus() : ErrnoStatus(errno, "making an event");
  }
  int wake() const { return wake_.get(); }
  void Wake() const {
    const uint64_t one = 1;
    // Full: it is awake.
    [[maybe_unused]] const ssize_t wrote = write(wake_.get(), &one, sizeof(one));
  }
  void Put(uint64_t id, HttpAnswer answer) LOCKS_EXCLUDED(mutex_) {
    {
      MutexLock lock(&mutex_);
      answers_.emplace_back(id, std::move(answer));
    }
    Wake();
  }
  std::deque<std::pair<uint64_t, HttpAnswer>> Take() LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return std::exchange(answers_, {});
  }

 private:
  UniqueFd wake_;
  Mutex mutex_;
  std::deque<std::pair<uint64_t, HttpAnswer>> answers_ GUARDED_BY(mutex_);
};

}  // namespace

// One thread does all that waits for peers, so that none of them holds up another; two make the pages.
struct HttpServer::Impl {
  explicit Impl(HttpServerOptions given) : options(std::move(given)) {}

  absl::Status Open() {
    ASSIGN_OR_RETURN(listening, Listen(options.host, options.port));
    ASSIGN_OR_RETURN(const int port, PortOf(listening.get()));
    RETURN_IF_ERROR(outbox->Open());
    const bool is_v6 = options.host.find(':') != std::string::npos;
    address = fmt::format("{}://{}:{}", options.tls != nullptr ? "https" : "http",
                          is_v6 ? "[" + options.host + "]" : options.host, port);
    if (!options.handle) pages.emplace("http", kPageThreads);
    loop = Thread("http-io", [this] { Run(); });
    return absl::OkStatus();
  }

  void Stop() {
    is_stopping.store(true);
    outbox->Wake();
    loop.Join();
    pages.reset();
  }

  void Run() {
    while (!is_stopping.load()) {
      Wait();
      TakeAnswers();
      for (auto& [id, connection] : connections) Serve(id, &connection);
      std::erase_if(connections, [](const auto& entry) { return entry.second.is_done(); });
      Accept();
    }
    connections.clear();
  }

  // Until a peer, an answer, or the first deadline.
  void Wait() {
    const MonotonicTime now = Clock::Real()->Now();
    std::vector<pollfd> polled = {{outbox->wake(), POLLIN, 0}};
    Duration wait = std::chrono::hours(1);
    if (now >= accept_after) {
      polled.push_back({listening.get(), POLLIN, 0});
    } else {
      wait = accept_after - now;
    }
    for (const auto& [id, connection] : connections) {
      polled.push_back(connection.Awaited());
      wait = std::min(wait, connection.until() - now);
    }
    const auto wait_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::max(wait, Duration::zero())).count();
    poll(polled.data(), polled.size(), static_cast<int>(wait_ms) + 1);
    uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t got = read(outbox->wake(), &ignored, sizeof(ignored));
    size_t at = polled.size() - connections.size();
    for (auto& [id, connection] : connections) connection.TakeEvents(polled[at++].revents);
  }

  void Serve(uint64_t id, HttpConnection* connection) {
    if (Clock::Real()->Now() >= connection->until()) connection->Close();
    if (std::optional<HttpRequest> request = connection->Read(); request.has_value()) {
      if (options.handle) {
        Handle(id, *std::move(request), connection);
      } else {
        MakePage(id, *request, connection);
      }
    }
    connection->Write();
  }

  // Whether one more request may be answered now.
  bool TakePlace(HttpConnection* connection) {
    if (answered < options.answered_max) {
      ++answered;
      return true;
    }
    connection->Refuse(503, "too many requests at once; try again");
    return false;
  }

  void MakePage(uint64_t id, const HttpRequest& request, HttpConnection* connection) {
    if (!NamesLoopback(request.Header("host"))) {
      return connection->Refuse(403, "this server answers to 127.0.0.1, localhost and [::1] only");
    }
    if (request.method != "GET" && request.method != "HEAD") {
      return connection->Answer(
          {.status = 405, .body = "pages are read with GET or HEAD\n", .headers = {{"Allow", "GET, HEAD"}}});
    }
    const auto page = options.pages.find(request.path);
    if (page == options.pages.end()) return connection->Refuse(404, "there is no such page");
    if (!TakePlace(connection)) return;
    pages->Post([this, id, make = &page->second] {
      outbox->Put(id, is_stopping.load() ? HttpAnswer{503, "the daemon is stopping\n"} : (*make)());
    });
  }

  void Handle(uint64_t id, HttpRequest request, HttpConnection* connection) {
    if (!TakePlace(connection)) return;
    options.handle(std::move(request),
                   [outbox = outbox, id](HttpAnswer answer) { outbox->Put(id, std::move(answer)); });
  }

  void TakeAnswers() {
    for (const auto& [id, answer] : outbox->Take()) {
      --answered;
      const auto connection = connections.find(id);
      if (connection == connections.end()) continue;
      const size_t unsent = answer.body.size() > kSmallAnswerBytes ? UnsentBytes() : 0;
      if (unsent > 0 && unsent + answer.body.size() > options.unsent_bytes_max) {
        connection->second.Refuse(503, "too many large answers wait for peers that read slowly; try again");
      } else {
        connection->second.Answer(answer);
      }
    }
  }

  size_t UnsentBytes() const {
    size_t bytes = 0;
    for (const auto& [id, connection] : connections) bytes += connection.unsent_bytes();
    return bytes;
  }

  void Accept() {
    // Not all that wait at once: those that were taken get their turn before others take their place.
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      sockaddr_storage peer = {};
      socklen_t length = sizeof(peer);
      UniqueFd fd(accept4(listening.get(), reinterpret_cast<sockaddr*>(&peer), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd.valid()) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) accept_after = Clock::Real()->Now() + kAcceptAgain;
        return;
      }
      if (connections.size() >= options.connections_max && !DropOldest()) continue;
      SslPtr ssl = options.tls != nullptr ? options.tls->Accept(fd.get()) : nullptr;
      if (options.tls != nullptr && ssl == nullptr) continue;
      connections.try_emplace(next_id++, std::move(fd), std::move(ssl), PeerText(peer), options);
    }
  }

  // The one that has had most time to send its request or to take its answer. False where all wait for us.
  bool DropOldest() {
    for (auto connection = connections.begin(); connection != connections.end(); ++connection) {
      if (connection->second.is_answering()) continue;
      connections.erase(connection);
      return true;
    }
    return false;
  }

  const HttpServerOptions options;
  std::string address;
  UniqueFd listening;
  std::atomic<bool> is_stopping{false};
  const std::shared_ptr<Outbox> outbox = std::make_shared<Outbox>();

  // The loop's.
  std::map<uint64_t, HttpConnection> connections;  // oldest first
  uint64_t next_id = 0;
  size_t answered = 0;  // requests that are being answered
  MonotonicTime accept_after;

  std::optional<ThreadPool> pages;
  Thread loop;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options) {
  const std::string where = fmt::format("{}:{}", options.host, options.port);
  auto impl = std::make_unique<Impl>(std::move(options));
  if (const absl::Status opened = impl->Open(); !opened.ok()) {
    return Unavailable("cannot listen for HTTP on {}: {}", where, MessageOf(opened));
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::~HttpServer() { impl_->Stop(); }

const std::string& HttpServer::address() const { return impl_->address; }

}  // namespace tunefarm
