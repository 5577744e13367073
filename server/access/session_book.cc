#include "server/access/session_book.h"

#include <fmt/core.h>
#include <openssl/crypto.h>

#include <array>
#include <optional>
#include <utility>

#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr size_t kCodesMax = 100;
constexpr size_t kSessionsMax = 1000;
constexpr Duration kCodeLife = std::chrono::minutes(2);
constexpr Duration kSessionLife = std::chrono::hours(24);
constexpr Duration kIdleMax = std::chrono::hours(12);

std::string DigestOf(std::string_view secret) { return Sha256(secret).Hex(); }

}  // namespace

SessionBook::Grant SessionBook::GrantOf(const Principal& owner, Rights rights) {
  Grant grant;
  grant.principal.name = owner.name;
  grant.principal.kind = PrincipalKind::kSession;
  grant.principal.owner = owner.kind;
  grant.principal.rights = rights;
  grant.token_digest = owner.kind == PrincipalKind::kToken ? owner.credential : "";
  return grant;
}

std::string SessionBook::NewSecret() {
  std::array<uint8_t, 32> bytes;
  entropy_->Fill(bytes.data(), bytes.size());
  std::string secret;
  for (const uint8_t byte : bytes) secret += fmt::format("{:02x}", byte);
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return secret;
}

bool SessionBook::IsOver(const Session& session, MonotonicTime now) {
  return now >= session.until || now - session.used_at >= kIdleMax;
}

absl::StatusOr<NewLoginCode> SessionBook::CreateCode(const Principal& owner, std::string_view roles) {
  Rights rights;
  if (roles.empty()) {
    for (const Right right : {Right::kLookup, Right::kSubmit}) {
      if (owner.Has(right)) rights = rights.With(right);
    }
  } else {
    ASSIGN_OR_RETURN(rights, ParseRoles(roles));
    if (rights.Has(Right::kAgent) || rights.Without(Right::kAdmin).Has(Right::kKernels)) {
      return WithReason(InvalidArgument("a session of the dashboard cannot have the roles kernels and agent; it can "
                                        "have lookup, submit and admin"),
                        "ROLE_UNKNOWN");
    }
    for (const Right right : {Right::kLookup, Right::kSubmit, Right::kAdmin}) {
      if (rights.Has(right) && !owner.Has(right)) {
        return WithReason(PermissionDenied("{} has not the right {}, and cannot give it to a session", owner.Text(),
                                           RightName(right)),
                          "RIGHT_MISSING");
      }
    }
  }
  const MonotonicTime now = clock_->Now();
  NewLoginCode made;
  made.code = NewSecret();
  made.expires_at_ms = clock_->WallMs() + kCodeLife / std::chrono::milliseconds(1);
  MutexLock lock(&mutex_);
  std::erase_if(codes_, [now](const auto& entry) { return now >= entry.second.until; });
  if (codes_.size() >= kCodesMax) {
    return WithReason(
        ResourceExhausted("{} login codes wait to be used, no more are made; try again in two minutes", codes_.size()),
        "TOO_MANY_LOGIN_CODES");
  }
  codes_.emplace(DigestOf(made.code), Code{GrantOf(owner, rights), now + kCodeLife});
  return made;
}

absl::StatusOr<NewSession> SessionBook::Begin(Grant grant) {
  const MonotonicTime now = clock_->Now();
  std::erase_if(sessions_, [now](const auto& entry) { return IsOver(entry.second, now); });
  if (sessions_.size() >= kSessionsMax) {
    return WithReason(
        ResourceExhausted("{} sessions are open, no more are made; end some of them, or restart the daemon",
                          sessions_.size()),
        "TOO_MANY_SESSIONS");
  }
  NewSession made;
  made.secret = std::string(kSessionPrefix) + NewSecret();
  grant.principal.expires_at_ms = clock_->WallMs() + kSessionLife / std::chrono::milliseconds(1);
  grant.principal.credential = DigestOf(made.secret);
  made.principal = grant.principal;
  std::string digest = grant.principal.credential;
  sessions_.emplace(std::move(digest), Session{std::move(grant), now + kSessionLife, now});
  return made;
}

absl::StatusOr<NewSession> SessionBook::Redeem(std::string_view code) {
  MutexLock lock(&mutex_);
  const auto found = codes_.find(DigestOf(code));
  if (found == codes_.end() || clock_->Now() >= found->second.until) {
    if (found != codes_.end()) codes_.erase(found);
    return WithReason(Unauthenticated("the login code is unknown, used or older than two minutes; tunefarm dashboard "
                                      "makes a new one"),
                      "LOGIN_CODE_INVALID");
  }
  Grant grant = std::move(found->second.grant);
  codes_.erase(found);
  return Begin(std::move(grant));
}

absl::StatusOr<NewSession> SessionBook::Open(const Principal& owner) {
  Rights rights;
  for (const Right right : {Right::kLookup, Right::kSubmit, Right::kAdmin}) {
    if (owner.Has(right)) rights = rights.With(right);
  }
  MutexLock lock(&mutex_);
  return Begin(GrantOf(owner, rights));
}

bool SessionBook::End(std::string_view credential) {
  MutexLock lock(&mutex_);
  return sessions_.erase(std::string(credential)) > 0;
}

absl::StatusOr<Principal> SessionBook::Find(std::string_view secret) {
  const std::string digest = DigestOf(secret);
  const MonotonicTime now = clock_->Now();
  std::optional<Session> session;
  {
    MutexLock lock(&mutex_);
    const auto found = sessions_.find(digest);
    if (found != sessions_.end() && IsOver(found->second, now)) {
      sessions_.erase(found);
    } else if (found != sessions_.end()) {
      found->second.used_at = now;
      session = found->second;
    }
  }
  if (!session) {
    return WithReason(Unauthenticated("the session is over or was never made; log in again (tunefarm dashboard)"),
                      "SESSION_INVALID");
  }
  if (session->grant.token_digest.empty()) return session->grant.principal;
  const absl::Status token = tokens_->FindDigest(session->grant.token_digest).status();
  if (token.ok()) return session->grant.principal;
  if (token.code() == absl::StatusCode::kUnauthenticated) End(digest);
  return token;
}

}  // namespace tunefarm
