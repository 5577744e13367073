#include "server/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string_view>

#include "server/api/access_api.h"
#include "server/api/catalog_api.h"
#include "server/api/farm_api.h"
#include "server/api/kernel_api.h"
#include "server/api/lookup_api.h"
#include "server/api/open_calls.h"
#include "server/api/server_api.h"
#include "server/api/tuning_api.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread.h"
#include "server/base/thread_pool.h"
#include "server/base/work_limit.h"
#include "server/rpc/agent_service.h"
#include "server/rpc/catalog_watch_reactor.h"
#include "server/rpc/entrance.h"
#include "server/rpc/status.h"
#include "server/rpc/watch_reactor.h"
#include "tunefarm/v1/access_service.grpc.pb.h"
#include "tunefarm/v1/catalog_service.grpc.pb.h"
#include "tunefarm/v1/device_service.grpc.pb.h"
#include "tunefarm/v1/farm_service.grpc.pb.h"
#include "tunefarm/v1/kernel_service.grpc.pb.h"
#include "tunefarm/v1/lookup_service.grpc.pb.h"
#include "tunefarm/v1/server_service.grpc.pb.h"
#include "tunefarm/v1/tuning_service.grpc.pb.h"

namespace tunefarm {
namespace {

// Kernel sources travel in one message; 16 MiB covers their limit of 8 MiB with room.
constexpr int kMessageBytesMax = 16 << 20;
constexpr int kReceivedBytesMax = 2 * kMessageBytesMax;  // beyond it gRPC does not even read
// A call without a deadline, or with a longer one, is answered as if it had this one.
constexpr Duration kDeadlineMax = std::chrono::seconds(60);
constexpr int kThreads = 4;  // of each kind
// Of the calls that search spaces, and of those among them that take more than kQuickTime of processor time: half of
// these at most are of one caller, and none takes more than kSpaceTime.
constexpr int kSpaceThreads = 4, kLargeSpaceThreads = 4;
constexpr int kLargeSpaceNice = 5;
constexpr Duration kQuickTime = std::chrono::seconds(3);
constexpr Duration kSpaceTime = std::chrono::seconds(15);

absl::Status CheckMessageSize(size_t bytes) {
  if (bytes <= kMessageBytesMax) return absl::OkStatus();
  return WithReason(ResourceExhausted("the message has {} bytes, at most {} are taken", bytes, kMessageBytesMax),
                    "MESSAGE_TOO_LARGE");
}

// Runs the calls of the generated services. `run`: StatusOr<Response>(const CallContext&).
class Dispatcher {
 public:
  Dispatcher(OpenCalls* calls, Clock* clock, const RpcServerOptions& options)
      : calls_(calls),
        clock_(clock),
        entrance_(options.gate != nullptr ? options.gate : &open_gate_, ListenerOf(options)) {}

  OpenCalls* calls() { return calls_; }
  const Entrance& entrance() const { return entrance_; }

  // On the calling gRPC thread: for what takes microseconds to a few milliseconds.
  template <typename Request, typename Response, typename Run>
  grpc::ServerUnaryReactor* Fast(grpc::CallbackServerContext* call, std::string_view name, const Request* request,
                                 Response* response, const Run& run, bool counts = true) {
    grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
    const absl::StatusOr<CallContext> context = Enter(*call, name, *request);
    reactor->Finish(context.ok() ? Invoke(*context, name, request, response, run, counts) : ToGrpc(context.status()));
    return reactor;
  }

  // On a thread of ours: for what waits for the store. Given up if its time has passed before it starts.
  template <typename Request, typename Response, typename Run>
  grpc::ServerUnaryReactor* Slow(grpc::CallbackServerContext* call, std::string_view name, const Request* request,
                                 Response* response, const Run& run) {
    return Queue(&slow_, call, name, request, response, run);
  }

