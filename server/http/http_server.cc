#include "server/http/http_server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cctype>
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

namespace tunefarm {
namespace {

constexpr int kPageThreads = 2;
constexpr size_t kConnectionsMax = 64;
constexpr size_t kPagesInFlightMax = 32;
constexpr int kAcceptedAtOnce = 16;
constexpr size_t kRequestBytesMax = 8 * 1024;
constexpr int kBacklog = 128;
// From the first byte that may come to the last of the request.
constexpr Duration kRequestTime = std::chrono::seconds(2);
// For the peer to take the answer, and then to close its side.
constexpr Duration kAnswerTime = std::chrono::seconds(5);
// Where the process has no descriptor left.
constexpr Duration kAcceptAgain = std::chrono::milliseconds(100);

bool NamesLoopback(std::string_view host_header) {
  const size_t bracket = host_header.find(']');
  const size_t colon = host_header.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string_view host = host_header.substr(0, colon);
  return host == "127.0.0.1" || host == "localhost" || host == "[::1]";
}

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Answer";
  }
}

std::string ResponseOf(const HttpAnswer& answer, bool with_body) {
  std::string response =
      fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n",
                  answer.status, ReasonPhrase(answer.status), answer.content_type, answer.body.size(),
                  answer.status == 405 ? "Allow: GET, HEAD\r\n" : "");
  if (with_body) response += answer.body;
  return response;
}

struct HttpRequest {
  std::string method, path, host;
};

// The header's value without the blanks around it, if the line is that header.
std::optional<std::string> HeaderValue(std::string_view line, std::string_view name) {
  if (line.size() <= name.size() || line[name.size()] != ':') return std::nullopt;
  const bool is_it = std::equal(name.begin(), name.end(), line.begin(),
                                [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
  if (!is_it) return std::nullopt;
  std::string_view value = line.substr(name.size() + 1);
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
  while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
  return std::string(value);
}

// Of a whole request without its body; none for what is no HTTP/1.
std::optional<HttpRequest> ParseRequest(std::string_view text) {
  HttpRequest request;
  bool is_first = true;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (is_first) {
      const size_t space = line.find(' ');
      const size_t second = space == std::string_view::npos ? space : line.find(' ', space + 1);
      if (second == std::string_view::npos || line.substr(second + 1).rfind("HTTP/1.", 0) != 0) return std::nullopt;
      request.method = std::string(line.substr(0, space));
      request.path = std::string(line.substr(space + 1, second - space - 1));
      request.path = request.path.substr(0, request.path.find('?'));
      is_first = false;
    } else if (auto host = HeaderValue(line, "host"); host.has_value() && request.host.empty()) {
      request.host = *std::move(host);
    }
  }
  if (is_first) return std::nullopt;
  return request;
}

// Where the head of the request ends; npos: not yet.
size_t EndOfHead(std::string_view text) {
  const size_t crlf = text.find("\r\n\r\n");
  const size_t lf = text.find("\n\n");
  return std::min(crlf, lf);
}

absl::StatusOr<UniqueFd> Listen(const std::string& host, int port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  UniqueFd fd(socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "making a socket");
  // Not SO_REUSEPORT, which would let two daemons share one port.
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<uint16_t>(port));
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(static_cast<uint16_t>(port));
  v6.sin6_addr = in6addr_loopback;
  const auto* const address = is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
  if (bind(fd.get(), address, is_v6 ? sizeof(v6) : sizeof(v4)) != 0) return ErrnoStatus(errno, "binding");
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

struct Connection {
  enum class State { kReading, kAnswering, kWriting, kClosing };
  UniqueFd fd;
  State state = State::kReading;
  MonotonicTime until;  // not while it is answered
  std::string in, out;
  size_t sent = 0;
  bool is_head = false;
  bool is_done = false;  // to be closed
};

}  // namespace

// One thread does all that waits for peers, so that none of them holds up another; two make the pages.
struct HttpServer::Impl {
  explicit Impl(HttpServerOptions given) : options(std::move(given)) {}

