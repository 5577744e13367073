#include "server/http/http_connection.h"

#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

namespace tunefarm {
namespace {

constexpr int kDrainedAtOnce = 16;  // parts of 4 KiB

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

}  // namespace

HttpConnection::HttpConnection(UniqueFd fd, SslPtr ssl, std::string peer, const HttpServerOptions& options)
    : options_(options),
      fd_(std::move(fd)),
      ssl_(std::move(ssl)),
      peer_(std::move(peer)),
      until_(Clock::Real()->Now() + options.request_time) {}

pollfd HttpConnection::Awaited() const {
  short events = 0;
  switch (state_) {
    case State::kReading:
      events = ssl_waits_ != 0 ? ssl_waits_ : POLLIN;
      break;
    case State::kAnswering:
      // POLLHUP comes by itself, but only once both sides are closed.
      events = options_.handle ? POLLRDHUP : 0;
      break;
    case State::kWriting:
      events = ssl_waits_ != 0 ? ssl_waits_ : POLLOUT;
      break;
    case State::kClosing:
      events = POLLIN;
      break;
    case State::kDone:
      break;
  }
  return {fd_.get(), events, 0};
}

void HttpConnection::TakeEvents(short events) {
  // In the other states a read or a write fails.
  if (state_ != State::kAnswering || (events & (POLLERR | POLLHUP | POLLRDHUP | POLLNVAL)) == 0) return;
  is_gone_->store(true);
  Close();
}

// After a read or a write of TLS that transferred nothing: waits for what TLS needs, or closes.
void HttpConnection::AfterSsl(int result) {
  const int error = SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
    ssl_waits_ = error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
    return;
  }
  if (error == SSL_ERROR_SSL && SSL_is_init_finished(ssl_.get()) == 0 && options_.on_handshake_failure) {
    const unsigned long code = ERR_peek_error();
    const bool is_plain =
        ERR_GET_REASON(code) == SSL_R_HTTP_REQUEST || ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER;
    const char* const reason = ERR_reason_error_string(code);
    options_.on_handshake_failure(
        is_plain ? "plain text was sent to a port that expects TLS"
                 : fmt::format("a TLS handshake failed: {}", reason != nullptr ? reason : "unknown"));
  }
  ERR_clear_error();
  Close();
}

// How many bytes were read. 0: none are available, or the connection is done.
size_t HttpConnection::Receive(char* bytes, size_t size) {
  if (ssl_ != nullptr) {
    ERR_clear_error();
    ssl_waits_ = 0;
    size_t got = 0;
    const int result = SSL_read_ex(ssl_.get(), bytes, size, &got);
    if (result == 1) return got;
    AfterSsl(result);
    return 0;
  }
  ssize_t got = 0;
  do {
    got = recv(fd_.get(), bytes, size, 0);
  } while (got < 0 && errno == EINTR);
  if (got > 0) return static_cast<size_t>(got);
  if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) Close();
  return 0;
}

// How many bytes were sent. 0: the peer accepts none, or the connection is done.
size_t HttpConnection::Send(const char* bytes, size_t size) {
  if (ssl_ != nullptr) {
    ERR_clear_error();
    ssl_waits_ = 0;
    size_t sent = 0;
    const int result = SSL_write_ex(ssl_.get(), bytes, size, &sent);
    if (result == 1) return sent;
    AfterSsl(result);
    return 0;
  }
  ssize_t sent = 0;
  do {
    sent = send(fd_.get(), bytes, size, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent > 0) return static_cast<size_t>(sent);
  if (errno != EAGAIN && errno != EWOULDBLOCK) Close();
  return 0;
}

std::optional<HttpRequest> HttpConnection::Read() {
  char bytes[4096];
  while (state_ == State::kReading) {
    const size_t got = Receive(bytes, sizeof(bytes));
    if (got == 0) break;
    in_.append(bytes, got);
    if (!request_.has_value()) ReadHead();
    if (request_.has_value() && in_.size() >= body_bytes_) return TakeRequest();
  }
  return std::nullopt;
}

// Once the head is there, `in_` is what follows it.
void HttpConnection::ReadHead() {
  const size_t end = EndOfHead(in_);
  if (end == std::string::npos || end > options_.head_bytes_max) {
    if (in_.size() <= options_.head_bytes_max) return;
    return Refuse(431, fmt::format("the request's head has more than {} KiB", options_.head_bytes_max >> 10));
  }
  std::optional<HttpRequest> request = ParseHttpHead(std::string_view(in_).substr(0, end));
  if (!request.has_value()) return Refuse(400, "this is no request of HTTP/1");
  is_head_ = request->method == "HEAD";
  // No page has use for a body.
  if (options_.handle) {
    if (!request->Header("transfer-encoding").empty()) {
      return Refuse(411, "the body must come whole, with its Content-Length");
    }
    const std::optional<size_t> body_bytes = BodyBytes(request->Header("content-length"));
    if (!body_bytes.has_value()) return Refuse(400, "Content-Length is no number");
    if (*body_bytes > options_.body_bytes_max) {
      return Refuse(413,
                    fmt::format("the body has {} bytes, at most {} are taken", *body_bytes, options_.body_bytes_max));
    }
    body_bytes_ = *body_bytes;
  }
  in_.erase(0, end + (in_[end] == '\r' ? 4 : 2));
  request_ = *std::move(request);
}

HttpRequest HttpConnection::TakeRequest() {
  HttpRequest request = *std::move(request_);
  request.body = in_.substr(0, body_bytes_);
  in_ = std::string();
  request.peer = peer_;
  is_gone_ = std::make_shared<std::atomic<bool>>(false);
  request.is_gone = is_gone_;
  if (ssl_ != nullptr) {
    PeerCertificate shown = PeerCertificateOf(ssl_.get());
    request.certificate = std::move(shown.certificate);
    request.certificate_chain = std::move(shown.chain);
  }
  state_ = State::kAnswering;
  until_ = MonotonicTime::max();
  return request;
}

void HttpConnection::Answer(const HttpAnswer& answer) {
  if (is_done()) return;
  out_ = ResponseOf(answer, !is_head_);
  state_ = State::kWriting;
  ssl_waits_ = 0;
  until_ = Clock::Real()->Now() + options_.answer_time;
}

void HttpConnection::Refuse(int status, const std::string& why) {
  Answer(options_.refusal ? options_.refusal(status, why) : HttpAnswer{status, why + "\n"});
}

void HttpConnection::Write() {
  while (state_ == State::kWriting && sent_ < out_.size()) {
    const size_t sent = Send(out_.data() + sent_, out_.size() - sent_);
    if (sent == 0) return;
    sent_ += sent;
  }
  if (state_ == State::kWriting) {
    out_ = std::string();
    if (ssl_ != nullptr) {
      // Says that the answer is whole. The peer's own end of TLS is not waited for.
      ERR_clear_error();
      SSL_shutdown(ssl_.get());
      ERR_clear_error();
    }
    // A socket that is closed with bytes unread resets the connection, and the peer may lose the answer.
    shutdown(fd_.get(), SHUT_WR);
    state_ = State::kClosing;
  }
  if (state_ == State::kClosing) Drain();
}

// Bounded: a peer that sends as fast as it is read would delay the others.
void HttpConnection::Drain() {
  char bytes[4096];
  for (int i = 0; i < kDrainedAtOnce; ++i) {
    const ssize_t got = recv(fd_.get(), bytes, sizeof(bytes), 0);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) Close();
    return;
  }
}

}  // namespace tunefarm
