// TlsContext: the certificate of an HTTPS listener. TLS 1.2 and newer. Files that are replaced are read again, within a
// second, for new connections; a pair that does not fit together is not taken.
//
// Threads: all methods from any thread.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/freed.h"
#include "server/base/mutex.h"

namespace tunefarm {

using SslPtr = std::unique_ptr<SSL, Freed<SSL_free>>;
using SslCertificatePtr = std::unique_ptr<X509, Freed<X509_free>>;

class TlsContext {
 public:
  // PEM; those that signed the certificate may follow it; the key has no password. `asks_for_certificates`: peers are
  // asked for one, which is judged by others. InvalidArgument or ErrnoStatus with the file's name.
  static absl::StatusOr<std::unique_ptr<TlsContext>> Open(const std::string& certificate_file,
                                                          const std::string& key_file, bool asks_for_certificates);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Of a connection that has just been accepted. Null where the library has no memory. The context outlives it.
  SslPtr Accept(int fd);
  // Whether the certificate is for this name or address ("farm-1.example", "10.0.0.1", "::1").
  bool IsFor(const std::string& host) LOCKS_EXCLUDED(mutex_);

 private:
  struct Pair;
  TlsContext(std::string certificate_file, std::string key_file);
  static int OnCertificate(SSL* ssl, void* context);
  absl::StatusOr<std::shared_ptr<const Pair>> Read() const;
  std::shared_ptr<const Pair> Current() LOCKS_EXCLUDED(mutex_);

  const std::string certificate_file_;
  const std::string key_file_;
  std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>> context_;
  Mutex mutex_;
  std::shared_ptr<const Pair> pair_ GUARDED_BY(mutex_);
  std::string stamp_ GUARDED_BY(mutex_);  // of the files when they were read
  MonotonicTime looked_at_ GUARDED_BY(mutex_);
};

// What the peer has shown, as PEM; empty: nothing.
struct PeerCertificate {
  std::string certificate, chain;
};
PeerCertificate PeerCertificateOf(SSL* ssl);

}  // namespace tunefarm
