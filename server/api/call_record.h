// What a call has changed, or that it was refused, for the audit log.
//
// A pure function but for the log.
#pragma once

#include <google/protobuf/message.h>

#include <string_view>

#include "absl/status/status.h"
#include "server/access/gate.h"
#include "server/api/call.h"

namespace tunefarm {

// After the call. As Gate::Record; both messages may be null.
void RecordCall(const Gate& gate, const CallContext& context, std::string_view call,
                const google::protobuf::Message* request, const google::protobuf::Message* response,
                const absl::Status& outcome);

}  // namespace tunefarm
