#include "server/rpc/agent_admin.h"

#include <grpcpp/grpcpp.h>

#include <optional>
#include <utility>

#include "server/base/status.h"
#include "server/rpc/acceptor.h"
#include "server/rpc/door.h"
#include "server/rpc/status.h"
#include "server/rpc/tls.h"
#include "tunefarm/v1/server_service.grpc.pb.h"

namespace tunefarm {
namespace {

constexpr int kReceivedBytesMax = 4096;  // all requests are a few bytes

class Service : public v1::ServerService::CallbackService {
 public:
  explicit Service(AgentAdmin::Hooks hooks) : hooks_(std::move(hooks)) {}

  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* call, const v1::GetServerInfoRequest*,
                                          v1::GetServerInfoResponse* response) override {
    *response = hooks_.info();
    grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerUnaryReactor* Shutdown(grpc::CallbackServerContext* call, const v1::ShutdownRequest* request,
                                     v1::ShutdownResponse*) override {
    hooks_.shutdown(request->immediately());
    grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerUnaryReactor* CreateBackup(grpc::CallbackServerContext* call, const v1::CreateBackupRequest*,
                                         v1::CreateBackupResponse*) override {
    grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
    reactor->Finish(ToGrpc(FailedPrecondition("an agent has no database; ask its control daemon")));
    return reactor;
  }

 private:
  const AgentAdmin::Hooks hooks_;
};

}  // namespace

struct AgentAdmin::Impl {
  explicit Impl(Hooks hooks) : service(std::move(hooks)) {}
  const HandshakeLog log{nullptr};  // also of what the agent's own connections to control say
  Service service;
  std::unique_ptr<grpc::Server> server;
  std::optional<Door> door;
};

AgentAdmin::AgentAdmin(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<AgentAdmin>> AgentAdmin::Start(const std::string& socket_path, Hooks hooks) {
  auto impl = std::make_unique<Impl>(std::move(hooks));
  auto acceptor = Acceptor::OpenUnix(socket_path, 0600, Acceptor::DescriptorsMax(Peers::kAdminSocket));
  if (!acceptor.ok()) {
    return WithReason(Unavailable("cannot listen on {}: {}", socket_path, MessageOf(acceptor.status())),
                      "LISTEN_FAILED");
  }
  grpc::ServerBuilder builder;
  impl->door.emplace(&builder, grpc::InsecureServerCredentials(), *std::move(acceptor));
  builder.SetMaxReceiveMessageSize(kReceivedBytesMax);
  builder.RegisterService(&impl->service);
  impl->server = builder.BuildAndStart();
  if (!impl->server) return WithReason(Unavailable("cannot listen on {}", socket_path), "LISTEN_FAILED");
  impl->door->Open();
  return std::unique_ptr<AgentAdmin>(new AgentAdmin(std::move(impl)));
}

AgentAdmin::~AgentAdmin() {
  impl_->door->Close();
  impl_->server->Shutdown(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(2, GPR_TIMESPAN)));
  impl_->server->Wait();
}

}  // namespace tunefarm
