#include "server/store/sqlite/tokens.h"

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/sqlite/database.h"

namespace tunefarm::sqlite {
namespace {

#define TUNEFARM_TOKEN_COLUMNS "name, digest, roles, created_at_ms, expires_at_ms, last_used_at_ms, revoked_at_ms"

TokenRow RowOf(const Statement& row) {
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

absl::StatusOr<std::optional<TokenRow>> Find(Database& database, const char* sql, std::string_view key) {
  Statement row = database.Prepare(sql);
  row.Bind(key);
  ASSIGN_OR_RETURN(const bool has_row, row.Step());
  if (!has_row) return std::nullopt;
  return RowOf(row);
}

absl::StatusOr<std::optional<TokenRow>> FindNamed(Database& database, std::string_view name) {
  return Find(database, "SELECT " TUNEFARM_TOKEN_COLUMNS " FROM access_token WHERE name = ?", name);
}

absl::Status Put(Database& database, const TokenRow& token) {
  ASSIGN_OR_RETURN(const std::optional<TokenRow> before, FindNamed(database, token.name));
  if (before && before->revoked_at_ms == 0 && before->expires_at_ms > token.created_at_ms) {
    return WithReason(AlreadyExists("there is a token named {}; revoke it first, or choose another name", token.name),
                      "TOKEN_EXISTS");
  }
  RETURN_IF_ERROR(database.Prepare("DELETE FROM access_token WHERE name = ?").Bind(token.name).Run());
  {
    Statement count = database.Prepare("SELECT count(*) FROM access_token");
    ASSIGN_OR_RETURN(const bool has_row, count.Step());
    if (has_row && count.Int(0) >= kTokensMax) {
      return WithReason(
          ResourceExhausted("there are {} tokens, as many as are kept; use names of revoked ones again", kTokensMax),
          "TOKENS_MAX");
    }
  }
  return database.Prepare("INSERT INTO access_token (" TUNEFARM_TOKEN_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?)")
      .Bind(token.name, token.digest, token.roles, token.created_at_ms, token.expires_at_ms,
            ZeroAsNull{token.last_used_at_ms}, ZeroAsNull{token.revoked_at_ms})
      .Run();
}

absl::StatusOr<TokenRow> Revoke(Database& database, std::string_view name, int64_t now_ms) {
  RETURN_IF_ERROR(database.Prepare("UPDATE access_token SET revoked_at_ms = ? WHERE name = ? AND revoked_at_ms IS NULL")
                      .Bind(now_ms, name)
                      .Run());
  ASSIGN_OR_RETURN(const std::optional<TokenRow> token, FindNamed(database, name));
  if (!token)
    return WithReason(NotFound("there is no token named {}; tunefarm token list shows all", name), "TOKEN_NOT_FOUND");
  return *token;
}

absl::StatusOr<std::vector<TokenRow>> List(Database& database) {
  std::vector<TokenRow> tokens;
  Statement rows = database.Prepare("SELECT " TUNEFARM_TOKEN_COLUMNS " FROM access_token ORDER BY name");
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return tokens;
    tokens.push_back(RowOf(rows));
  }
}

}  // namespace

absl::Status SqliteTokenStore::PutToken(const TokenRow& token) {
  return writer_->Run([&](Database& database) { return Put(database, token); });
}

absl::StatusOr<std::vector<TokenRow>> SqliteTokenStore::ListTokens() {
  return readers_->Read([](Database& database) { return List(database); });
}

absl::StatusOr<std::optional<TokenRow>> SqliteTokenStore::FindToken(std::string_view digest) {
  return readers_->Read([&](Database& database) {
    return Find(database, "SELECT " TUNEFARM_TOKEN_COLUMNS " FROM access_token WHERE digest = ?", digest);
  });
}

absl::StatusOr<TokenRow> SqliteTokenStore::RevokeToken(std::string_view name, int64_t now_ms) {
  return writer_->Call([&](Database& database) { return Revoke(database, name, now_ms); });
}

absl::Status SqliteTokenStore::TouchToken(std::string_view digest, int64_t used_at_ms) {
  return writer_->Run([&](Database& database) {
    return database
        .Prepare("UPDATE access_token SET last_used_at_ms = max(ifnull(last_used_at_ms, 0), ?) WHERE digest = ?")
        .Bind(used_at_ms, digest)
        .Run();
  });
}

}  // namespace tunefarm::sqlite
