#include "server/api/call_record.h"

#include <google/protobuf/descriptor.h>

#include <string>

namespace tunefarm {
namespace {

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

void RecordCall(const Gate& gate, const CallContext& context, std::string_view call,
                const google::protobuf::Message* request, const google::protobuf::Message* response,
                const absl::Status& outcome) {
  const CallRule* const rule = RuleOf(call);
  if (outcome.ok() && (rule == nullptr || !rule->is_change || (request != nullptr && IsCheckOnly(*request)))) return;
  gate.Record(context.principal, context.peer, call, ResourceOf(request, outcome.ok() ? response : nullptr), outcome);
}

}  // namespace tunefarm
