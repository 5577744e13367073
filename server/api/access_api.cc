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

std::string JoinedRoles(const google::protobuf::RepeatedPtrField<std::string>& roles) {
  std::string joined;
  for (const std::string& role : roles) joined += (joined.empty() ? "" : ",") + role;
  return joined;
}

absl::Status CheckMayGrant(const Principal& caller) {
  if (caller.kind != PrincipalKind::kSession) return absl::OkStatus();
  return WithReason(PermissionDenied("a session of the dashboard makes no tokens, codes and sessions; use the command "
                                     "line"),
                    "SESSION_CANNOT_GRANT");
}

v1::CallerIdentity ToProto(const Principal& principal) {
  v1::CallerIdentity identity;
  identity.set_name(principal.name);
  identity.set_kind(std::string(PrincipalKindName(principal.kind)));
  for (const Right right : {Right::kLookup, Right::kSubmit, Right::kKernels, Right::kAdmin}) {
    if (principal.Has(right)) identity.add_roles(std::string(RightName(right)));
  }
  identity.set_expires_at_ms(principal.expires_at_ms);
  return identity;
}

}  // namespace

absl::StatusOr<v1::CreateTokenResponse> AccessApi::CreateToken(const Principal& caller,
                                                               const v1::CreateTokenRequest& request) {
  RETURN_IF_ERROR(CheckMayGrant(caller));
  const std::string roles = JoinedRoles(request.roles());
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

absl::StatusOr<v1::CreateLoginCodeResponse> AccessApi::CreateLoginCode(const Principal& caller,
                                                                       const v1::CreateLoginCodeRequest& request) {
  RETURN_IF_ERROR(CheckMayGrant(caller));
  ASSIGN_OR_RETURN(const NewLoginCode made, sessions_->CreateCode(caller, JoinedRoles(request.roles())));
  v1::CreateLoginCodeResponse response;
  response.set_code(made.code);
  response.set_expires_at_ms(made.expires_at_ms);
  return response;
}

absl::StatusOr<v1::CreateSessionResponse> AccessApi::CreateSession(const Principal& caller,
                                                                   const v1::CreateSessionRequest& request) {
  RETURN_IF_ERROR(CheckMayGrant(caller));
  if (request.code().empty() && caller.kind == PrincipalKind::kVisitor) {
    return WithReason(Unauthenticated("a session needs a login code (tunefarm dashboard makes one), a token or a "
                                      "certificate"),
                      "IDENTITY_MISSING");
  }
  ASSIGN_OR_RETURN(const NewSession made,
                   request.code().empty() ? sessions_->Open(caller) : sessions_->Redeem(request.code()));
  v1::CreateSessionResponse response;
  response.set_secret(made.secret);
  *response.mutable_caller() = ToProto(made.principal);
  return response;
}

absl::StatusOr<v1::EndSessionResponse> AccessApi::EndSession(const Principal& caller,
                                                             const v1::EndSessionRequest& /*request*/) {
  if (caller.kind != PrincipalKind::kSession || !sessions_->End(caller.session)) {
    return WithReason(FailedPrecondition("{} is no session that could be ended", caller.Text()), "NO_SESSION");
  }
  return v1::EndSessionResponse();
}

absl::StatusOr<v1::GetCallerResponse> AccessApi::GetCaller(const Principal& caller,
                                                           const v1::GetCallerRequest& /*request*/) {
  v1::GetCallerResponse response;
  *response.mutable_caller() = ToProto(caller);
  return response;
}

}  // namespace tunefarm
