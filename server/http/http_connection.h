// HttpConnection: one peer of an HttpServer, in plain text or TLS. One request is read within the limits of the
// server's options, one answer is sent, and what else the peer sends is dropped until it closes its side. Requests
// beyond the limits are refused here. No method blocks.
//
// Threads: one, which polls.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "server/base/clock.h"
#include "server/base/unique_fd.h"
#include "server/http/http_message.h"
#include "server/http/http_server.h"
#include "server/http/tls_context.h"

namespace tunefarm {

class HttpConnection {
 public:
  // `fd` does not block. Null `ssl`: plain text. `peer`: HttpRequest's. `options` outlives it.
  HttpConnection(UniqueFd fd, SslPtr ssl, std::string peer, const HttpServerOptions& options);
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  // What to poll for, and the time at which the connection ends without an event.
  pollfd Awaited() const;
  MonotonicTime until() const { return until_; }
  // `events`: what poll found. Sets HttpRequest::is_gone if the peer has closed before its answer.
  void TakeEvents(short events);

  // The request, once, as soon as it is whole; it is then to be answered or refused, now or later.
  std::optional<HttpRequest> Read();
  // Both do nothing once the peer is gone.
  void Answer(const HttpAnswer& answer);
  void Refuse(int status, const std::string& why);
  // Sends as much of the answer as the peer accepts.
  void Write();
  void Close() { state_ = State::kDone; }

  bool is_answering() const { return state_ == State::kAnswering; }  // its request
  bool is_done() const { return state_ == State::kDone; }
  // Of an answer that the peer has not taken whole.
  size_t unsent_bytes() const { return out_.size(); }

 private:
  enum class State { kReading, kAnswering, kWriting, kClosing, kDone };

  void ReadHead();
  HttpRequest TakeRequest();
  void Drain();
  size_t Receive(char* bytes, size_t size);
  size_t Send(const char* bytes, size_t size);
  void AfterSsl(int result);

  const HttpServerOptions& options_;
  const UniqueFd fd_;
  const SslPtr ssl_;
  const std::string peer_;
  short ssl_waits_ = 0;  // what TLS waits for instead of what the state says; 0: nothing else
  State state_ = State::kReading;
  MonotonicTime until_;
  std::string in_, out_;
  std::optional<HttpRequest> request_;  // once the head is there
  size_t body_bytes_ = 0;               // of the request
  size_t sent_ = 0;
  std::shared_ptr<std::atomic<bool>> is_gone_;  // HttpRequest's
  bool is_head_ = false;
};

}  // namespace tunefarm
