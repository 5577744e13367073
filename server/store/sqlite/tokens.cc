#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/sqlite/facets.h"
#include "server/store/sqlite/rows.h"
#include "server/store/token_store.h"

namespace tunefarm::sqlite {
namespace {

absl::StatusOr<std::optional<TokenRow>> Find(Database& database, const char* sql, std::string_view key) {
  Statement row = database.Prepare(sql);
  row.Bind(key);
  ASSIGN_OR_RETURN(const bool has_row, row.Step());
  if (!has_row) return std::nullopt;
  return ReadToken(row);
}

absl::StatusOr<std::optional<TokenRow>> FindNamed(Database& database, std::string_view name) {
  return Find(database, "SELECT " TUNEFARM_TOKEN_COLUMNS " FROM access_token WHERE name = ?", name);
}

class SqliteTokens final : public Facet<TokenStore> {
 public:
  using Facet::Facet;

  absl::Status PutToken(const TokenRow& token) override {
    return writer_->Run([&](Database& database) -> absl::Status {
      ASSIGN_OR_RETURN(const std::optional<TokenRow> before, FindNamed(database, token.name));
      if (before && before->revoked_at_ms == 0 && before->expires_at_ms > token.created_at_ms) {
        return WithReason(
            AlreadyExists("there is a token named {}; revoke it first, or choose another name", token.name),
            "TOKEN_EXISTS");
      }
      RETURN_IF_ERROR(database.Prepare("DELETE FROM access_token WHERE name = ?").Bind(token.name).Run());
      {
        Statement count = database.Prepare("SELECT count(*) FROM access_token");
        ASSIGN_OR_RETURN(const bool has_row, count.Step());
        if (has_row && count.Int(0) >= kTokensMax) {
          return WithReason(
              ResourceExhausted("there are {} tokens, as many as are kept; use names of revoked ones again",
                                kTokensMax),
              "TOKENS_MAX");
        }
      }
      return database.Prepare("INSERT INTO access_token (" TUNEFARM_TOKEN_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?)")
          .Bind(token.name, token.digest, token.roles, token.created_at_ms, token.expires_at_ms,
                ZeroAsNull{token.last_used_at_ms}, ZeroAsNull{token.revoked_at_ms})
          .Run();
    });
  }

  absl::StatusOr<std::vector<TokenRow>> ListTokens() override {
    return readers_->Read([](Database& database) -> absl::StatusOr<std::vector<TokenRow>> {
      Statement rows = database.Prepare("SELECT " TUNEFARM_TOKEN_COLUMNS " FROM access_token ORDER BY name");
      return ReadAll(rows, ReadToken<Statement>);
    });
  }

  absl::StatusOr<std::optional<TokenRow>> FindToken(std::string_view digest) override {
    return readers_->Read([&](Database& database) {
      return Find(database, "SELECT " TUNEFARM_TOKEN_COLUMNS " FROM access_token WHERE digest = ?", digest);
    });
  }

  absl::StatusOr<TokenRow> RevokeToken(std::string_view name, int64_t now_ms) override {
    return writer_->Call([&](Database& database) -> absl::StatusOr<TokenRow> {
      RETURN_IF_ERROR(
          database.Prepare("UPDATE access_token SET revoked_at_ms = ? WHERE name = ? AND revoked_at_ms IS NULL")
              .Bind(now_ms, name)
              .Run());
      ASSIGN_OR_RETURN(const std::optional<TokenRow> token, FindNamed(database, name));
      if (!token)
        return WithReason(NotFound("there is no token named {}; tunefarm token list shows all", name),
                          "TOKEN_NOT_FOUND");
      return *token;
    });
  }

  absl::Status TouchToken(std::string_view digest, int64_t used_at_ms) override {
    return writer_->Run([&](Database& database) {
      return database
          .Prepare("UPDATE access_token SET last_used_at_ms = max(ifnull(last_used_at_ms, 0), ?) WHERE digest = ?")
          .Bind(used_at_ms, digest)
          .Run();
    });
  }
};

}  // namespace

std::unique_ptr<TokenStore> NewTokenStore(const Shared& shared) { return std::make_unique<SqliteTokens>(shared); }

}  // namespace tunefarm::sqlite
