#include "server/access/gate.h"

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr std::string_view kBearer = "Bearer ";

bool IsRefusal(const absl::Status& status) {
  return status.code() == absl::StatusCode::kPermissionDenied || status.code() == absl::StatusCode::kUnauthenticated ||
         status.code() == absl::StatusCode::kResourceExhausted;
}

AuditEntry EntryOf(const Principal& principal, std::string_view peer, std::string_view call, std::string_view resource,
                   const absl::Status& outcome) {
  AuditEntry entry;
  entry.principal = principal.name;
  entry.kind = std::string(PrincipalKindName(principal.kind));
  entry.peer = std::string(peer);
  entry.call = std::string(call);
  entry.resource = std::string(resource);
  entry.outcome = outcome;
  return entry;
}

}  // namespace

absl::StatusOr<Principal> Gate::Identify(const Caller& caller) const {
  if (!caller.authorization.empty()) {
    if (caller.authorization.compare(0, kBearer.size(), kBearer) != 0) {
      return WithReason(Unauthenticated("the authorization is no bearer token; send 'Bearer tft_...'"),
                        "TOKEN_INVALID");
    }
    if (caller.is_readable) {
      return WithReason(Unauthenticated("a token was sent as plain text, where others may have read it; revoke it, and "
                                        "use TLS"),
                        "TOKEN_IN_PLAINTEXT");
    }
    const std::string_view secret = std::string_view(caller.authorization).substr(kBearer.size());
    if (options_.sessions != nullptr && secret.substr(0, kSessionPrefix.size()) == kSessionPrefix) {
      return options_.sessions->Find(secret);
    }
    if (options_.tokens == nullptr) {
      return WithReason(Unauthenticated("this daemon accepts no tokens"), "TOKEN_UNKNOWN");
    }
    return options_.tokens->Find(secret);
  }
  if (caller.identity != nullptr) return *caller.identity;
  if (!caller.certificate.empty() && options_.certificates != nullptr) {
    absl::StatusOr<Principal> shown = options_.certificates->Check(caller.certificate, caller.certificate_chain);
    if (shown.ok() || caller.otherwise == nullptr) return shown;
  }
  if (caller.otherwise != nullptr) return *caller.otherwise;
  return WithReason(Unauthenticated("the call has no identity: give a certificate (--tls-certificate, --tls-key) or a "
                                    "token (--token-file)"),
                    "IDENTITY_MISSING");
}

absl::StatusOr<Principal> Gate::Admit(const Caller& caller, std::string_view call) const {
  const CallRule* const rule = RuleOf(call);
  absl::StatusOr<Principal> principal = Identify(caller);
  absl::Status refused;
  if (!principal.ok()) {
    refused = principal.status();
  } else if (rule == nullptr) {
    refused =
        WithReason(PermissionDenied("{} may not be called: it is not in the table of calls", call), "CALL_UNKNOWN");
  } else {
    refused = CheckRight(*principal, rule->right, rule->does);
    if (refused.ok() && options_.rates != nullptr) refused = options_.rates->Take(*principal, rule->rate);
  }
  if (refused.ok()) return principal;
  if (options_.audit != nullptr && IsRefusal(refused)) {
    const Principal nobody{"", PrincipalKind::kSocket, {}};
    AuditEntry entry = EntryOf(principal.ok() ? *principal : nobody, caller.peer, call, "", refused);
    if (!principal.ok()) entry.kind = "unknown";
    options_.audit->Record(std::move(entry));
  }
  return refused;
}

void Gate::Record(const Principal& principal, std::string_view peer, std::string_view call, std::string_view resource,
                  const absl::Status& outcome) const {
  if (options_.audit == nullptr) return;
  const CallRule* const rule = RuleOf(call);
  const bool has_changed = outcome.ok() && rule != nullptr && rule->is_change;
  if (has_changed || IsRefusal(outcome)) options_.audit->Record(EntryOf(principal, peer, call, resource, outcome));
}

void Gate::RecordHandshake(std::string_view what) const {
  if (options_.audit == nullptr) return;
  AuditEntry entry;
  entry.kind = "unknown";
  entry.call = "handshake";
  entry.outcome = WithReason(Unauthenticated("{}", what), "HANDSHAKE_FAILED");
  options_.audit->Record(std::move(entry));
}

}  // namespace tunefarm
