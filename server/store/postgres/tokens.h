#pragma once

#include "server/store/postgres/pool.h"
#include "server/store/token_store.h"

namespace tunefarm::postgres {

// TokenStore on PostgreSQL. Thread-safe.
class PostgresTokenStore : public TokenStore {
 public:
  // The pool outlives it, or it is not used any more.
  explicit PostgresTokenStore(Pool* pool) : pool_(pool) {}

  absl::Status PutToken(const TokenRow& token) override;
  absl::StatusOr<std::vector<TokenRow>> ListTokens() override;
  absl::StatusOr<std::optional<TokenRow>> FindToken(std::string_view digest) override;
  absl::StatusOr<TokenRow> RevokeToken(std::string_view name, int64_t now_ms) override;
  absl::Status TouchToken(std::string_view digest, int64_t used_at_ms) override;

 private:
  Pool* const pool_;
};

}  // namespace tunefarm::postgres
