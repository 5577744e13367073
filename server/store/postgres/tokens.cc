#include "server/store/postgres/tokens.h"

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/session.h"

namespace tunefarm::postgres {
namespace {

#define TUNEFARM_PG_TOKEN_COLUMNS "name, digest, roles, created_at_ms, expires_at_ms, last_used_at_ms, revoked_at_ms"

TokenRow ReadToken(const Row& row) {
  TokenRow token;
  token.name = row.Bytes(0);
  token.digest = row.Bytes(1);
  token.roles = row.Bytes(2);
  token.created_at_ms = row.Int(3);
  token.expires_at_ms = row.Int(4);
  token.last_used_at_ms = row.Int(5);
  token.revoked_at_ms = row.Int(6);
  return token;
}

absl::StatusOr<std::optional<TokenRow>> FindNamed(Session& session, std::string_view name) {
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_PG_TOKEN_COLUMNS " FROM access_token WHERE name = $1", name));
  if (rows.empty()) return std::optional<TokenRow>();
  return std::optional<TokenRow>(ReadToken(rows[0]));
}

absl::Status Put(Session& session, const TokenRow& token) {
  // Tokens are made rarely, and two of one name at once must not both find the place free.
  RETURN_IF_ERROR(session.Script("LOCK TABLE access_token IN SHARE ROW EXCLUSIVE MODE"));
  ASSIGN_OR_RETURN(const std::optional<TokenRow> before, FindNamed(session, token.name));
  if (before && before->revoked_at_ms == 0 && before->expires_at_ms > token.created_at_ms) {
    return WithReason(AlreadyExists("there is a token named {}; revoke it first, or choose another name", token.name),
                      "TOKEN_EXISTS");
  }
  RETURN_IF_ERROR(session.Run("DELETE FROM access_token WHERE name = $1", token.name).status());
  ASSIGN_OR_RETURN(const int64_t count, session.QueryInt("SELECT count(*) FROM access_token"));
  if (count >= kTokensMax) {
    return WithReason(
        ResourceExhausted("there are {} tokens, as many as are kept; use names of revoked ones again", kTokensMax),
        "TOKENS_MAX");
  }
  return session
      .Run("INSERT INTO access_token (" TUNEFARM_PG_TOKEN_COLUMNS ") VALUES ($1, $2, $3, $4, $5, $6, $7)", token.name,
           token.digest, token.roles, token.created_at_ms, token.expires_at_ms, ZeroAsNull{token.last_used_at_ms},
           ZeroAsNull{token.revoked_at_ms})
      .status();
}

absl::StatusOr<TokenRow> Revoke(Session& session, std::string_view name, int64_t now_ms) {
  RETURN_IF_ERROR(
      session.Run("UPDATE access_token SET revoked_at_ms = coalesce(revoked_at_ms, $2) WHERE name = $1", name, now_ms)
          .status());
  ASSIGN_OR_RETURN(const std::optional<TokenRow> token, FindNamed(session, name));
  if (token) return *token;
  return WithReason(NotFound("there is no token named {}; tunefarm token list shows all", name), "TOKEN_NOT_FOUND");
}

absl::StatusOr<std::vector<TokenRow>> List(Session& session) {
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_PG_TOKEN_COLUMNS " FROM access_token ORDER BY name"));
  std::vector<TokenRow> tokens;
  for (int i = 0; i < rows.size(); ++i) tokens.push_back(ReadToken(rows[i]));
  return tokens;
}

}  // namespace

absl::Status PostgresTokenStore::PutToken(const TokenRow& token) {
  return pool_->Write([&](Session& session) { return Put(session, token); });
}

absl::StatusOr<std::vector<TokenRow>> PostgresTokenStore::ListTokens() { return pool_->Call(&Pool::Read, List); }

absl::StatusOr<std::optional<TokenRow>> PostgresTokenStore::FindToken(std::string_view digest) {
  return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<std::optional<TokenRow>> {
    ASSIGN_OR_RETURN(const Rows rows,
                     session.Query("SELECT " TUNEFARM_PG_TOKEN_COLUMNS " FROM access_token WHERE digest = $1", digest));
    if (rows.empty()) return std::optional<TokenRow>();
    return std::optional<TokenRow>(ReadToken(rows[0]));
  });
}

absl::StatusOr<TokenRow> PostgresTokenStore::RevokeToken(std::string_view name, int64_t now_ms) {
  return pool_->Call(&Pool::Write, [&](Session& session) { return Revoke(session, name, now_ms); });
}

absl::Status PostgresTokenStore::TouchToken(std::string_view digest, int64_t used_at_ms) {
  return pool_->Write([&](Session& session) {
    return session
        .Run("UPDATE access_token SET last_used_at_ms = greatest(coalesce(last_used_at_ms, 0), $2) WHERE digest = $1",
             digest, used_at_ms)
        .status();
  });
}

}  // namespace tunefarm::postgres
