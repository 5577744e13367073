#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/facets.h"
#include "server/store/postgres/rows.h"
#include "server/store/token_store.h"

namespace tunefarm::postgres {
namespace {

absl::StatusOr<std::optional<TokenRow>> FindNamed(Session& session, std::string_view name) {
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT " TUNEFARM_TOKEN_COLUMNS " FROM access_token WHERE name = $1", name));
  if (rows.empty()) return std::optional<TokenRow>();
  return std::optional<TokenRow>(ReadToken(rows[0]));
}

class PostgresTokens final : public Facet<TokenStore> {
 public:
  using Facet::Facet;

  absl::Status PutToken(const TokenRow& token) override {
    return pool_->Write([&](Session& session) -> absl::Status {
      // Tokens are made rarely, and two of one name at once must not both find the place free.
      RETURN_IF_ERROR(session.Script("LOCK TABLE access_token IN SHARE ROW EXCLUSIVE MODE"));
      ASSIGN_OR_RETURN(const std::optional<TokenRow> before, FindNamed(session, token.name));
      if (before && before->revoked_at_ms == 0 && before->expires_at_ms > token.created_at_ms) {
        return WithReason(
            AlreadyExists("there is a token named {}; revoke it first, or choose another name", token.name),
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
          .Run("INSERT INTO access_token (" TUNEFARM_TOKEN_COLUMNS ") VALUES ($1, $2, $3, $4, $5, $6, $7)", token.name,
               token.digest, token.roles, token.created_at_ms, token.expires_at_ms, ZeroAsNull{token.last_used_at_ms},
               ZeroAsNull{token.revoked_at_ms})
          .status();
    });
  }

  absl::StatusOr<std::vector<TokenRow>> ListTokens() override {
    return pool_->Call(&Pool::Read, [](Session& session) -> absl::StatusOr<std::vector<TokenRow>> {
      ASSIGN_OR_RETURN(const Rows rows,
                       session.Query("SELECT " TUNEFARM_TOKEN_COLUMNS " FROM access_token ORDER BY name"));
      return ReadAll(rows, ReadToken<Row>);
    });
  }

  absl::StatusOr<std::optional<TokenRow>> FindToken(std::string_view digest) override {
    return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<std::optional<TokenRow>> {
      ASSIGN_OR_RETURN(const Rows rows,
                       session.Query("SELECT " TUNEFARM_TOKEN_COLUMNS " FROM access_token WHERE digest = $1", digest));
      if (rows.empty()) return std::optional<TokenRow>();
      return std::optional<TokenRow>(ReadToken(rows[0]));
    });
  }

  absl::StatusOr<TokenRow> RevokeToken(std::string_view name, int64_t now_ms) override {
    return pool_->Call(&Pool::Write, [&](Session& session) -> absl::StatusOr<TokenRow> {
      RETURN_IF_ERROR(
          session
              .Run("UPDATE access_token SET revoked_at_ms = coalesce(revoked_at_ms, $2) WHERE name = $1", name, now_ms)
              .status());
      ASSIGN_OR_RETURN(const std::optional<TokenRow> token, FindNamed(session, name));
      if (token) return *token;
      return WithReason(NotFound("there is no token named {}; tunefarm token list shows all", name), "TOKEN_NOT_FOUND");
    });
  }

  absl::Status TouchToken(std::string_view digest, int64_t used_at_ms) override {
    return pool_->Write([&](Session& session) {
      return session
          .Run("UPDATE access_token SET last_used_at_ms = greatest(coalesce(last_used_at_ms, 0), $2) WHERE digest = $1",
               digest, used_at_ms)
          .status();
    });
  }
};

}  // namespace

std::unique_ptr<TokenStore> NewTokenStore(const Shared& shared) { return std::make_unique<PostgresTokens>(shared); }

}  // namespace tunefarm::postgres
