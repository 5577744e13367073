#include "server/rpc/agent_admin.h"

#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "server/base/status.h"
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
  std::string path;
  std::unique_ptr<grpc::Server> server;
};

AgentAdmin::AgentAdmin(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<AgentAdmin>> AgentAdmin::Start(const std::string& socket_path, Hooks hooks) {
  auto impl = std::make_unique<Impl>(std::move(hooks));
  impl->path = socket_path;
  if (unlink(socket_path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "replacing the socket {}", socket_path);
  }
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("unix:" + socket_path, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(kReceivedBytesMax);
  builder.RegisterService(&impl->service);
  const mode_t old_mask = umask(0177);
  impl->server = builder.BuildAndStart();
  umask(old_mask);
  if (!impl->server) return WithReason(Unavailable("cannot listen on {}", socket_path), "LISTEN_FAILED");
  return std::unique_ptr<AgentAdmin>(new AgentAdmin(std::move(impl)));
}

AgentAdmin::~AgentAdmin() {
  impl_->server->Shutdown(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(2, GPR_TIMESPAN)));
  impl_->server->Wait();
  unlink(impl_->path.c_str());
}

}  // namespace tunefarm
