#include "server/rpc/server.h"

#include <grpc/support/cpu.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/impl/server_builder_option.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/support/method_handler.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string_view>

#include "server/api/public_calls.h"
#include "server/api/router.h"
#include "server/base/executor.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread_pool.h"
#include "server/rpc/acceptor.h"
#include "server/rpc/agent_calls.h"
#include "server/rpc/door.h"
#include "server/rpc/entrance.h"
#include "server/rpc/public_streams.h"
#include "server/rpc/raw_call_queue.h"

namespace tunefarm {
namespace {

// What one message may have is checked by RawCall, with a reason; beyond this gRPC itself refuses it.
constexpr int kReceivedBytesMax = 32 << 20;
// Binaries of 64 MiB (CompileKernel) and what lies around them; clients take less unless they ask for those.
constexpr int kSentBytesMax = 72 << 20;
// Of all connections of the process by who may connect: what has arrived and was not taken, what was sent and not read.
// Beyond it gRPC takes no new connections, closes those that have no call just then, and ends calls. Apart, so that
// peers on the network who fill theirs close no connection of this machine's users.
constexpr size_t kNetworkBytesMax = size_t{256} << 20;
constexpr size_t kClientSocketBytesMax = size_t{128} << 20;
constexpr size_t kAdminSocketBytesMax = size_t{64} << 20;
// Of one connection; a client's further calls wait in the client.
constexpr int kStreamsPerConnectionMax = 256;
constexpr int kAdminThreads = 2;
// A connection that has not begun to speak HTTP/2 by then is closed.
constexpr int kHandshakeMsMax = 10'000;
// A TCP connection without a call is closed after so long: a client opens another one with its next call, and one that
// has no identity never has a call for longer than its refusal takes. Not of Unix sockets, whose calls it would make
// dearer, and whose files say who may connect.
constexpr int kIdleMsMax = 60'000;

std::string UnixPath(const std::string& address) { return address.rfind("unix:", 0) == 0 ? address.substr(5) : ""; }

Principal IdentityOf(const RpcServerOptions& options) {
  if (options.is_admin) return AdminSocket();
  if (options.is_insecure) return InsecureListener();
  return UnixPath(options.addresses.front()).empty() ? LoopbackListener() : ClientSocket();
}

Listener ListenerOf(const RpcServerOptions& options) {
  Listener listener;
  if (!options.tls) listener.identity = IdentityOf(options);
  listener.is_readable = options.is_insecure;
  return listener;
}

// Shared by all listeners of the kind, for as long as the process lives.
const grpc::ResourceQuota& TransportQuota(Peers peers) {
  const auto make = [](const char* name, size_t bytes_max) {
    auto* const quota = new grpc::ResourceQuota(name);
    quota->Resize(bytes_max);
    return quota;
  };
  static auto* const network = make("network", kNetworkBytesMax);
  static auto* const client_socket = make("client socket", kClientSocketBytesMax);
  static auto* const admin_socket = make("admin socket", kAdminSocketBytesMax);
  switch (peers) {
    case Peers::kNetwork:
      return *network;
    case Peers::kClientSocket:
      return *client_socket;
    case Peers::kAdminSocket:
      break;
  }
  return *admin_socket;
}

// The library reads requests of reflection before anybody could ask who sent them: it is served to the admin socket
// only. Linking it adds it to every server of the process.
class Plugins : public grpc::ServerBuilderOption {
 public:
  explicit Plugins(bool reflects) : reflects_(reflects) {}
  void UpdateArguments(grpc::ChannelArguments* /*arguments*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    plugins->clear();
    if (reflects_) plugins->push_back(std::make_unique<grpc::reflection::ProtoServerReflectionPlugin>());
  }

 private:
  const bool reflects_;
};

// Makes reflection list a service whose calls gRPC does not know one by one. It lists those that have a method: this
// one has an empty name, and is UNIMPLEMENTED.
class ListedService : public grpc::Service {
 public:
  explicit ListedService(std::string_view name) : method_(fmt::format("/{}/", name)) {
    AddMethod(new grpc::internal::RpcServiceMethod(method_.c_str(), grpc::internal::RpcMethod::NORMAL_RPC,
                                                   new grpc::internal::UnknownMethodHandler("")));
  }

 private:
  const std::string method_;  // the library keeps the pointer
};

void Bound(grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(kReceivedBytesMax);
  builder->SetMaxSendMessageSize(kSentBytesMax);
  // What arrives compressed may be a thousand times as large as it says. No client of ours compresses.
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnectionMax);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMsMax);
  // Clients keep idle watch streams alive with pings; the default of five minutes would cut them off.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 20'000);
}

absl::Status CannotListen(const std::string& address) {
  return WithReason(Unavailable("cannot listen on {}: the address is in use or not permitted", address),
                    "LISTEN_FAILED");
}

Peers PeersOf(const RpcServerOptions& options, const std::string& address) {
  if (UnixPath(address).empty()) return Peers::kNetwork;
  return options.is_admin ? Peers::kAdminSocket : Peers::kClientSocket;
}

// Threads that take calls, and answer those that are answered from memory.
int CallThreads() { return std::clamp(static_cast<int>(gpr_cpu_num_cores()) / 2, 4, 16); }

}  // namespace

struct RpcServer::Impl {
  Impl(const RpcServices& services_used, Clock* clock, const RpcServerOptions& options)
      : services(services_used),
        timers(std::in_place, "rpc-pending", clock),
        reads(&*timers, options.request_time_max),
        refusals(&*timers),
        entrance(options.gate != nullptr ? options.gate : &open_gate, ListenerOf(options)),
        around({.entrance = &entrance,
                .open_calls = services.calls,
                .limits = options.limits != nullptr ? options.limits : &own_limits,
                .reads = &reads,
                .refusals = &refusals,
                .clock = clock,
                .router = &router}),
        public_calls(services, "rpc"),
        calls(around) {
    public_calls.AddTo(&router);
    AddPublicStreams(services, public_calls.read_threads(), &router);
    if (options.agents != nullptr) {
      agent_calls.emplace(options.agents, clock);
      agent_calls->AddTo(&router);
    }
    // Of the whole daemon, whatever service is asked for: HealthCheckResponse with SERVING or NOT_SERVING.
    router.AddProbe("grpc.health.v1.Health/Check",
                    [this] { return std::string(is_serving.load() ? "\x08\x01" : "\x08\x02"); });
  }

  ~Impl() { timers.reset(); }  // before what its tasks touch

  const RpcServices services;
  std::optional<ThreadExecutor> timers;
  PendingReads reads;
  LateRefusals refusals;
  const Gate open_gate{GateOptions{}};
  const Entrance entrance;
  CallLimits own_limits;
  std::atomic<bool> is_serving{true};
  const CallSurroundings around;
  Router router;
  PublicCalls public_calls;
  std::optional<AgentCalls> agent_calls;
  std::optional<ThreadPool> admin_threads;
  RawCallQueue calls;
  std::map<std::string, ListedService, std::less<>> listed;  // by name; of the admin socket
  std::optional<HandshakeLog> handshakes;
  std::vector<std::string> addresses;
  std::unique_ptr<grpc::Server> server;
  std::vector<Door> doors;
  bool is_shut_down = false;
};

RpcServer::RpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const RpcServices& services, Clock* clock,
                                                            const RpcServerOptions& options) {
  auto impl = std::make_unique<Impl>(services, clock, options);
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (options.tls) {
    ASSIGN_OR_RETURN(credentials, MakeServerCredentials(*options.tls));
  }
  impl->handshakes.emplace(options.tls ? &impl->entrance.gate() : nullptr);
  grpc::ServerBuilder builder;
  Bound(&builder);
  builder.SetResourceQuota(TransportQuota(PeersOf(options, options.addresses.front())));
  builder.SetOption(std::make_unique<Plugins>(options.is_admin));
  for (const std::string& address : options.addresses) {
    const std::string path = UnixPath(address);
    const bool is_unix = !path.empty();
    if (!is_unix) {
      builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMsMax);
      // What arrives of a call before its request is read stays 64 KiB, also of a peer that sends fast.
      builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    }
    const int descriptors_max = Acceptor::DescriptorsMax(PeersOf(options, address));
    auto acceptor = is_unix ? Acceptor::OpenUnix(path, options.is_admin ? 0600 : 0660, descriptors_max)
                            : Acceptor::Open(address, descriptors_max);
    if (!acceptor.ok()) return CannotListen(address);
    impl->addresses.push_back(
        is_unix ? address : fmt::format("{}:{}", address.substr(0, address.rfind(':')), (*acceptor)->port()));
    impl->doors.emplace_back(&builder, credentials, *std::move(acceptor));
  }
  impl->calls.AddTo(&builder);
  if (options.is_admin) {
    for (const auto& [call, route] : impl->router.routes()) {
      const std::string name = call.substr(0, call.find('/'));
      const auto [listed, is_new] = impl->listed.try_emplace(name, name);
      if (is_new) builder.RegisterService(&listed->second);
    }
  }
  impl->server = builder.BuildAndStart();
  if (!impl->server) {
    impl->calls.Stop();
    return CannotListen(options.addresses.front());
  }
  // Waiting threads of all queues of a process look after all of its connections, and then wake a thread of the other
  // queue. So the admin socket, which is asked little, has one that waits, and others that answer.
  if (options.is_admin) {
    impl->admin_threads.emplace("rpc-admin", kAdminThreads);
    impl->calls.Start(1, &*impl->admin_threads);
  } else {
    impl->calls.Start(CallThreads());
  }
  for (Door& door : impl->doors) door.Open();
  return std::unique_ptr<RpcServer>(new RpcServer(std::move(impl)));
}

RpcServer::~RpcServer() { Shutdown(Duration::zero()); }

const std::vector<std::string>& RpcServer::addresses() const { return impl_->addresses; }

void RpcServer::SetNotServing() { impl_->is_serving.store(false); }

void RpcServer::Shutdown(Duration grace) {
  if (impl_->is_shut_down || !impl_->server) return;
  impl_->is_shut_down = true;
  for (Door& door : impl_->doors) door.Close();
  impl_->refusals.End();
  const gpr_timespec deadline =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(grace.count(), GPR_TIMESPAN));
  impl_->server->Shutdown(deadline);
  impl_->server->Wait();
  impl_->calls.Stop();
}

}  // namespace tunefarm
