// AccessApi: the calls of AccessService: tokens, and sessions of the dashboard.
//
// Thread-safe. CreateToken and RevokeToken return when the change is durable. The errors of TokenBook and SessionBook.
#pragma once

#include "absl/status/statusor.h"
#include "server/access/principal.h"
#include "server/access/session_book.h"
#include "server/access/token_book.h"
#include "tunefarm/v1/access_service.pb.h"

namespace tunefarm {

class AccessApi {
 public:
  // The books outlive it.
  AccessApi(TokenBook* tokens, SessionBook* sessions) : tokens_(tokens), sessions_(sessions) {}

  // InvalidArgument (ROLE_UNKNOWN) for a token without a role, too. PermissionDenied (SESSION_CANNOT_GRANT) for a
  // session, which would get rights beyond its own and its end.
  absl::StatusOr<v1::CreateTokenResponse> CreateToken(const Principal& caller, const v1::CreateTokenRequest& request);
  absl::StatusOr<v1::ListTokensResponse> ListTokens(const v1::ListTokensRequest& request);
  absl::StatusOr<v1::RevokeTokenResponse> RevokeToken(const v1::RevokeTokenRequest& request);

  // PermissionDenied (SESSION_CANNOT_GRANT) for a session in both.
  absl::StatusOr<v1::CreateLoginCodeResponse> CreateLoginCode(const Principal& caller,
                                                              const v1::CreateLoginCodeRequest& request);
  // Unauthenticated (IDENTITY_MISSING) for a visitor without a code.
  absl::StatusOr<v1::CreateSessionResponse> CreateSession(const Principal& caller,
                                                          const v1::CreateSessionRequest& request);
  // FailedPrecondition (NO_SESSION).
  absl::StatusOr<v1::EndSessionResponse> EndSession(const Principal& caller, const v1::EndSessionRequest& request);
  absl::StatusOr<v1::GetCallerResponse> GetCaller(const Principal& caller, const v1::GetCallerRequest& request);

 private:
  TokenBook* const tokens_;
  SessionBook* const sessions_;
};

}  // namespace tunefarm
