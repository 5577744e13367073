// Gate: the one place that every call passes: who is it, may it, not too often; what was refused or changed goes to
// the audit log. Without transport: an adapter says what it knows of the caller.
//
// Threads: all methods from any thread. A call of a socket costs a look into a table; one of a certificate or token the
// same and a map, but for once in ten seconds.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/audit_log.h"
#include "server/access/call_rules.h"
#include "server/access/certificate_check.h"
#include "server/access/principal.h"
#include "server/access/rate_limit.h"
#include "server/access/session_book.h"
#include "server/access/token_book.h"

namespace tunefarm {

// What a transport knows of who calls.
struct Caller {
  // Of the socket, or of the plain-text listener; null: with TLS.
  const Principal* identity = nullptr;
  std::string peer;  // "ipv4:10.0.0.7:51234", "unix:"
  // What the peer has proven to have the key of, and what it sent along; PEM, empty: none.
  std::string certificate;
  std::string certificate_chain;
  std::string authorization;  // the header's value; empty: none
  // Of a call that needs none of these: who makes it where there is none that is valid, such as a browser that sends a
  // certificate of another authority. Null: it is refused.
  const Principal* otherwise = nullptr;
  bool is_readable = false;  // by others on the way: plain text on a network
};

struct GateOptions {
  // All may be null, and outlive the gate: then there are no tokens, no certificates, no limits, no log, no sessions.
  TokenBook* tokens = nullptr;
  CertificateCheck* certificates = nullptr;
  RateLimits* rates = nullptr;
  AuditLog* audit = nullptr;
  SessionBook* sessions = nullptr;
};

class Gate {
 public:
  explicit Gate(GateOptions options) : options_(options) {}

  // Who it is, if that may make the call now. A token or session comes before a certificate,
  // and that before the socket.
  //   Unauthenticated: IDENTITY_MISSING, CERTIFICATE_*, TOKEN_*, SESSION_INVALID.
  //   PermissionDenied: ADMIN_ONLY, RIGHT_MISSING, CALL_UNKNOWN.
  //   ResourceExhausted: RATE_LIMIT, with retry_after_ms in its metadata.
  // The refusal is in the audit log.
  absl::StatusOr<Principal> Admit(const Caller& caller, std::string_view call) const;

  // After the call: into the log goes what it has changed, or that it was refused for who called. `resource`: what it
  // was about.
  void Record(const Principal& principal, std::string_view peer, std::string_view call, std::string_view resource,
              const absl::Status& outcome) const;

  // What never became a call: a handshake that failed.
  void RecordHandshake(std::string_view what) const;

 private:
  absl::StatusOr<Principal> Identify(const Caller& caller) const;

  const GateOptions options_;
};

}  // namespace tunefarm
