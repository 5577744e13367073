#include "server/api/access_api.h"

#include <algorithm>
#include <string>
#include <vector>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

v1::Token ToProto(const TokenRow& row) {
  v1::Token token;
  token.set_name(row.name);
  for (size_t begin = 0; begin <= row.roles.size();) {
    const size_t end = std::min(row.roles.find(',', begin), row.roles.size());
    token.add_roles(row.roles.substr(begin, end - begin));
    begin = end + 1;
  }
  token.set_created_at_ms(row.created_at_ms);
  token.set_expires_at_ms(row.expires_at_ms);
  token.set_last_used_at_ms(row.last_used_at_ms);
  token.set_revoked_at_ms(row.revoked_at_ms);
  return token;
}

}  // namespace

absl::StatusOr<v1::CreateTokenResponse> AccessApi::CreateToken(const v1::CreateTokenRequest& request) {
  std::string roles;
  for (const std::string& role : request.roles()) roles += (roles.empty() ? "" : ",") + role;
  if (request.roles().empty()) {
    return WithReason(
        InvalidArgument("the token {} has no role; give it lookup, or submit, or submit,kernels", request.name()),
        "ROLE_UNKNOWN");
  }
  ASSIGN_OR_RETURN(const NewToken made, tokens_->Create(request.name(), roles, request.life_ms()));
  v1::CreateTokenResponse response;
  response.set_secret(made.token);
  *response.mutable_token() = ToProto(made.row);
  return response;
}

absl::StatusOr<v1::ListTokensResponse> AccessApi::ListTokens(const v1::ListTokensRequest& /*request*/) {
  ASSIGN_OR_RETURN(const std::vector<TokenRow> rows, tokens_->List());
  v1::ListTokensResponse response;
  for (const TokenRow& row : rows) *response.add_tokens() = ToProto(row);
  return response;
}

absl::StatusOr<v1::RevokeTokenResponse> AccessApi::RevokeToken(const v1::RevokeTokenRequest& request) {
  ASSIGN_OR_RETURN(const TokenRow row, tokens_->Revoke(request.name()));
  v1::RevokeTokenResponse response;
  *response.mutable_token() = ToProto(row);
  return response;
}

}  // namespace tunefarm