  // The same for what searches a space: `run` is called twice where that takes long, and asked to end when the caller
  // has gone away.
  template <typename Request, typename Response, typename Run>
  grpc::ServerUnaryReactor* Space(grpc::CallbackServerContext* call, std::string_view name, const Request* request,
                                  Response* response, const Run& run) {
    grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
    absl::StatusOr<CallContext> context = Enter(*call, name, *request);
    if (!context.ok()) {
      reactor->Finish(ToGrpc(context.status()));
      return reactor;
    }
    context->grant.is_cancelled = [call] { return call->IsCancelled(); };
    const MonotonicTime deadline = clock_->Now() + kDeadlineMax;
    context->grant.processor_time = kSpaceTime;
    // False: it takes longer than `give_up_after`.
    const auto answer = [=, this](CallContext granted, Duration give_up_after) {
      if (call->IsCancelled() || clock_->Now() > deadline) {
        reactor->Finish(ToGrpc(Late()));
        return true;
      }
      granted.grant.give_up_after = give_up_after;
      const OpenCalls::Call open(calls_);
      absl::StatusOr<Response> result = run(granted);
      if (give_up_after < kSpaceTime && ReasonOf(result.status()) == kWorkLimitReason) return false;
      reactor->Finish(Answer(granted, name, request, response, std::move(result)));
      return true;
    };
    spaces_.Post([=, this, context = *std::move(context)] {
      if (answer(context, kQuickTime)) return;
      spaces_.PostSlow(context.principal.name, [answer, context] { answer(context, Duration::max()); });
    });
    return reactor;
  }

  // The same as Slow for what people order of a job, which waits for nothing else.
  template <typename Request, typename Response, typename Run>
  grpc::ServerUnaryReactor* Order(grpc::CallbackServerContext* call, std::string_view name, const Request* request,
                                  Response* response, const Run& run) {
    return Queue(&orders_, call, name, request, response, run);
  }

 private:
  template <typename Request, typename Response, typename Run>
  grpc::ServerUnaryReactor* Queue(ThreadPool* threads, grpc::CallbackServerContext* call, std::string_view name,
                                  const Request* request, Response* response, const Run& run) {
    grpc::ServerUnaryReactor* reactor = call->DefaultReactor();
    absl::StatusOr<CallContext> context = Enter(*call, name, *request);
    if (!context.ok()) {
      reactor->Finish(ToGrpc(context.status()));
      return reactor;
    }
    const MonotonicTime deadline = clock_->Now() + kDeadlineMax;
    threads->Post([=, this, context = *std::move(context)] {
      if (call->IsCancelled() || clock_->Now() > deadline) {
        reactor->Finish(ToGrpc(Late()));
        return;
      }
      reactor->Finish(Invoke(context, name, request, response, run, true));
    });
    return reactor;
  }

  static absl::Status Late() { return DeadlineExceeded("the call waited longer than its deadline; try again later"); }

  static Listener ListenerOf(const RpcServerOptions& options) {
    Listener listener;
    if (!options.tls) {
      listener.identity = options.is_admin ? AdminSocket() : options.is_insecure ? InsecureListener() : ClientSocket();
    }
    listener.is_readable = options.is_insecure;
    return listener;
  }

  template <typename Request>
  absl::StatusOr<CallContext> Enter(const grpc::CallbackServerContext& call, std::string_view name,
                                    const Request& request) const {
    ASSIGN_OR_RETURN(CallContext context, entrance_.Authorize(call, name));
    // Somewhat larger ones are let in, so that the refusal has a reason and stands in the log; gRPC itself refuses the
    // rest.
    const absl::Status size = CheckMessageSize(request.ByteSizeLong());
    if (size.ok()) return context;
    entrance_.Record(context, name, nullptr, nullptr, size);
    return size;
  }

  template <typename Request, typename Response, typename Run>
  grpc::Status Invoke(const CallContext& context, std::string_view name, const Request* request, Response* response,
                      const Run& run, bool counts) {
    std::optional<OpenCalls::Call> open;
    if (counts) open.emplace(calls_);
    return Answer(context, name, request, response, run(context));
  }

  template <typename Request, typename Response>
  grpc::Status Answer(const CallContext& context, std::string_view name, const Request* request, Response* response,
                      absl::StatusOr<Response> result) {
    entrance_.Record(context, name, request, result.ok() ? &*result : nullptr, result.status());
    if (!result.ok()) return ToGrpc(result.status());
    *response = *std::move(result);
    return grpc::Status::OK;
  }

