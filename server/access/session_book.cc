#include "server/access/session_book.h"

#include <fmt/core.h>
#include <openssl/crypto.h>

#include <algorithm>
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
// Of one principal, so that it keeps no others from logging in.
constexpr size_t kOwnCodesMax = 20;
constexpr size_t kOwnSessionsMax = 200;
constexpr Duration kCodeLife = std::chrono::minutes(2);
constexpr Duration kSessionLife = std::chrono::hours(24);
constexpr Duration kIdleMax = std::chrono::hours(12);

std::string DigestOf(std::string_view secret) { return Sha256(secret).Hex(); }

}  // namespace

bool SessionBook::HaveOneOwner(const Principal& one, const Principal& other) {
  return one.name == other.name && one.owner == other.owner;
}

Principal SessionBook::SessionOf(const Principal& owner, Rights rights) {
  Principal principal;
  principal.name = owner.name;
  principal.kind = PrincipalKind::kSession;
  principal.owner = owner.kind;
  principal.rights = rights;
  principal.token = owner.kind == PrincipalKind::kToken ? owner.token : "";
  principal.expires_at_ms = owner.expires_at_ms;
  return principal;
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
  Principal principal = SessionOf(owner, rights);
  const auto own = static_cast<size_t>(std::count_if(codes_.begin(), codes_.end(), [&principal](const auto& entry) {
    return HaveOneOwner(entry.second.principal, principal);
  }));
  if (own >= kOwnCodesMax) {
    return WithReason(ResourceExhausted("{} has {} login codes that wait to be used, as many as it may; use one, or "
                                        "try again in two minutes",
                                        owner.Text(), own),
                      "TOO_MANY_LOGIN_CODES");
  }
  codes_.emplace(DigestOf(made.code), Code{std::move(principal), now + kCodeLife});
  return made;
}

absl::StatusOr<NewSession> SessionBook::Begin(Principal principal) {
  const MonotonicTime now = clock_->Now();
  std::erase_if(sessions_, [now](const auto& entry) { return IsOver(entry.second, now); });
  size_t own = 0;
  auto unused = sessions_.end();  // the owner's own, for the longest time
  for (auto at = sessions_.begin(); at != sessions_.end(); ++at) {
    if (!HaveOneOwner(at->second.principal, principal)) continue;
    ++own;
    if (unused == sessions_.end() || at->second.used_at < unused->second.used_at) unused = at;
  }
  if (own >= kOwnSessionsMax) sessions_.erase(unused);
  if (sessions_.size() >= kSessionsMax) {
    return WithReason(
        ResourceExhausted("{} sessions are open, no more are made; log out where a session is not needed, or restart "
                          "the daemon, which ends all",
                          sessions_.size()),
        "TOO_MANY_SESSIONS");
  }
  NewSession made;
  made.secret = std::string(kSessionPrefix) + NewSecret();
  const int64_t wall_ms = clock_->WallMs();
  int64_t life_ms = kSessionLife / std::chrono::milliseconds(1);
  if (principal.expires_at_ms > 0) life_ms = std::min(life_ms, principal.expires_at_ms - wall_ms);
  principal.expires_at_ms = wall_ms + life_ms;
  principal.session = DigestOf(made.secret);
  made.principal = principal;
  std::string digest = principal.session;
  sessions_.emplace(std::move(digest), Session{std::move(principal), now + std::chrono::milliseconds(life_ms), now});
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
  Principal principal = std::move(found->second.principal);
  codes_.erase(found);
  return Begin(std::move(principal));
}

absl::StatusOr<NewSession> SessionBook::Open(const Principal& owner) {
  Rights rights;
  for (const Right right : {Right::kLookup, Right::kSubmit, Right::kAdmin}) {
    if (owner.Has(right)) rights = rights.With(right);
  }
  MutexLock lock(&mutex_);
  return Begin(SessionOf(owner, rights));
}

bool SessionBook::End(std::string_view digest) {
  MutexLock lock(&mutex_);
  return sessions_.erase(std::string(digest)) > 0;
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
  if (session->principal.token.empty()) return session->principal;
  const absl::Status token = tokens_->FindDigest(session->principal.token).status();
  if (token.ok()) return session->principal;
  if (token.code() == absl::StatusCode::kUnauthenticated) End(digest);
  return token;
}

}  // namespace tunefarm
