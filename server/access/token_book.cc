#include "server/access/token_book.h"

#include <fmt/core.h>
#include <openssl/crypto.h>

#include <array>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr std::string_view kPrefix = "tft_";
constexpr size_t kSecretBytes = 32;
constexpr size_t kTokenBytes = 4 + 2 * kSecretBytes;
constexpr Duration kFresh = std::chrono::seconds(10);
constexpr Duration kWithoutStore = std::chrono::minutes(10);
constexpr int64_t kTouchMs = 10 * 60 * 1000;
constexpr int64_t kLifeMinMs = 1000;
constexpr double kUnknownPerSecond = 100;

}  // namespace

TokenBook::TokenBook(TokenStore* store, EntropySource* entropy, Clock* clock)
    : store_(store),
      entropy_(entropy),
      clock_(clock),
      unknown_(kUnknownPerSecond, 2 * kUnknownPerSecond, clock->Now()),
      executor_("tokens", clock) {}

absl::Status TokenBook::RequireStore() const {
  if (store_ != nullptr) return absl::OkStatus();
  return WithReason(Unimplemented("this daemon's database keeps no tokens; use certificates"), "NO_TOKENS");
}

absl::StatusOr<NewToken> TokenBook::Create(std::string_view name, std::string_view roles, int64_t life_ms) {
  RETURN_IF_ERROR(RequireStore());
  RETURN_IF_ERROR(CheckPrincipalName(name));
  ASSIGN_OR_RETURN(const Rights rights, ParseRoles(roles));
  if (rights.Has(Right::kAgent)) {
    return WithReason(InvalidArgument("the role agent needs a certificate (tunefarm certs issue --role agent); a token "
                                      "cannot have it"),
                      "ROLE_UNKNOWN");
  }
  if (life_ms == 0) life_ms = kTokenLifeDefaultMs;
  if (life_ms < kLifeMinMs || life_ms > kTokenLifeMaxMs) {
    return WithReason(InvalidArgument("the token would live for {} s; it must be 1 s to 366 days", life_ms / 1000),
                      "TOKEN_LIFE");
  }
  std::array<uint8_t, kSecretBytes> secret;
  entropy_->Fill(secret.data(), secret.size());
  NewToken made;
  made.token = kPrefix;
  for (const uint8_t byte : secret) made.token += fmt::format("{:02x}", byte);
  OPENSSL_cleanse(secret.data(), secret.size());
  made.row.name = name;
  made.row.roles = roles;
  made.row.digest = Sha256(made.token).Hex();
  made.row.created_at_ms = clock_->WallMs();
  made.row.expires_at_ms = made.row.created_at_ms + life_ms;
  RETURN_IF_ERROR(store_->PutToken(made.row));
  return made;
}

absl::StatusOr<std::vector<TokenRow>> TokenBook::List() {
  RETURN_IF_ERROR(RequireStore());
  return store_->ListTokens();
}

absl::StatusOr<TokenRow> TokenBook::Revoke(std::string_view name) {
  RETURN_IF_ERROR(RequireStore());
  ASSIGN_OR_RETURN(TokenRow row, store_->RevokeToken(name, clock_->WallMs()));
  MutexLock lock(&mutex_);
  ++revocations_;
  known_.erase(row.digest);
  return row;
}

absl::StatusOr<TokenBook::Known> TokenBook::Read(const std::string& digest) {
  ASSIGN_OR_RETURN(const std::optional<TokenRow> row, store_->FindToken(digest));
  if (!row) {
    return WithReason(Unauthenticated("the token is not one of this farm's; tunefarm token create makes one"),
                      "TOKEN_UNKNOWN");
  }
  // Written by a later version, it may have roles that are unknown here: then it may do nothing.
  const absl::StatusOr<Rights> rights = ParseRoles(row->roles);
  return Known{*row, rights.ok() ? rights->Without(Right::kAgent) : Rights(), clock_->Now()};
}

absl::StatusOr<Principal> TokenBook::Judge(const Known& known, std::string_view digest) const {
  // Equal time whatever differs. (That a digest is found at all tells nothing: nobody can aim at one.)
  if (known.row.digest.size() != digest.size() ||
      CRYPTO_memcmp(known.row.digest.data(), digest.data(), digest.size()) != 0) {
    return WithReason(Unauthenticated("the token is not one of this farm's; tunefarm token create makes one"),
                      "TOKEN_UNKNOWN");
  }
  if (known.row.revoked_at_ms != 0) {
    return WithReason(Unauthenticated("the token {} was revoked", known.row.name), "TOKEN_REVOKED");
  }
  if (known.row.expires_at_ms <= clock_->WallMs()) {
    return WithReason(
        Unauthenticated("the token {} has expired; tunefarm token create makes a new one", known.row.name),
        "TOKEN_EXPIRED");
  }
  return Principal{known.row.name, PrincipalKind::kToken, known.rights, known.row.digest};
}

absl::StatusOr<Principal> TokenBook::Find(std::string_view token) {
  RETURN_IF_ERROR(RequireStore());
  if (token.size() != kTokenBytes || token.substr(0, kPrefix.size()) != kPrefix) {
    return WithReason(
        Unauthenticated("what was sent is no token: one is '{}' and {} digits", kPrefix, 2 * kSecretBytes),
        "TOKEN_INVALID");
  }
  return FindDigest(Sha256(token).Hex());
}

absl::StatusOr<Principal> TokenBook::FindDigest(const std::string& digest) {
  const MonotonicTime now = clock_->Now();
  std::optional<Known> known;
  uint64_t revocations = 0;
  {
    MutexLock lock(&mutex_);
    revocations = revocations_;
    const auto at = known_.find(digest);
    if (at != known_.end()) known = at->second;
    if (!known) {
      if (const Duration wait = unknown_.Take(now); wait > Duration::zero()) {
        return WithMetadata(WithReason(ResourceExhausted("too many unknown tokens are tried; try again"), "RATE_LIMIT"),
                            "retry_after_ms", std::to_string(wait / std::chrono::milliseconds(1) + 1));
      }
    }
  }
  if (known && now - known->read_at < kFresh) return Judge(*known, digest);
  absl::StatusOr<Known> read = Read(digest);
  if (!read.ok()) {
    const bool is_unknown = read.status().code() == absl::StatusCode::kUnauthenticated;
    if (!is_unknown && known && now - known->read_at < kWithoutStore) return Judge(*known, digest);
    if (is_unknown) {
      MutexLock lock(&mutex_);
      known_.erase(digest);
    }
    return read.status();
  }
  {
    MutexLock lock(&mutex_);
    // Of what is not valid nothing is kept, so that the map is no larger than the store allows.
    if (known_.size() >= kTokensMax) known_.clear();
    if (revocations == revocations_) known_.insert_or_assign(digest, *read);
  }
  absl::StatusOr<Principal> principal = Judge(*read, digest);
  const int64_t wall_ms = clock_->WallMs();
  if (principal.ok() && wall_ms - read->row.last_used_at_ms >= kTouchMs) {
    executor_.Post([this, digest, wall_ms] {
      const absl::Status touched = store_->TouchToken(digest, wall_ms);
      if (!touched.ok()) LogDebug("access", "the use of a token is not noted: {}", MessageOf(touched));
    });
  }
  return principal;
}

}  // namespace tunefarm
