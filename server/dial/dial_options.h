// How to reach a daemon: its address, and what proves who calls. The same for the command line, the C++ client and
// agents.
//
// Plain values; the functions may be called from any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/xdg.h"

namespace tunefarm {

struct DialOptions {
  std::string address;      // "unix:/path" or "host:port"
  std::string ca;           // file: the daemon's certificate must be signed by one of these; set: TLS
  std::string certificate;  // file: of the caller; with `key`
  std::string key;          // file
  std::string token;        // "tft_..."
  std::string token_file;   // instead of it
};

// What is empty comes from the environment: TUNEFARM_TLS_CA, TUNEFARM_CLIENT_CERTIFICATE and TUNEFARM_CLIENT_KEY (other
// names than those of the daemon's own), TUNEFARM_TOKEN, TUNEFARM_TOKEN_FILE. One that was given wins over its kind.
DialOptions WithEnvironment(DialOptions options, const EnvironmentGetter& environment);

// Checks the address, reads the token's file and checks that all goes together: a certificate has a key and needs TLS,
// no token is sent as plain text but to this machine, and no other user can read the key or the token's file.
// InvalidArgument, or ErrnoStatus with the file's name.
absl::StatusOr<DialOptions> Checked(DialOptions options);

// InvalidArgument for what is neither "unix:/path" (of at most 107 bytes) nor "host:port" (IPv6: "[::1]:port").
absl::Status CheckAddress(const std::string& address);

// Reads the certificates and the key, at most 1 MiB each. InvalidArgument for a file that holds none, for a key with a
// passphrase (nobody is asked for it), and for a key that is not the certificate's; ErrnoStatus.
absl::Status CheckTlsFiles(const DialOptions& options);

// Whether what is sent to the address stays on this machine.
bool StaysHere(const std::string& address);

// What is wrong with TLS, as far as one more attempt can tell: the certificate of the daemon has expired, is of another
// CA or for another name; it expects TLS, or does not know it. OK: nothing is wrong with TLS, or nobody listens. Takes
// at most some seconds.
absl::Status ExplainTls(const DialOptions& options);

// Why no connection came about, as far as one more attempt can tell; never OK. Unavailable with a reason: NO_DAEMON,
// NO_PERMISSION, HOST_UNKNOWN, HOST_UNREACHABLE, NOT_ANSWERING (it accepts connections and says nothing), NOT_A_DAEMON
// or those of ExplainTls. Takes at most some seconds, but as long as the resolver takes for a host's name.
absl::Status ExplainUnreachable(const DialOptions& options);

}  // namespace tunefarm
