#include "server/http/http_server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
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
constexpr int kAcceptedAtOnce = 16;
constexpr int kDrainedAtOnce = 16;  // parts of 4 KiB
constexpr int kBacklog = 128;
constexpr size_t kHeadersMax = 100;
constexpr size_t kSmallAnswerBytes = 64 << 10;
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
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";  // of no RFC; what Connect has for a cancelled call
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "";  // RFC 9112, section 4: a phrase may be empty
  }
}

std::string ResponseOf(const HttpAnswer& answer, bool with_body) {
  std::string response = fmt::format("HTTP/1.1 {} {}\r\n", answer.status, ReasonPhrase(answer.status));
  if (!answer.content_type.empty()) response += fmt::format("Content-Type: {}\r\n", answer.content_type);
  response += fmt::format("Content-Length: {}\r\nConnection: close\r\n", answer.body.size());
  for (const auto& [name, value] : answer.headers) response += fmt::format("{}: {}\r\n", name, value);
  response += "\r\n";
  if (with_body) response += answer.body;
  return response;
}

std::string_view WithoutBlanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// None: it is no number of bytes.
std::optional<size_t> BodyBytes(const std::string& content_length) {
  if (content_length.empty()) return 0;
  if (content_length.size() > 12 || content_length.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return std::stoull(content_length);
}

// Where the head of the request ends; npos: not yet.
size_t EndOfHead(std::string_view text) {
  const size_t crlf = text.find("\r\n\r\n");
  const size_t lf = text.find("\n\n");
  return std::min(crlf, lf);
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

struct Connection {
  enum class State { kReading, kAnswering, kWriting, kClosing };
  UniqueFd fd;
  SslPtr ssl;           // null: plain text
  short ssl_waits = 0;  // what TLS waits for instead of what the state says; 0: nothing else
  std::string peer;
  State state = State::kReading;
  MonotonicTime until;  // not while it is answered
  std::string in, out;
  std::optional<HttpRequest> request;  // once the head is there
  size_t body_bytes = 0;               // of the request
  size_t sent = 0;
  std::shared_ptr<std::atomic<bool>> is_gone;  // HttpRequest's
  bool is_head = false;
  bool is_done = false;  // to be closed
};

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

const std::string& HttpRequest::Header(const std::string& name) const {
  static const std::string& none = *new std::string;
  const auto header = headers.find(name);
  return header == headers.end() ? none : header->second;
}

std::optional<HttpRequest> ParseHttpHead(std::string_view text) {
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
      continue;
    }
    if (line.empty()) continue;
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) return std::nullopt;
    std::string name(line.substr(0, colon));
    // No name has blanks: neither before the colon, nor in front, where old servers took the line for a part of the
    // one above.
    if (name.find_first_of(" \t") != std::string::npos) return std::nullopt;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::string value(WithoutBlanks(line.substr(colon + 1)));
    const auto [header, is_new] = request.headers.emplace(std::move(name), value);
    if (!is_new) header->second += ", " + value;
    if (request.headers.size() > kHeadersMax) return std::nullopt;
  }
  if (is_first) return std::nullopt;
  return request;
}

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
      std::erase_if(connections, [](const auto& entry) { return entry.second.is_done; });
      Accept();
    }
    connections.clear();
  }

  short EventsOf(const Connection& connection) const {
    switch (connection.state) {
      case Connection::State::kReading:
        return connection.ssl_waits != 0 ? connection.ssl_waits : POLLIN;
      case Connection::State::kAnswering:
        // POLLHUP comes by itself, but only once both sides are closed.
        return options.handle ? POLLRDHUP : 0;
      case Connection::State::kWriting:
        return connection.ssl_waits != 0 ? connection.ssl_waits : POLLOUT;
      case Connection::State::kClosing:
        return POLLIN;
    }
    return 0;
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
      polled.push_back({connection.fd.get(), EventsOf(connection), 0});
      if (connection.state != Connection::State::kAnswering) wait = std::min(wait, connection.until - now);
    }
    const auto wait_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::max(wait, Duration::zero())).count();
    poll(polled.data(), polled.size(), static_cast<int>(wait_ms) + 1);
    uint64_t ignored = 0;
    [[maybe_unused]] const ssize_t got = read(outbox->wake(), &ignored, sizeof(ignored));
    size_t at = polled.size() - connections.size();
    for (auto& [id, connection] : connections) {
      // A peer that is gone is not waited for; what its page says is dropped.
      if ((polled[at++].revents & (POLLERR | POLLHUP | POLLRDHUP | POLLNVAL)) != 0 &&
          connection.state == Connection::State::kAnswering) {
        connection.is_done = true;
        if (connection.is_gone != nullptr) connection.is_gone->store(true);
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

  // How a read or a write of TLS ended that moved nothing.
  void AfterSsl(int result, Connection* connection) {
    SSL* const ssl = connection->ssl.get();
    const int error = SSL_get_error(ssl, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
      connection->ssl_waits = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
      return;
    }
    if (error == SSL_ERROR_SSL && SSL_is_init_finished(ssl) == 0 && options.on_handshake_failure) {
      const unsigned long code = ERR_peek_error();
      const bool is_plain =
          ERR_GET_REASON(code) == SSL_R_HTTP_REQUEST || ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER;
      const char* const reason = ERR_reason_error_string(code);
      options.on_handshake_failure(
          is_plain ? "plain text was sent to a port that expects TLS"
                   : fmt::format("a TLS handshake failed: {}", reason != nullptr ? reason : "unknown"));
    }
    ERR_clear_error();
    connection->is_done = true;
  }

  // Zero: there is nothing now, or the connection is done.
  size_t Receive(Connection* connection, char* bytes, size_t size) {
    if (connection->ssl != nullptr) {
      ERR_clear_error();
      connection->ssl_waits = 0;
      size_t got = 0;
      const int result = SSL_read_ex(connection->ssl.get(), bytes, size, &got);
      if (result == 1) return got;
      AfterSsl(result, connection);
      return 0;
    }
    ssize_t got = 0;
    do {
      got = recv(connection->fd.get(), bytes, size, 0);
    } while (got < 0 && errno == EINTR);
    if (got > 0) return static_cast<size_t>(got);
    connection->is_done = got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    return 0;
  }

  // The same of what is sent.
  size_t Send(Connection* connection, const char* bytes, size_t size) {
    if (connection->ssl != nullptr) {
      ERR_clear_error();
      connection->ssl_waits = 0;
      size_t sent = 0;
      const int result = SSL_write_ex(connection->ssl.get(), bytes, size, &sent);
      if (result == 1) return sent;
      AfterSsl(result, connection);
      return 0;
    }
    ssize_t sent = 0;
    do {
      sent = send(connection->fd.get(), bytes, size, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent > 0) return static_cast<size_t>(sent);
    connection->is_done = errno != EAGAIN && errno != EWOULDBLOCK;
    return 0;
  }

  void Read(uint64_t id, Connection* connection) {
    char bytes[4096];
    while (connection->state == Connection::State::kReading) {
      const size_t got = Receive(connection, bytes, sizeof(bytes));
      if (got == 0) return;
      connection->in.append(bytes, got);
      if (!connection->request.has_value()) ReadHead(id, connection);
      if (connection->state == Connection::State::kReading && connection->request.has_value() &&
          connection->in.size() >= connection->body_bytes) {
        connection->request->body = connection->in.substr(0, connection->body_bytes);
        Answer(id, connection);
      }
    }
  }

  // Once the head is there, `in` is what follows it.
  void ReadHead(uint64_t id, Connection* connection) {
    const size_t end = EndOfHead(connection->in);
    if (end == std::string::npos || end > options.head_bytes_max) {
      if (connection->in.size() <= options.head_bytes_max) return;
      return Refuse(431, fmt::format("the request's head has more than {} KiB", options.head_bytes_max >> 10),
                    connection);
    }
    std::optional<HttpRequest> request = ParseHttpHead(std::string_view(connection->in).substr(0, end));
    if (!request.has_value()) return Refuse(400, "this is no request of HTTP/1", connection);
    connection->is_head = request->method == "HEAD";
    if (!options.handle) return AnswerPage(id, *request, connection);
    if (!request->Header("transfer-encoding").empty()) {
      return Refuse(411, "the body must come whole, with its Content-Length", connection);
    }
    const std::optional<size_t> body_bytes = BodyBytes(request->Header("content-length"));
    if (!body_bytes.has_value()) return Refuse(400, "Content-Length is no number", connection);
    if (*body_bytes > options.body_bytes_max) {
      return Refuse(413,
                    fmt::format("the body has {} bytes, at most {} are taken", *body_bytes, options.body_bytes_max),
                    connection);
    }
    connection->body_bytes = *body_bytes;
    connection->in.erase(0, end + (connection->in[end] == '\r' ? 4 : 2));
    connection->request = *std::move(request);
  }

  // Whether one more request may be answered now.
  bool TakePlace(Connection* connection) {
    if (answered >= options.answered_max) {
      Refuse(503, "too many requests at once; try again", connection);
      return false;
    }
    ++answered;
    connection->state = Connection::State::kAnswering;
    return true;
  }

  void AnswerPage(uint64_t id, const HttpRequest& request, Connection* connection) {
    if (!NamesLoopback(request.Header("host"))) {
      return Refuse(403, "this server answers to 127.0.0.1, localhost and [::1] only", connection);
    }
    if (request.method != "GET" && request.method != "HEAD") {
      return Begin({.status = 405, .body = "pages are read with GET or HEAD\n", .headers = {{"Allow", "GET, HEAD"}}},
                   connection);
    }
    const auto page = options.pages.find(request.path);
    if (page == options.pages.end()) return Refuse(404, "there is no such page", connection);
    if (!TakePlace(connection)) return;
    pages->Post([this, id, make = &page->second] {
      outbox->Put(id, is_stopping.load() ? HttpAnswer{503, "the daemon is stopping\n"} : (*make)());
    });
  }

  void Answer(uint64_t id, Connection* connection) {
    if (!TakePlace(connection)) return;
    HttpRequest request = *std::move(connection->request);
    connection->in = std::string();
    request.peer = connection->peer;
    connection->is_gone = std::make_shared<std::atomic<bool>>(false);
    request.is_gone = connection->is_gone;
    if (connection->ssl != nullptr) {
      PeerCertificate shown = PeerCertificateOf(connection->ssl.get());
      request.certificate = std::move(shown.certificate);
      request.certificate_chain = std::move(shown.chain);
    }
    options.handle(std::move(request),
                   [outbox = outbox, id](HttpAnswer answer) { outbox->Put(id, std::move(answer)); });
  }

  void Refuse(int status, const std::string& why, Connection* connection) {
    Begin(options.refusal ? options.refusal(status, why) : HttpAnswer{status, why + "\n"}, connection);
  }

  void Begin(const HttpAnswer& answer, Connection* connection) {
    connection->out = ResponseOf(answer, !connection->is_head);
    connection->state = Connection::State::kWriting;
    connection->ssl_waits = 0;
    connection->until = Clock::Real()->Now() + options.answer_time;
  }

  void TakeAnswers() {
    for (const auto& [id, answer] : outbox->Take()) {
      --answered;
      const auto connection = connections.find(id);
      if (connection == connections.end()) continue;
      const size_t unsent = answer.body.size() > kSmallAnswerBytes ? UnsentBytes() : 0;
      if (unsent > 0 && unsent + answer.body.size() > options.unsent_bytes_max) {
        Refuse(503, "too many large answers wait for peers that read slowly; try again", &connection->second);
      } else {
        Begin(answer, &connection->second);
      }
    }
  }

  // Of answers that their peers have not taken whole.
  size_t UnsentBytes() const {
    size_t bytes = 0;
    for (const auto& [id, connection] : connections) bytes += connection.out.size();
    return bytes;
  }

  void Write(Connection* connection) {
    while (connection->sent < connection->out.size()) {
      const size_t sent =
          Send(connection, connection->out.data() + connection->sent, connection->out.size() - connection->sent);
      if (sent == 0) return;
      connection->sent += sent;
    }
    connection->out = std::string();
    if (connection->ssl != nullptr) {
      // Says that the answer is whole. The peer's own end of TLS is not waited for.
      ERR_clear_error();
      SSL_shutdown(connection->ssl.get());
      ERR_clear_error();
    }
    // A socket that is closed with bytes unread resets the connection, and the peer may lose the answer.
    shutdown(connection->fd.get(), SHUT_WR);
    connection->state = Connection::State::kClosing;
  }

  // Not all that comes: a peer that sends as fast as it is read would hold up the others.
  void Drain(Connection* connection) {
    char bytes[4096];
    for (int i = 0; i < kDrainedAtOnce; ++i) {
      const ssize_t got = recv(connection->fd.get(), bytes, sizeof(bytes), 0);
      if (got > 0 || (got < 0 && errno == EINTR)) continue;
      connection->is_done = got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
      return;
    }
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
      Connection connection;
      connection.peer = PeerText(peer);
      if (options.tls != nullptr) {
        connection.ssl = options.tls->Accept(fd.get());
        if (connection.ssl == nullptr) continue;
      }
      connection.fd = std::move(fd);
      connection.until = Clock::Real()->Now() + options.request_time;
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
  std::atomic<bool> is_stopping{false};
  const std::shared_ptr<Outbox> outbox = std::make_shared<Outbox>();

  // The loop's.
  std::map<uint64_t, Connection> connections;  // oldest first
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
