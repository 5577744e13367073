// TLS of listeners, and what the library has to say about handshakes.
//
// Threads: everything from any thread.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/access/gate.h"

namespace tunefarm {

struct TlsFiles {
  std::string certificate;  // PEM; those that signed it may follow it
  std::string key;          // PEM, without a password
  // Clients are asked for a certificate. It is judged by the Gate (CertificateCheck), not by the library, which could
  // not tell the client why it is refused.
  bool asks_for_certificates = false;
};

// Files that are replaced are read again, within two seconds, for new connections; a pair that does not fit together is
// not taken. TLS 1.2 and newer. InvalidArgument or ErrnoStatus, with the file's name, where they are of no use now.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(const TlsFiles& files);

// While it lives, handshakes that fail go to the gate's audit log. From its making on, what else gRPC and protobuf log
// goes to the daemon's log, escaped and at most a line every ten seconds. The library knows no peer where it says so.
class HandshakeLog {
 public:
  // The gate outlives it; null: of a listener without TLS.
  explicit HandshakeLog(const Gate* gate);
  ~HandshakeLog();
  HandshakeLog(const HandshakeLog&) = delete;
  HandshakeLog& operator=(const HandshakeLog&) = delete;

 private:
  const Gate* const gate_;
};

}  // namespace tunefarm
