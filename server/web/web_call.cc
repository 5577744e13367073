#include "server/web/web_call.h"

#include <google/protobuf/io/coded_stream.h>

#include <memory>
#include <utility>

#include "server/api/call_record.h"
#include "server/api/wire_scan.h"
#include "server/base/status.h"
#include "server/web/connect_json.h"
#include "tunefarm/v1/access_service.pb.h"

namespace tunefarm {
namespace {

// What a body of 64 KiB can be at most is far below.
constexpr size_t kParsedBytesMax = 64 << 20;
constexpr std::string_view kLogin = "tunefarm.v1.AccessService/CreateSession";

bool BringsCode(const std::string& body) {
  v1::CreateSessionRequest request;
  const absl::StatusOr<std::string> wire = JsonToWire(*request.GetDescriptor(), body);
  return wire.ok() && request.ParseFromString(*wire) && !request.code().empty();
}

absl::StatusOr<CallContext> Admit(const Gate& gate, std::string_view call, const HttpRequest& request) {
  static const Principal& visitor = *new Principal(Visitor());
  Caller caller;
  caller.peer = request.peer;
  caller.authorization = request.Header("authorization");
  caller.certificate = request.certificate;
  caller.certificate_chain = request.certificate_chain;
  // The one call that needs no identity: a code is one. Without a code it is about the certificate, and a refusal says
  // what is wrong with that.
  if (call == kLogin && caller.authorization.empty() && (caller.certificate.empty() || BringsCode(request.body))) {
    caller.otherwise = &visitor;
  }
  absl::StatusOr<Principal> principal = gate.Admit(caller, call);
  if (!principal.ok()) return principal.status();
  return CallContext{*std::move(principal), request.peer, {}};
}

}  // namespace

void WebCall::Start(const WebSurroundings* around, std::string call, HttpRequest request, WebAnswer answer) {
  absl::StatusOr<CallContext> caller = Admit(*around->gate, call, request);
  if (!caller.ok()) return answer.Error(HttpStatusOf(caller.status().code()), caller.status());
  const auto refuse = [&](const absl::Status& status) {
    RecordCall(*around->gate, *caller, call, nullptr, nullptr, status);
    answer.Error(HttpStatusOf(status.code()), status);
  };
  const Route* const route = around->router->Find(call);
  if (route == nullptr) {
    return refuse(
        WithReason(Unimplemented("{} is not served over HTTP: it has many answers, or is for agents; use gRPC", call),
                   "NOT_SERVED_OVER_HTTP"));
  }
  absl::StatusOr<CallLimits::Ticket> ticket = around->limits->Begin(caller->principal, route->kind);
  if (!ticket.ok()) return refuse(ticket.status());
  absl::StatusOr<CallLimits::Ticket> place = around->places->Begin(caller->principal, route->kind);
  if (!place.ok()) return refuse(place.status());
  auto* const made =
      new WebCall(around, route, *std::move(caller), std::move(request), std::move(answer));  // see above
  made->ticket_.emplace(*std::move(ticket));
  made->place_.emplace(*std::move(place));
  if (route->lane.threads == nullptr) return made->ParseAndRun();
  made->Defer(route->lane, [made] { made->ParseAndRun(); });
}

bool WebCall::HasCaller() const { return !is_gone_->load() && !around_->is_ending->load(); }

void WebCall::ParseAndRun() {
  const std::unique_ptr<google::protobuf::Message> request(route_->prototype->New());
  absl::Status refused = [&]() -> absl::Status {
    const absl::StatusOr<std::string> wire = JsonToWire(*request->GetDescriptor(), body_);
    if (!wire.ok()) return wire.status();
    const int size = static_cast<int>(wire->size());
    google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(wire->data()), size);
    const absl::StatusOr<size_t> bytes =
        ScanMessage(*route_->shape, &input, size, {.parsed_bytes_max = kParsedBytesMax});
    if (!bytes.ok()) return bytes.status();
    absl::StatusOr<MemoryShare> share = around_->limits->HoldParsed(*bytes);
    if (!share.ok()) return share.status();
    parsed_ = *std::move(share);
    if (request->ParseFromString(*wire)) return absl::OkStatus();
    return WithReason(InvalidArgument("the body is no {}", request->GetDescriptor()->name()), "MESSAGE_INVALID");
  }();
  body_ = std::string();
  if (refused.ok()) {
    route_->run(this, *request);
  } else {
    Answer(nullptr, refused, nullptr);
  }
}

void WebCall::Answer(const google::protobuf::Message* request, const absl::Status& outcome,
                     const google::protobuf::Message* response) {
  const std::unique_ptr<WebCall> self(this);
  RecordCall(*around_->gate, caller_, route_->call, request, response, outcome);
  parsed_.Reset();
  if (!outcome.ok()) return answer_.Error(HttpStatusOf(outcome.code()), outcome);
  absl::StatusOr<std::string> json = ToJson(*response);
  if (!json.ok()) return answer_.Error(HttpStatusOf(json.status().code()), json.status());
  answer_.Json(*std::move(json));
}

void WebCall::GiveUp() {
  const std::unique_ptr<WebCall> self(this);
  const absl::Status late = DeadlineExceeded("the call waited longer than its deadline; try again later");
  answer_.Error(HttpStatusOf(late.code()), late);
}

}  // namespace tunefarm
