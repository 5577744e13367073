#include "server/store/read_rows.h"
#include "server/store/shared/facets.h"
#include "server/store/token_store.h"

namespace tunefarm {
namespace {

absl::StatusOr<std::optional<TokenRow>> FindNamed(Sql& sql, std::string_view name) {
  return sql.ReadOne(ReadToken, "SELECT " TUNEFARM_TOKEN_COLUMNS " FROM access_token WHERE name = $1", name);
}

class Tokens final : public SharedFacet<TokenStore> {
 public:
  using SharedFacet::SharedFacet;

  absl::Status PutToken(const TokenRow& token) override {
    return backend_->Write([&](Sql& sql) -> absl::Status {
      // Tokens are made rarely, and two of one name at once must not both find the place free.
      RETURN_IF_ERROR(sql.Lock("LOCK TABLE access_token IN SHARE ROW EXCLUSIVE MODE"));
      ASSIGN_OR_RETURN(const std::optional<TokenRow> before, FindNamed(sql, token.name));
      if (before && before->revoked_at_ms == 0 && before->expires_at_ms > token.created_at_ms) {
        return WithReason(
            AlreadyExists("there is a token named {}; revoke it first, or choose another name", token.name),
            "TOKEN_EXISTS");
      }
      RETURN_IF_ERROR(sql.Run("DELETE FROM access_token WHERE name = $1", token.name));
      ASSIGN_OR_RETURN(const int64_t count, sql.QueryInt("SELECT count(*) FROM access_token"));
      if (count >= kTokensMax) {
        return WithReason(
            ResourceExhausted("there are {} tokens, as many as are kept; use names of revoked ones again", kTokensMax),
            "TOKENS_MAX");
      }
      return sql.Run("INSERT INTO access_token (" TUNEFARM_TOKEN_COLUMNS ") VALUES ($1, $2, $3, $4, $5, $6, $7)",
                     token.name, token.digest, token.roles, token.created_at_ms, token.expires_at_ms,
                     ZeroAsNull{token.last_used_at_ms}, ZeroAsNull{token.revoked_at_ms});
    });
  }

  absl::StatusOr<std::vector<TokenRow>> ListTokens() override {
    return backend_->Read([](Sql& sql) {
      return sql.ReadAll(ReadToken, "SELECT " TUNEFARM_TOKEN_COLUMNS " FROM access_token ORDER BY name");
    });
  }

  absl::StatusOr<std::optional<TokenRow>> FindToken(std::string_view digest) override {
    return backend_->Read([&](Sql& sql) {
      return sql.ReadOne(ReadToken, "SELECT " TUNEFARM_TOKEN_COLUMNS " FROM access_token WHERE digest = $1", digest);
    });
  }

  absl::StatusOr<TokenRow> RevokeToken(std::string_view name, int64_t now_ms) override {
    return backend_->Write([&](Sql& sql) -> absl::StatusOr<TokenRow> {
      RETURN_IF_ERROR(sql.Run("UPDATE access_token SET revoked_at_ms = $2 WHERE name = $1 AND revoked_at_ms IS NULL",
                              name, now_ms));
      ASSIGN_OR_RETURN(const std::optional<TokenRow> token, FindNamed(sql, name));
      if (token) return *token;
      return WithReason(NotFound("there is no token named {}; tunefarm token list shows all", name), "TOKEN_NOT_FOUND");
    });
  }

  absl::Status TouchToken(std::string_view digest, int64_t used_at_ms) override {
    return backend_->Write([&](Sql& sql) {
      return sql.Run(
          "UPDATE access_token SET last_used_at_ms = $2 WHERE digest = $1 AND coalesce(last_used_at_ms, 0) < $2",
          digest, used_at_ms);
    });
  }
};

}  // namespace

std::unique_ptr<TokenStore> NewTokenStore(SqlBackend* backend) { return std::make_unique<Tokens>(backend); }

}  // namespace tunefarm
