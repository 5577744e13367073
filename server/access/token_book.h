// TokenBook: makes bearer tokens, and finds who shows one. Answers from memory for at most ten seconds, so that a token
// that is revoked elsewhere soon ends; one that is revoked here ends at once.
//
// Threads: all methods from any thread. Find reads the store once in ten seconds per token. While the store cannot be
// read, what was known of a token stays for ten minutes more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/principal.h"
#include "server/access/rate_limit.h"
#include "server/base/clock.h"
#include "server/base/executor.h"
#include "server/base/hash.h"
#include "server/base/mutex.h"
#include "server/base/random.h"
#include "server/store/token_store.h"

namespace tunefarm {

inline constexpr int64_t kTokenLifeDefaultMs = int64_t{90} * 24 * 3600 * 1000;
inline constexpr int64_t kTokenLifeMaxMs = int64_t{366} * 24 * 3600 * 1000;

struct NewToken {
  std::string token;  // "tft_" and 64 hexadecimal digits: 256 random bits. Shown once, stored nowhere
  TokenRow row;
};

class TokenBook {
 public:
  // All outlive it. `store` may be null: there are no tokens.
  TokenBook(TokenStore* store, EntropySource* entropy, Clock* clock);

  // life_ms 0: the default. InvalidArgument (PRINCIPAL_NAME_INVALID, ROLE_UNKNOWN, TOKEN_LIFE), and as PutToken.
  absl::StatusOr<NewToken> Create(std::string_view name, std::string_view roles, int64_t life_ms);
  absl::StatusOr<std::vector<TokenRow>> List();
  absl::StatusOr<TokenRow> Revoke(std::string_view name) LOCKS_EXCLUDED(mutex_);

  // Who shows the token. Unauthenticated (TOKEN_INVALID, TOKEN_UNKNOWN, TOKEN_EXPIRED, TOKEN_REVOKED);
  // ResourceExhausted (RATE_LIMIT) where too many unknown ones are tried; Unavailable without the store.
  absl::StatusOr<Principal> Find(std::string_view token) LOCKS_EXCLUDED(mutex_);
  // The same by the token's SHA-256, as Principal::token has it.
  absl::StatusOr<Principal> FindDigest(const std::string& digest) LOCKS_EXCLUDED(mutex_);

 private:
  struct Known {
    TokenRow row;
    Rights rights;
    MonotonicTime read_at;
  };
  absl::StatusOr<Known> Read(const std::string& digest);
  absl::StatusOr<Principal> Judge(const Known& known, std::string_view digest) const;
  absl::Status RequireStore() const;

  TokenStore* const store_;
  EntropySource* const entropy_;
  Clock* const clock_;

  Mutex mutex_;
  std::unordered_map<std::string, Known> known_ GUARDED_BY(mutex_);  // by digest
  uint64_t revocations_ GUARDED_BY(mutex_) = 0;                      // what was read before one is not kept
  TokenBucket unknown_ GUARDED_BY(mutex_);

  ThreadExecutor executor_;  // notes uses; last: ends first
};

}  // namespace tunefarm
