// WebServer: the dashboard's listener. It serves the files of the page to all who reach it, and every unary call of the
// public API as POST api/<service>/<method> with JSON to those who have a session, a token or a certificate
// (README.md).
//
// Threads: Start and the destructor by one thread; address by any.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/gate.h"
#include "server/api/call_limits.h"
#include "server/api/public_calls.h"
#include "server/web/page_files.h"

namespace tunefarm {

struct WebServerOptions {
  std::string address;             // "127.0.0.1:0"; with TLS any
  std::vector<std::string> hosts;  // as WebHosts::names
  // PEM files of a certificate and its key; empty: plain text. Clients are asked for a certificate of their own where
  // the gate judges them.
  std::string tls_certificate, tls_key;
  bool asks_for_certificates = false;
  std::vector<PageFile> files;  // none: the program has no page
  std::string revision;         // of the program, in every answer
  // All outlive the server.
  const Gate* gate = nullptr;
  CallLimits* limits = nullptr;
  Clock* clock = nullptr;
  RpcServices services;
};

class WebServer {
 public:
  // Serves when it returns. Unavailable (LISTEN_FAILED) where the address cannot be had; InvalidArgument or ErrnoStatus
  // for files of TLS that are of no use.
  static absl::StatusOr<std::unique_ptr<WebServer>> Start(const WebServerOptions& options);
  // Calls under way end first: those that search a space give up.
  ~WebServer();

  // "http://127.0.0.1:41379".
  const std::string& address() const;

 private:
  struct Impl;
  explicit WebServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tunefarm
