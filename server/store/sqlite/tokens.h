#pragma once

#include "server/store/sqlite/reader_pool.h"
#include "server/store/sqlite/writer.h"
#include "server/store/token_store.h"

namespace tunefarm::sqlite {

// TokenStore on a table of the store's file. Thread-safe.
class SqliteTokenStore : public TokenStore {
 public:
  // Both outlive it, or are not used any more.
  SqliteTokenStore(Writer* writer, ReaderPool* readers) : writer_(writer), readers_(readers) {}

  absl::Status PutToken(const TokenRow& token) override;
  absl::StatusOr<std::vector<TokenRow>> ListTokens() override;
  absl::StatusOr<std::optional<TokenRow>> FindToken(std::string_view digest) override;
  absl::StatusOr<TokenRow> RevokeToken(std::string_view name, int64_t now_ms) override;
  absl::Status TouchToken(std::string_view digest, int64_t used_at_ms) override;

 private:
  Writer* const writer_;
  ReaderPool* const readers_;
};

}  // namespace tunefarm::sqlite
