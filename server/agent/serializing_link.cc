#include "server/agent/serializing_link.h"

#include <string>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

template <typename Message>
absl::StatusOr<Message> Copied(const Message& message) {
  Message copy;
  if (!copy.ParseFromString(message.SerializeAsString())) {
    return Internal("a {} message does not survive serialisation", message.GetTypeName());
  }
  return copy;
}

template <typename Request, typename Response>
absl::StatusOr<Response> Call(AgentLink* link, absl::StatusOr<Response> (AgentLink::*method)(const Request&),
                              const Request& request) {
  ASSIGN_OR_RETURN(const Request sent, Copied(request));
  ASSIGN_OR_RETURN(const Response answered, (link->*method)(sent));
  return Copied(answered);
}

}  // namespace

namespace wire = tunefarm::agent::v1;

absl::StatusOr<wire::RegisterResponse> SerializingLink::Register(const wire::RegisterRequest& request) {
  return Call(link_, &AgentLink::Register, request);
}

absl::StatusOr<wire::SynchronizeResponse> SerializingLink::Synchronize(const wire::SynchronizeRequest& request) {
  return Call(link_, &AgentLink::Synchronize, request);
}

absl::StatusOr<wire::ReportTrialsResponse> SerializingLink::ReportTrials(const wire::ReportTrialsRequest& request) {
  return Call(link_, &AgentLink::ReportTrials, request);
}

void SerializingLink::ClaimWork(const wire::ClaimWorkRequest& request,
                                const std::function<void(absl::StatusOr<wire::ClaimWorkResponse>)>& done) {
  const absl::StatusOr<wire::ClaimWorkRequest> sent = Copied(request);
  if (!sent.ok()) return done(sent.status());
  link_->ClaimWork(*sent, [done](const absl::StatusOr<wire::ClaimWorkResponse>& answered) {
    done(answered.ok() ? Copied(*answered) : answered);
  });
}

absl::StatusOr<wire::FetchKernelResponse> SerializingLink::FetchKernel(const wire::FetchKernelRequest& request) {
  return Call(link_, &AgentLink::FetchKernel, request);
}

}  // namespace tunefarm
