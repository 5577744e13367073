#include "server/rpc/entrance.h"

#include <google/protobuf/descriptor.h>
#include <grpc/grpc_security_constants.h>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

std::string PropertyOf(const grpc::AuthContext& context, const char* name) {
  const std::vector<grpc::string_ref> values = context.FindPropertyValues(name);
  return values.size() == 1 ? std::string(values[0].data(), values[0].size()) : "";
}

// A text field of that name in the message, or in a message in it ("job.name").
std::string NameIn(const google::protobuf::Message& message, const char* name, bool look_inside) {
  using google::protobuf::FieldDescriptor;
  const auto* const reflection = message.GetReflection();
  const FieldDescriptor* const own = message.GetDescriptor()->FindFieldByName(name);
  if (own != nullptr && !own->is_repeated() && own->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return reflection->GetString(message, own);
  }
  if (!look_inside) return "";
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = message.GetDescriptor()->field(i);
    if (field->is_repeated() || field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        !reflection->HasField(message, field)) {
      continue;
    }
    if (std::string found = NameIn(reflection->GetMessage(message, field), name, false); !found.empty()) return found;
  }
  return "";
}

bool IsCheckOnly(const google::protobuf::Message& request) {
  const auto* const field = request.GetDescriptor()->FindFieldByName("validate_only");
  return field != nullptr && request.GetReflection()->GetBool(request, field);
}

// What a call was about, for people. What was made has its name in the answer.
std::string ResourceOf(const google::protobuf::Message* request, const google::protobuf::Message* response) {
  for (const char* const name : {"name", "file_name", "kernel", "agent_id", "kernel_name", "path"}) {
    for (const google::protobuf::Message* const message : {response, request}) {
      if (message == nullptr) continue;
      if (std::string found = NameIn(*message, name, true); !found.empty()) return found;
    }
  }
  return "";
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
  result.peer = caller.peer;
  ASSIGN_OR_RETURN(result.principal, gate_->Admit(caller, call));
  return result;
}

void Entrance::Record(const CallContext& context, std::string_view call, const google::protobuf::Message* request,
                      const google::protobuf::Message* response, const absl::Status& outcome) const {
  const CallRule* const rule = RuleOf(call);
  if (outcome.ok() && (rule == nullptr || !rule->is_change || (request != nullptr && IsCheckOnly(*request)))) return;
  gate_->Record(context.principal, context.peer, call, ResourceOf(request, outcome.ok() ? response : nullptr), outcome);
}

}  // namespace tunefarm
