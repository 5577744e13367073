// HttpServer: a small server of HTTP/1.1, for pages of monitoring and for the dashboard.
//
// Bounded: a request has a size and a time, each connection one answer, which is taken within a time. One thread waits
// for all peers, so that a slow one holds up no other, and when as many are connected as may be, the next one takes the
// place of the one that has had most time. Where too many requests are being answered, the next one is answered with
// 503. Requests whose body comes in chunks are refused.
//
// Threads: Start and the destructor by one thread; pages are called on two threads of the server, at once; `handle` on
// the thread that waits for all peers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/http/http_message.h"
#include "server/http/tls_context.h"

namespace tunefarm {

// Called once, on any thread; does nothing once the server has ended.
using HttpReply = std::function<void(HttpAnswer)>;

struct HttpServerOptions {
  std::string host;  // "127.0.0.1", "localhost", "::1"; with TLS any address of this machine, or a name
  int port = 0;      // 0: any free one

  // By path, for GET and HEAD. Names other than loopback's in the Host header are refused, so that no web page can read
  // these pages by pointing a name of its own here.
  std::map<std::string, std::function<HttpAnswer()>> pages;
  // Instead of pages: answers every request, and checks what it must. Must not block. A peer that closes its side (also
  // one that only says that it sends no more) is gone, and its connection is closed.
  std::function<void(HttpRequest, HttpReply)> handle;

  // What the server itself refuses (it answers with 400, 411, 413, 431 and 503); empty: plain text.
  std::function<HttpAnswer(int status, const std::string& why)> refusal;

  size_t head_bytes_max = 8 << 10;
  size_t body_bytes_max = 0;  // with `handle`
  size_t connections_max = 64;
  size_t answered_max = 32;  // requests at once
  // Of answers that peers have yet to take, all together: another one above 64 KiB is answered with 503. One alone may
  // be larger.
  size_t unsent_bytes_max = size_t{256} << 20;
  // From the first byte that may come to the last of the request.
  Duration request_time = std::chrono::seconds(2);
  // For the peer to take the answer, and then to close its side.
  Duration answer_time = std::chrono::seconds(5);
  // Null: plain text. Outlives the server.
  TlsContext* tls = nullptr;
  // Told why a handshake failed; may be empty.
  std::function<void(std::string_view)> on_handshake_failure;
};

class HttpServer {
 public:
  // Listens before it returns. Unavailable when the address cannot be had.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpServerOptions options);
  // Nothing is called any more once it has returned; pages under way are finished.
  ~HttpServer();

  // As others reach it: "http://127.0.0.1:7071".
  const std::string& address() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tunefarm
