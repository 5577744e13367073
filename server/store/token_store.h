// TokenStore: the bearer tokens of clients: who they are, what they may do, until when. Of a token itself there is only
// its SHA-256. Tested with the Store (tests/store).
//
// Threads and errors: as Store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tunefarm {

inline constexpr int kTokensMax = 10'000;

struct TokenRow {
  std::string name;
  std::string digest;  // hex
  std::string roles;   // "submit,kernels"
  int64_t created_at_ms = 0;
  int64_t expires_at_ms = 0;
  int64_t last_used_at_ms = 0;  // coarse; 0: never
  int64_t revoked_at_ms = 0;    // 0: not
};

class TokenStore {
 public:
  virtual ~TokenStore() = default;

  // Durable on return. Takes the place of one of the same name that is revoked or had expired by created_at_ms;
  // AlreadyExists (TOKEN_EXISTS) where that one is valid, ResourceExhausted (TOKENS_MAX) where there are kTokensMax.
  virtual absl::Status PutToken(const TokenRow& token) = 0;
  virtual absl::StatusOr<std::vector<TokenRow>> ListTokens() = 0;  // by name
  virtual absl::StatusOr<std::optional<TokenRow>> FindToken(std::string_view digest) = 0;
  // As it is then; one that is revoked keeps its time. NotFound (TOKEN_NOT_FOUND).
  virtual absl::StatusOr<TokenRow> RevokeToken(std::string_view name, int64_t now_ms) = 0;
  // Notes a use; never goes back. Nothing where there is none.
  virtual absl::Status TouchToken(std::string_view digest, int64_t used_at_ms) = 0;
};

}  // namespace tunefarm
