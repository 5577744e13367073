#include "server/agent/remote/grpc_channel.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <set>
#include <utility>

#include "server/base/mutex.h"
#include "server/base/status.h"
#include "server/dial/dial.h"
#include "tunefarm/agent/v1/agent.grpc.pb.h"
#include "tunefarm/v1/error.pb.h"

namespace tunefarm {
namespace {

namespace wire = tunefarm::agent::v1;

constexpr int kMessageBytesMax = 17 << 20;  // a kernel of 16 MiB and what lies around it

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // The codes of absl are those of gRPC.
  const absl::Status plain(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  v1::ErrorDetail detail;
  const bool has_reason = detail.ParseFromString(status.error_details()) && !detail.reason().empty();
  return has_reason ? WithReason(plain, detail.reason()) : plain;
}

class GrpcChannel : public ControlChannel {
 public:
  explicit GrpcChannel(const DialOptions& options) : dial_(options) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
    SetReconnectPauses(std::chrono::milliseconds(100), std::chrono::seconds(1), &arguments);
    // Several agents of one process (tests) must not share what one of them cancels.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
    arguments.SetMaxSendMessageSize(kMessageBytesMax);
    const auto channel = Dial(options, arguments);
    if (channel.ok()) {
      stub_ = wire::AgentService::NewStub(*channel);
    } else {
      not_dialled_ = Unavailable("{}", MessageOf(channel.status()));
    }
  }

  absl::StatusOr<wire::RegisterResponse> Register(const wire::RegisterRequest& request, Duration deadline) override {
    absl::StatusOr<wire::RegisterResponse> response = Call(&wire::AgentService::Stub::Register, request, deadline);
    // gRPC's own message does not say which of a certificate, the port or the name is wrong.
    const bool is_unexplained =
        response.status().code() == absl::StatusCode::kUnavailable && ReasonOf(response.status()).empty();
    if (is_unexplained && stub_ != nullptr) return ExplainUnreachable(dial_);
    return response;
  }
  absl::StatusOr<wire::SynchronizeResponse> Synchronize(const wire::SynchronizeRequest& request,
                                                        Duration deadline) override {
    return Call(&wire::AgentService::Stub::Synchronize, request, deadline);
  }
  absl::StatusOr<wire::WaitResponse> Wait(const wire::WaitRequest& request, Duration deadline) override {
    return Call(&wire::AgentService::Stub::Wait, request, deadline);
  }
  absl::StatusOr<wire::ClaimWorkResponse> ClaimWork(const wire::ClaimWorkRequest& request, Duration deadline) override {
    return Call(&wire::AgentService::Stub::ClaimWork, request, deadline);
  }
  absl::StatusOr<wire::ReportUnitsResponse> ReportUnits(const wire::ReportUnitsRequest& request,
                                                        Duration deadline) override {
    return Call(&wire::AgentService::Stub::ReportUnits, request, deadline);
  }
  absl::StatusOr<wire::FetchKernelResponse> FetchKernel(const wire::FetchKernelRequest& request,
                                                        Duration deadline) override {
    return Call(&wire::AgentService::Stub::FetchKernel, request, deadline);
  }
  absl::StatusOr<wire::TakeCompilesResponse> TakeCompiles(const wire::TakeCompilesRequest& request,
                                                          Duration deadline) override {
    return Call(&wire::AgentService::Stub::TakeCompiles, request, deadline);
  }
  absl::StatusOr<wire::OfferBinaryResponse> OfferBinary(const wire::OfferBinaryRequest& request,
                                                        Duration deadline) override {
    return Call(&wire::AgentService::Stub::OfferBinary, request, deadline);
  }
  absl::StatusOr<wire::FetchBinaryResponse> FetchBinary(const wire::FetchBinaryRequest& request,
                                                        Duration deadline) override {
    return Call(&wire::AgentService::Stub::FetchBinary, request, deadline);
  }
  absl::StatusOr<wire::FetchDataFileResponse> FetchDataFile(const wire::FetchDataFileRequest& request,
                                                            Duration deadline) override {
    return Call(&wire::AgentService::Stub::FetchDataFile, request, deadline);
  }
  absl::StatusOr<wire::DeregisterResponse> Deregister(const wire::DeregisterRequest& request,
                                                      Duration deadline) override {
    return Call(&wire::AgentService::Stub::Deregister, request, deadline);
  }

  void Cancel() override {
    MutexLock lock(&mutex_);
    cancelled_ = true;
    for (grpc::ClientContext* call : calls_) call->TryCancel();
  }

 private:
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (wire::AgentService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                                 Response*),
                                const Request& request, Duration deadline) {
    if (!stub_) return not_dialled_;
    grpc::ClientContext context;
    context.set_deadline(
        gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(deadline.count(), GPR_TIMESPAN)));
    {
      MutexLock lock(&mutex_);
      if (cancelled_) return Cancelled("the connection was closed");
      calls_.insert(&context);
    }
    Response response;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    {
      MutexLock lock(&mutex_);
      calls_.erase(&context);
    }
    if (!status.ok()) return FromGrpc(status);
    return response;
  }

  const DialOptions dial_;
  std::unique_ptr<wire::AgentService::Stub> stub_;
  absl::Status not_dialled_;  // why there is none
  Mutex mutex_;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> calls_ GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<ControlChannel> DialControl(const DialOptions& options) {
  return std::make_shared<GrpcChannel>(options);
}

}  // namespace tunefarm