  OpenCalls* const calls_;
  Clock* const clock_;
  const Gate open_gate_{GateOptions{}};
  const Entrance entrance_;
  ThreadPool slow_{"rpc-slow", kThreads}, orders_{"rpc-order", kThreads};
  ThreadPool spaces_{"rpc-space", kSpaceThreads, {}, SlowThreads{"rpc-large", kLargeSpaceThreads, [] {
                                                                   LowerPriority(kLargeSpaceNice);
                                                                 }}};
};

// A generated service whose calls `Api` answers.
template <typename Service, typename Api>
class Adapter : public Service {
 public:
  Adapter(Dispatcher* dispatcher, Api* api) : dispatcher_(dispatcher), api_(api) {}

 protected:
  Dispatcher* const dispatcher_;
  Api* const api_;
};

// The generated signatures are alike, so one line per call says all there is to say. Most calls need not know who makes
// them: RUN says how `api` is called.
#define TUNEFARM_CALL_AS(SERVICE, NAME, LANE, RUN)                                                       \
  grpc::ServerUnaryReactor* NAME(grpc::CallbackServerContext* call, const v1::NAME##Request* request,    \
                                 v1::NAME##Response* response) override {                                \
    const auto run = [api = api_, request]([[maybe_unused]] const CallContext& context) { return RUN; }; \
    return dispatcher_->LANE(call, "tunefarm.v1." #SERVICE "/" #NAME, request, response, run);           \
  }
#define TUNEFARM_CALL(SERVICE, NAME, LANE) TUNEFARM_CALL_AS(SERVICE, NAME, LANE, api->NAME(*request))

class KernelServiceAdapter : public Adapter<v1::KernelService::CallbackService, KernelApi> {
 public:
  using Adapter::Adapter;
  TUNEFARM_CALL_AS(KernelService, CreateKernel, Slow, api->CreateKernel(context.principal, *request))
  TUNEFARM_CALL_AS(KernelService, DeleteKernel, Slow, api->DeleteKernel(context.principal, *request))
  TUNEFARM_CALL(KernelService, GetKernel, Fast)
  TUNEFARM_CALL(KernelService, ListKernels, Fast)
  TUNEFARM_CALL_AS(KernelService, CountSpace, Space, api->CountSpace(*request, context.grant))
  TUNEFARM_CALL_AS(KernelService, CompileKernel, Slow, api->CompileKernel(*request, context.grant))
};

class TuningServiceAdapter : public Adapter<v1::TuningService::CallbackService, TuningApi> {
 public:
  using Adapter::Adapter;
  TUNEFARM_CALL_AS(TuningService, CreateJob, Space, api->CreateJob(context.principal, *request, context.grant))
  TUNEFARM_CALL(TuningService, GetJob, Fast)
  TUNEFARM_CALL(TuningService, ListJobs, Fast)
  TUNEFARM_CALL(TuningService, CancelJob, Order)
  TUNEFARM_CALL(TuningService, PauseJob, Order)
  TUNEFARM_CALL(TuningService, ResumeJob, Order)
  TUNEFARM_CALL(TuningService, DeleteJob, Slow)
  TUNEFARM_CALL(TuningService, ListTrials, Fast)
  TUNEFARM_CALL(TuningService, GetTrial, Fast)
  grpc::ServerWriteReactor<v1::WatchJobResponse>* WatchJob(grpc::CallbackServerContext* call,
                                                           const v1::WatchJobRequest* request) override {
    const auto context = dispatcher_->entrance().Authorize(*call, "tunefarm.v1.TuningService/WatchJob");
    if (!context.ok()) return new RefusedStream<v1::WatchJobResponse>(ToGrpc(context.status()));
    return new WatchReactor(dispatcher_->calls(), api_, *request);
  }
};

class LookupServiceAdapter : public Adapter<v1::LookupService::CallbackService, LookupApi> {
 public:
  using Adapter::Adapter;
  TUNEFARM_CALL(LookupService, LookupConfig, Fast)
  TUNEFARM_CALL(LookupService, BatchLookupConfigs, Slow)
  TUNEFARM_CALL(LookupService, ListBestConfigs, Fast)
};

class CatalogServiceAdapter : public Adapter<v1::CatalogService::CallbackService, CatalogApi> {
 public:
  using Adapter::Adapter;
  TUNEFARM_CALL(CatalogService, PinBestConfig, Slow)
  TUNEFARM_CALL(CatalogService, UnpinBestConfig, Slow)
  TUNEFARM_CALL(CatalogService, RetireBestConfig, Slow)
  TUNEFARM_CALL(CatalogService, AnnotateBestConfig, Slow)
  TUNEFARM_CALL(CatalogService, ListBestConfigChanges, Fast)
  grpc::ServerWriteReactor<v1::WatchBestConfigsResponse>* WatchBestConfigs(
      grpc::CallbackServerContext* call, const v1::WatchBestConfigsRequest* request) override {
    const auto context = dispatcher_->entrance().Authorize(*call, "tunefarm.v1.CatalogService/WatchBestConfigs");
    if (!context.ok()) return new RefusedStream<v1::WatchBestConfigsResponse>(ToGrpc(context.status()));
    return new CatalogWatchReactor(dispatcher_->calls(), api_, *request);
  }
  TUNEFARM_CALL(CatalogService, ListMisses, Fast)
  TUNEFARM_CALL(CatalogService, DeleteMisses, Slow)
};

class DeviceServiceAdapter : public Adapter<v1::DeviceService::CallbackService, FarmApi> {
 public:
  using Adapter::Adapter;
  TUNEFARM_CALL(DeviceService, ListDevices, Fast)
  TUNEFARM_CALL(DeviceService, ListDeviceClasses, Fast)
  TUNEFARM_CALL(DeviceService, ReleaseDevice, Fast)
};

class FarmServiceAdapter : public Adapter<v1::FarmService::CallbackService, FarmApi> {
 public:
  using Adapter::Adapter;
  TUNEFARM_CALL(FarmService, ListAgents, Fast)
  TUNEFARM_CALL(FarmService, DrainAgent, Slow)
  TUNEFARM_CALL(FarmService, UndrainAgent, Slow)
  TUNEFARM_CALL(FarmService, QuarantineDevice, Fast)
};

class ServerServiceAdapter : public Adapter<v1::ServerService::CallbackService, ServerApi> {
 public:
  using Adapter::Adapter;
  TUNEFARM_CALL(ServerService, CreateBackup, Slow)
  TUNEFARM_CALL(ServerService, Shutdown, Fast)
  // Does not count: to ask whether the daemon is idle does not keep it from its idle exit.
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* call, const v1::GetServerInfoRequest* request,
                                          v1::GetServerInfoResponse* response) override {
    const auto run = [this, request](const CallContext& /*context*/) { return api_->GetServerInfo(*request); };
    return dispatcher_->Fast(call, "tunefarm.v1.ServerService/GetServerInfo", request, response, run, false);
  }
};

class AccessServiceAdapter : public Adapter<v1::AccessService::CallbackService, AccessApi> {
 public:
  using Adapter::Adapter;
  TUNEFARM_CALL(AccessService, CreateToken, Slow)
  TUNEFARM_CALL(AccessService, ListTokens, Slow)
  TUNEFARM_CALL(AccessService, RevokeToken, Slow)
};

#undef TUNEFARM_CALL
#undef TUNEFARM_CALL_AS

std::string UnixPath(const std::string& address) { return address.rfind("unix:", 0) == 0 ? address.substr(5) : ""; }

void EnableServerExtensions() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

}  // namespace

struct RpcServer::Impl {
  Impl(const RpcServices& services, Clock* clock, const RpcServerOptions& options)
      : dispatcher(services.calls, clock, options) {
    adapters.push_back(std::make_unique<KernelServiceAdapter>(&dispatcher, services.kernels));
    adapters.push_back(std::make_unique<TuningServiceAdapter>(&dispatcher, services.tuning));
    adapters.push_back(std::make_unique<LookupServiceAdapter>(&dispatcher, services.lookup));
    adapters.push_back(std::make_unique<CatalogServiceAdapter>(&dispatcher, services.catalog));
    adapters.push_back(std::make_unique<DeviceServiceAdapter>(&dispatcher, services.farm));
    adapters.push_back(std::make_unique<FarmServiceAdapter>(&dispatcher, services.farm));
    adapters.push_back(std::make_unique<ServerServiceAdapter>(&dispatcher, services.server));
    adapters.push_back(std::make_unique<AccessServiceAdapter>(&dispatcher, services.access));
    if (options.agents != nullptr) {
      agents = std::make_unique<AgentServiceAdapter>(options.agents, &dispatcher.entrance(), clock);
    }
  }

