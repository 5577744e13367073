// HttpServer: a few read-only pages on loopback, for monitoring. No TLS, no rights, nothing that changes anything.
//
// Bounded: a request has at most 8 KiB and 2 s, each connection one answer, which is taken within 5 s. One thread waits
// for all peers, so that a slow one holds up no other, and when 64 are connected, the next one takes the place of the
// one that has had most time. Two threads make pages; where 32 are asked for at once, the answer is 503. Names other
// than loopback's in the Host header are refused, so that no web page can read the daemon's pages by pointing a name of
// its own here.
//
// Threads: pages are called on two threads of the server, at once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace tunefarm {

struct HttpAnswer {
  int status = 200;
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";
};

struct HttpServerOptions {
  std::string host;  // "127.0.0.1", "localhost" or "::1"; the caller has checked it
  int port = 0;      // 0: any free one
  std::map<std::string, std::function<HttpAnswer()>> pages;  // by path, for GET and HEAD
};

class HttpServer {
 public:
  // Listens before it returns. Unavailable when the address cannot be had.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(HttpServerOptions options);
  // No page is called any more once it has returned; requests under way are finished.
  ~HttpServer();

  // As others reach it: "http://127.0.0.1:7071".
  const std::string& address() const;

 private:
  struct Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tunefarm