  absl::Status Open() {
    ASSIGN_OR_RETURN(listening, Listen(options.host, options.port));
    ASSIGN_OR_RETURN(const int port, PortOf(listening.get()));
    wake = UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!wake.valid()) return ErrnoStatus(errno, "making an event");
    const bool is_v6 = options.host.find(':') != std::string::npos;
    address = fmt::format("http://{}:{}", is_v6 ? "[" + options.host + "]" : options.host, port);
    pages.emplace("http", kPageThreads);
    loop = Thread("http-io", [this] { Run(); });
    return absl::OkStatus();
  }

  void Stop() {
    is_stopping.store(true);
    Wake();
    loop.Join();
    pages.reset();
  }

  void Wake() const {
    const uint64_t one = 1;
    // Full: it is awake.
    [[maybe_unused]] const ssize_t wrote = write(wake.get(), &one, sizeof(one));
  }

  void Run() {
    while (!is_stopping.load()) {
      Wait();
      TakeAnswers();
      for (auto& [id, connection] : connections) Serve(id, &connection);
      std::erase_if(connections, [](const auto& entry) { return entry.second.is_done; });
      Accept();
    }
    connections.clear();
  }

  // Until a peer, an answer, or the first deadline.
  void Wait() {
    const MonotonicTime now = Clock::Real()->Now();
    std::vector<pollfd> polled = {{wake.get(), POLLIN, 0}};
    Duration wait = std::chrono::hours(1);
    if (now >= accept_after) {
      polled.push_back({listening.get(), POLLIN, 0});
    } else {
      wait = accept_after - now;
    }
    for (const auto& [id, connection] : connections) {
      const auto state = connection.state;
      const short events = state == Connection::State::kWriting     ? POLLOUT
                           : state == Connection::State::kAnswering ? 0
                                                                    : POLLIN;
      polled.push_back({connection.fd.get(), events, 0});
      if (state != Connection::State::kAnswering) wait = std::min(wait, connection.until - now);
    }
    const auto wait_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::max(wait, Duration::zero())).count();
    poll(polled.data(), polled.size(), static_cast<int>(wait_ms) + 1);
    uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t got = read(wake.get(), &ignored, sizeof(ignored));
    size_t at = polled.size() - connections.size();
    for (auto& [id, connection] : connections) {
      // A peer that is gone is not waited for; what its page says is dropped.
      if ((polled[at++].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0 &&
          connection.state == Connection::State::kAnswering) {
        connection.is_done = true;
      }
    }
  }

  void Serve(uint64_t id, Connection* connection) {
    if (connection->is_done) return;
    if (connection->state != Connection::State::kAnswering && Clock::Real()->Now() >= connection->until) {
      connection->is_done = true;
      return;
    }
    if (connection->state == Connection::State::kReading) Read(id, connection);
    if (connection->state == Connection::State::kWriting) Write(connection);
    if (connection->state == Connection::State::kClosing) Drain(connection);
  }

  void Read(uint64_t id, Connection* connection) {
    char bytes[2048];
    while (connection->in.size() <= kRequestBytesMax) {
      const ssize_t got = recv(connection->fd.get(), bytes, sizeof(bytes), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (got <= 0) {
        connection->is_done = true;
        return;
      }
      connection->in.append(bytes, static_cast<size_t>(got));
      if (const size_t end = EndOfHead(connection->in); end != std::string::npos) {
        Answer(id, std::string_view(connection->in).substr(0, end), connection);
        return;
      }
    }
    Begin({431, "the request has more than 8 KiB\n"}, connection);
  }

  void Answer(uint64_t id, std::string_view head, Connection* connection) {
    const std::optional<HttpRequest> request = ParseRequest(head);
    if (!request.has_value()) return Begin({400, "this is no request of HTTP/1\n"}, connection);
    connection->is_head = request->method == "HEAD";
    if (!NamesLoopback(request->host)) {
      return Begin({403, "this server answers to 127.0.0.1, localhost and [::1] only\n"}, connection);
    }
    if (request->method != "GET" && request->method != "HEAD") {
      return Begin({405, "pages are read with GET or HEAD\n"}, connection);
    }
    const auto page = options.pages.find(request->path);
    if (page == options.pages.end()) return Begin({404, "there is no such page\n"}, connection);
    if (in_flight >= kPagesInFlightMax) return Begin({503, "too many requests at once; try again\n"}, connection);
    ++in_flight;
    connection->state = Connection::State::kAnswering;
    pages->Post([this, id, make = &page->second] {
      HttpAnswer answer = is_stopping.load() ? HttpAnswer{503, "the daemon is stopping\n"} : (*make)();
      {
        MutexLock lock(&mutex);
        answers.emplace_back(id, std::move(answer));
      }
      Wake();
    });
  }

  void Begin(const HttpAnswer& answer, Connection* connection) {
    connection->out = ResponseOf(answer, !connection->is_head);
    connection->state = Connection::State::kWriting;
    connection->until = Clock::Real()->Now() + kAnswerTime;
  }

  void TakeAnswers() LOCKS_EXCLUDED(mutex) {
    std::deque<std::pair<uint64_t, HttpAnswer>> taken;
    {
      MutexLock lock(&mutex);
      taken.swap(answers);
    }
    for (const auto& [id, answer] : taken) {
      --in_flight;
      const auto connection = connections.find(id);
      if (connection != connections.end()) Begin(answer, &connection->second);
    }
  }

  void Write(Connection* connection) {
    while (connection->sent < connection->out.size()) {
      const ssize_t sent = send(connection->fd.get(), connection->out.data() + connection->sent,
                                connection->out.size() - connection->sent, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (sent < 0) {
        connection->is_done = true;
        return;
      }
      connection->sent += static_cast<size_t>(sent);
    }
    // A socket that is closed with bytes unread resets the connection, and the peer may lose the answer.
    shutdown(connection->fd.get(), SHUT_WR);
    connection->state = Connection::State::kClosing;
  }

  void Drain(Connection* connection) {
    char bytes[2048];
    ssize_t got = 0;
    do {
      got = recv(connection->fd.get(), bytes, sizeof(bytes), 0);
    } while (got > 0 || (got < 0 && errno == EINTR));
    if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) connection->is_done = true;
  }

  void Accept() {
    // Not all that wait at once: those that were taken get their turn before others take their place.
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      UniqueFd fd(accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd.valid()) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) accept_after = Clock::Real()->Now() + kAcceptAgain;
        return;
      }
      if (connections.size() >= kConnectionsMax && !DropOldest()) continue;
      Connection connection;
      connection.fd = std::move(fd);
      connection.until = Clock::Real()->Now() + kRequestTime;
      connections.emplace(next_id++, std::move(connection));
    }
  }

  // The one that has had most time to send its request or to take its answer. False where all wait for us.
  bool DropOldest() {
    for (auto connection = connections.begin(); connection != connections.end(); ++connection) {
      if (connection->second.state == Connection::State::kAnswering) continue;
      connections.erase(connection);
      return true;
    }
    return false;
  }

  const HttpServerOptions options;
  std::string address;
  UniqueFd listening;
  UniqueFd wake;
  std::atomic<bool> is_stopping{false};

  // The loop's.
  std::map<uint64_t, Connection> connections;  // oldest first
  uint64_t next_id = 0;
  size_t in_flight = 0;  // pages that are made
  MonotonicTime accept_after;

  Mutex mutex;
  std::deque<std::pair<uint64_t, HttpAnswer>> answers GUARDED_BY(mutex);  // for the loop

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
