// SessionBook: sessions of the dashboard, and the codes that buy one. Both are secrets of 256 random bits, of which
// memory has the SHA-256 alone: a daemon that ends takes all with it.
//
// Threads: all methods from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "server/access/principal.h"
#include "server/access/token_book.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/base/random.h"

namespace tunefarm {

// What the secret of a session begins with.
inline constexpr std::string_view kSessionPrefix = "tfs_";

struct NewLoginCode {
  std::string code;  // 64 hexadecimal digits
  int64_t expires_at_ms = 0;
};

struct NewSession {
  std::string secret;   // "tfs_" and 64 hexadecimal digits
  Principal principal;  // of kind kSession
};

class SessionBook {
 public:
  // All outlive it.
  SessionBook(TokenBook* tokens, EntropySource* entropy, Clock* clock)
      : tokens_(tokens), entropy_(entropy), clock_(clock) {}

  // What the session of `owner` may do: `roles` ("lookup,submit"), or where they are empty lookup and submit as far as
  // the owner has them. InvalidArgument (ROLE_UNKNOWN) also for kernels and agent, PermissionDenied (RIGHT_MISSING) for
  // roles that the owner lacks, ResourceExhausted (TOO_MANY_LOGIN_CODES) where 100 wait, or 20 of the owner.
  absl::StatusOr<NewLoginCode> CreateCode(const Principal& owner, std::string_view roles) LOCKS_EXCLUDED(mutex_);
  // Uses the code up. Where the owner has 200 sessions, the one that it has not used for the longest time ends.
  // Unauthenticated (LOGIN_CODE_INVALID), ResourceExhausted (TOO_MANY_SESSIONS) where 1,000 are open.
  absl::StatusOr<NewSession> Redeem(std::string_view code) LOCKS_EXCLUDED(mutex_);
  // The same with the rights of the owner, as far as a session has them.
  absl::StatusOr<NewSession> Open(const Principal& owner) LOCKS_EXCLUDED(mutex_);
  // `digest`: Principal::session of a principal of this book. False: it has ended.
  bool End(std::string_view digest) LOCKS_EXCLUDED(mutex_);

  // Who shows the secret. Unauthenticated (SESSION_INVALID), and as TokenBook::FindDigest, where a token made it.
  absl::StatusOr<Principal> Find(std::string_view secret) LOCKS_EXCLUDED(mutex_);

 private:
  struct Code {
    Principal principal;  // of the session to be, which has no secret yet
    MonotonicTime until;
  };
  struct Session {
    Principal principal;
    MonotonicTime until;
    MonotonicTime used_at;
  };
  static bool HaveOneOwner(const Principal& one, const Principal& other);
  // Of a session of `owner` that has no secret yet.
  static Principal SessionOf(const Principal& owner, Rights rights);
  std::string NewSecret();
  absl::StatusOr<NewSession> Begin(Principal principal) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool IsOver(const Session& session, MonotonicTime now);

  TokenBook* const tokens_;
  EntropySource* const entropy_;
  Clock* const clock_;

  Mutex mutex_;
  std::unordered_map<std::string, Code> codes_ GUARDED_BY(mutex_);        // by digest
  std::unordered_map<std::string, Session> sessions_ GUARDED_BY(mutex_);  // by digest
};

}  // namespace tunefarm
