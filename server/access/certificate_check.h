// CertificateCheck: whether a client's certificate is one of the farm's, and who that is. The transport has only seen
// that the peer has its key; all else is judged here, call by call, so that a refusal has a reason and an end of
// validity also ends connections that are open.
//
// Threads: all methods from any thread. A certificate is verified once in ten seconds.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/principal.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace tunefarm {

class CertificateCheck {
 public:
  // `ca_file`: PEM, one or several certificates; read again when it has changed. InvalidArgument or ErrnoStatus when
  // there is none in it. The clock outlives it.
  static absl::StatusOr<std::unique_ptr<CertificateCheck>> Open(const std::string& ca_file, Clock* clock);
  ~CertificateCheck();

  // Both PEM; `chain` (may be empty, may hold the certificate too): what the peer sent along. Unauthenticated:
  // CERTIFICATE_EXPIRED, CERTIFICATE_NOT_YET_VALID, CERTIFICATE_UNTRUSTED, CERTIFICATE_IDENTITY.
  absl::StatusOr<Principal> Check(const std::string& certificate, const std::string& chain) LOCKS_EXCLUDED(mutex_);

 private:
  struct Authorities;  // the trusted certificates
  struct Verdict {
    absl::StatusOr<Principal> principal;
    MonotonicTime judged_at;
  };

  CertificateCheck(std::string ca_file, Clock* clock);
  static absl::StatusOr<std::shared_ptr<const Authorities>> Read(const std::string& ca_file);
  std::shared_ptr<const Authorities> Current() LOCKS_EXCLUDED(mutex_);

  const std::string ca_file_;
  Clock* const clock_;
  Mutex mutex_;
  std::shared_ptr<const Authorities> authorities_ GUARDED_BY(mutex_);
  MonotonicTime looked_at_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, Verdict> verdicts_ GUARDED_BY(mutex_);  // by digest of both
};

// Whether the files are a certificate and its key, as a listener needs them. InvalidArgument or ErrnoStatus with the
// file's name.
absl::Status CheckKeyPair(const std::string& certificate_file, const std::string& key_file);

}  // namespace tunefarm
