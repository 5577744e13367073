// AccessApi: the calls of AccessService, which make, list and revoke tokens.
//
// Thread-safe. CreateToken and RevokeToken return when the change is durable. The errors of TokenBook.
#pragma once

#include "absl/status/statusor.h"
#include "server/access/token_book.h"
#include "tunefarm/v1/access_service.pb.h"

namespace tunefarm {

class AccessApi {
 public:
  // The book outlives it.
  explicit AccessApi(TokenBook* tokens) : tokens_(tokens) {}

  // InvalidArgument (ROLE_UNKNOWN) for a token without a role, too.
  absl::StatusOr<v1::CreateTokenResponse> CreateToken(const v1::CreateTokenRequest& request);
  absl::StatusOr<v1::ListTokensResponse> ListTokens(const v1::ListTokensRequest& request);
  absl::StatusOr<v1::RevokeTokenResponse> RevokeToken(const v1::RevokeTokenRequest& request);

 private:
  TokenBook* const tokens_;
};

}  // namespace tunefarm
