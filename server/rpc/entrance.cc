#include "server/rpc/entrance.h"

#include <grpc/grpc_security_constants.h>

#include <utility>

#include "server/api/call_record.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

std::string PropertyOf(const grpc::AuthContext& context, const char* name) {
  const std::vector<grpc::string_ref> values = context.FindPropertyValues(name);
  return values.size() == 1 ? std::string(values[0].data(), values[0].size()) : "";
}

}  // namespace

absl::StatusOr<CallContext> Entrance::Authorize(const grpc::ServerContextBase& context, std::string_view call) const {
  Caller caller;
  caller.identity = listener_.identity ? &*listener_.identity : nullptr;
  caller.is_readable = listener_.is_readable;
  caller.peer = context.peer();
  const auto header = context.client_metadata().find("authorization");
  if (header != context.client_metadata().end()) {
    caller.authorization.assign(header->second.data(), header->second.size());
  }
  if (!listener_.identity && caller.authorization.empty()) {
    if (const auto auth = context.auth_context(); auth != nullptr) {
      caller.certificate = PropertyOf(*auth, GRPC_X509_PEM_CERT_PROPERTY_NAME);
      caller.certificate_chain = PropertyOf(*auth, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME);
    }
  }
  CallContext result;
  ASSIGN_OR_RETURN(result.principal, gate_->Admit(caller, call));
  result.peer = std::move(caller.peer);
  return result;
}

void Entrance::Record(const CallContext& context, std::string_view call, const google::protobuf::Message* request,
                      const google::protobuf::Message* response, const absl::Status& outcome) const {
  RecordCall(*gate_, context, call, request, response, outcome);
}

}  // namespace tunefarm