  Dispatcher dispatcher;
  std::vector<std::unique_ptr<grpc::Service>> adapters;
  std::unique_ptr<AgentServiceAdapter> agents;
  std::optional<HandshakeLog> handshakes;  // with TLS
  std::vector<std::string> addresses;
  std::unique_ptr<grpc::Server> server;
  bool is_shut_down = false;
};

RpcServer::RpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const RpcServices& services, Clock* clock,
                                                            const RpcServerOptions& options) {
  EnableServerExtensions();
  auto impl = std::make_unique<Impl>(services, clock, options);
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (options.tls) {
    ASSIGN_OR_RETURN(credentials, MakeServerCredentials(*options.tls));
    impl->handshakes.emplace(&impl->dispatcher.entrance().gate());
  }
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kReceivedBytesMax);
  builder.SetMaxSendMessageSize(kMessageBytesMax);
  // Two daemons must never share a port by accident.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Clients keep idle watch streams alive with pings; the default of five minutes would cut them off.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 20'000);
  std::vector<int> ports(options.addresses.size(), 0);
  for (size_t i = 0; i < options.addresses.size(); ++i) {
    if (const std::string path = UnixPath(options.addresses[i]); !path.empty()) {
      if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoStatus(errno, "replacing the socket {}", path);
    }
    builder.AddListeningPort(options.addresses[i], credentials, &ports[i]);
  }
  for (const auto& adapter : impl->adapters) builder.RegisterService(adapter.get());
  if (impl->agents) builder.RegisterService(impl->agents->service());
  // The socket must never be reachable with a wider mode, not even for a moment.
  const mode_t old_mask = umask(options.is_admin ? 0177 : 0117);
  impl->server = builder.BuildAndStart();
  umask(old_mask);
  for (size_t i = 0; i < options.addresses.size(); ++i) {
    const std::string& address = options.addresses[i];
    const bool is_unix = !UnixPath(address).empty();
    if (!impl->server || ports[i] == 0) {
      return WithReason(Unavailable("cannot listen on {}: the address is in use or not permitted", address),
                        "LISTEN_FAILED");
    }
    impl->addresses.push_back(is_unix ? address
                                      : fmt::format("{}:{}", address.substr(0, address.rfind(':')), ports[i]));
  }
  return std::unique_ptr<RpcServer>(new RpcServer(std::move(impl)));
}

RpcServer::~RpcServer() { Shutdown(Duration::zero()); }

const std::vector<std::string>& RpcServer::addresses() const { return impl_->addresses; }

void RpcServer::SetNotServing() {
  if (impl_->server && impl_->server->GetHealthCheckService()) {
    impl_->server->GetHealthCheckService()->SetServingStatus(false);
  }
}

void RpcServer::Shutdown(Duration grace) {
  if (impl_->is_shut_down || !impl_->server) return;
  impl_->is_shut_down = true;
  const gpr_timespec deadline =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(grace.count(), GPR_TIMESPAN));
  impl_->server->Shutdown(deadline);
  impl_->server->Wait();
  for (const std::string& address : impl_->addresses) {
    if (const std::string path = UnixPath(address); !path.empty()) unlink(path.c_str());
  }
}

}  // namespace tunefarm
