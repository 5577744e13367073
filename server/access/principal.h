// Principal: who calls, and what that may do. A socket, a certificate or a token is an identity; its roles are sets of
// rights.
//
// Plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tunefarm {

enum class Right : uint8_t {
  kLookup,   // look-ups, lists, watches, reads
  kSubmit,   // jobs of kernels that are stored
  kKernels,  // definitions of kernels: code that the farm compiles and runs
  kAgent,    // AgentService
  kAdmin,    // everything else
};
std::string_view RightName(Right right);

// A set of rights.
class Rights {
 public:
  constexpr Rights() = default;
  constexpr Rights With(Right right) const { return Rights(bits_ | Bit(right)); }
  constexpr Rights With(Rights other) const { return Rights(bits_ | other.bits_); }
  constexpr Rights Without(Right right) const { return Rights(bits_ & static_cast<uint8_t>(~Bit(right))); }
  // Admin has every right but that of agents: to be one is to report results that are believed.
  constexpr bool Has(Right right) const {
    return (bits_ & Bit(right)) != 0 || (right != Right::kAgent && (bits_ & Bit(Right::kAdmin)) != 0);
  }
  friend constexpr bool operator==(Rights, Rights) = default;

 private:
  explicit constexpr Rights(uint8_t bits) : bits_(bits) {}
  static constexpr uint8_t Bit(Right right) { return static_cast<uint8_t>(1U << static_cast<unsigned>(right)); }
  uint8_t bits_ = 0;
};

// Roles in one text, such as "submit,kernels": lookup; submit (and lookup); kernels (and lookup); agent (and lookup);
// admin. InvalidArgument (ROLE_UNKNOWN) that names the word, the role that may have been meant, and all there are; also
// for none and for one given twice.
absl::StatusOr<Rights> ParseRoles(std::string_view roles, char separator = ',');

// 1 to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit: names of principals. InvalidArgument
// (PRINCIPAL_NAME_INVALID).
absl::Status CheckPrincipalName(std::string_view name);

enum class PrincipalKind {
  kSocket,
  kCertificate,
  kToken,
  kSession,  // of the dashboard; its name is that of who made it
  kVisitor,  // who has shown nothing yet, and may use a login code
};
std::string_view PrincipalKindName(PrincipalKind kind);

struct Principal {
  std::string name;  // "admin.sock", "submit+kernels/alice", "ci"
  PrincipalKind kind = PrincipalKind::kSocket;
  Rights rights;
  std::string token = {};    // SHA-256 of the token that was shown, or that made the session; empty: none
  std::string session = {};  // of a session: SHA-256 of its secret
  PrincipalKind owner = PrincipalKind::kSocket;  // of a session: who made it
  int64_t expires_at_ms = 0;  // of a certificate or session: when it ends at the latest, since 1970 UTC

  // A session never has the roles `kernels` and `agent`, also when an administrator created it.
  bool Has(Right right) const {
    return rights.Has(right) &&
           (kind != PrincipalKind::kSession || (right != Right::kKernels && right != Right::kAgent));
  }
  // Jobs, kernels and requests of these belong to all who can open a socket of this machine.
  bool IsOfSocket() const {
    return kind == PrincipalKind::kSocket || (kind == PrincipalKind::kSession && owner == PrincipalKind::kSocket);
  }
  // "the certificate submit/alice".
  std::string Text() const;
};

// The socket is the identity of who can open it.
Principal AdminSocket();
Principal ClientSocket();
// Of plain text on loopback, to which all users of the machine can connect, with the rights of the client socket. What
// is kept for users of that socket only (CacheApi) is not theirs.
Principal LoopbackListener();
// Of plain text that the configuration allows in spite of everything (insecure_plaintext): agents too.
Principal InsecureListener();
// Of a listener of the dashboard, for the call that uses a login code.
Principal Visitor();

// Of a certificate's URI "tunefarm://<role[+role]>/<name>", such as tunefarm://submit+kernels/alice. Unauthenticated
// (CERTIFICATE_IDENTITY) with the URI and the form that is expected.
absl::StatusOr<Principal> PrincipalOfUri(std::string_view uri);
std::string UriOf(std::string_view roles, std::string_view name);  // roles "submit,kernels"

// OK, or PermissionDenied, which names the role that has the right: ADMIN_ONLY where that is admin, else RIGHT_MISSING.
// `does`: what is asked for, as CallRule::does.
absl::Status CheckRight(const Principal& principal, Right right, std::string_view does);

}  // namespace tunefarm
