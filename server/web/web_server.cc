#include "server/web/web_server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string_view>
#include <utility>

#include "server/access/certificate_check.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread_pool.h"
#include "server/http/http_server.h"
#include "server/http/tls_context.h"
#include "server/web/request_rules.h"
#include "server/web/web_answer.h"
#include "server/web/web_call.h"

namespace tunefarm {
namespace {

constexpr std::string_view kCalls = "/api/";
constexpr size_t kHeadBytesMax = 32 << 10;  // browsers send cookies of all ports of a host
constexpr size_t kBodyBytesMax = 64 << 10;
constexpr size_t kConnectionsMax = 128;
constexpr size_t kAnsweredMax = 64;
constexpr int kOwnAnsweredMax = 48;  // of one principal: calls that search a space take seconds
constexpr Duration kRequestTime = std::chrono::seconds(10);
constexpr Duration kAnswerTime = std::chrono::seconds(30);
// For what comes before each call, and for calls that memory answers.
constexpr int kThreads = 4;

absl::Status RefusalOf(int http_status, const std::string& why) {
  switch (http_status) {
    case 413:
      return WithReason(ResourceExhausted("{}", why), "BODY_TOO_LARGE");
    case 503:
      return WithReason(Unavailable("{}", why), "OVERLOADED");
    default:
      return WithReason(InvalidArgument("{}", why), "REQUEST_INVALID");
  }
}

}  // namespace

struct WebServer::Impl {
  explicit Impl(const WebServerOptions& given)
      : options(given),
        files(given.files),
        around({.gate = given.gate,
                .limits = given.limits,
                .places = &places,
                .open_calls = given.services.calls,
                .router = &router,
                .clock = given.clock,
                .is_ending = &is_ending}) {}

  absl::Status Start() {
    hosts.names = options.hosts;
    if (!options.tls_certificate.empty()) {
      RETURN_IF_ERROR(CheckKeyPair(options.tls_certificate, options.tls_key));
      ASSIGN_OR_RETURN(tls, TlsContext::Open(options.tls_certificate, options.tls_key, options.asks_for_certificates));
      hosts.is_certified = [this](const std::string& host) { return tls->IsFor(host); };
    }
    calls.emplace(options.services, "web");
    calls->AddTo(&router);
    threads.emplace("web", kThreads);
    HttpServerOptions http_options;
    const size_t colon = options.address.rfind(':');
    http_options.host = options.address.substr(0, colon);
    if (http_options.host.size() > 2 && http_options.host.front() == '[') {
      http_options.host = http_options.host.substr(1, http_options.host.size() - 2);
    }
    http_options.port = std::stoi(options.address.substr(colon + 1));
    http_options.head_bytes_max = kHeadBytesMax;
    http_options.body_bytes_max = kBodyBytesMax;
    http_options.connections_max = kConnectionsMax;
    http_options.answered_max = kAnsweredMax;
    http_options.request_time = kRequestTime;
    http_options.answer_time = kAnswerTime;
    http_options.tls = tls.get();
    http_options.on_handshake_failure = [gate = options.gate](std::string_view why) { gate->RecordHandshake(why); };
    http_options.refusal = [this](int http_status, const std::string& why) {
      return WebError(http_status, RefusalOf(http_status, why), options.revision);
    };
    http_options.handle = [this](HttpRequest request, HttpReply reply) {
      Handle(std::move(request), std::move(reply));
    };
    absl::StatusOr<std::unique_ptr<HttpServer>> started = HttpServer::Start(std::move(http_options));
    if (!started.ok()) return WithReason(started.status(), "LISTEN_FAILED");
    http = *std::move(started);
    return absl::OkStatus();
  }

  void Handle(HttpRequest request, HttpReply reply) {
    WebAnswer answer(request, std::move(reply), options.revision);
    std::optional<RequestRefusal> refused = CheckHost(request, hosts);
    const bool is_call = request.path.rfind(kCalls, 0) == 0;
    if (!refused && is_call) refused = CheckCall(request, hosts);
    if (refused) return answer.Error(refused->http_status, refused->error);
    if (!is_call) return answer.Page(files.Answer(request));
    std::string call = request.path.substr(kCalls.size());
    threads->Post([this, call = std::move(call), request = std::move(request), answer = std::move(answer)]() mutable {
      WebCall::Start(&around, std::move(call), std::move(request), std::move(answer));
    });
  }

  void Stop() {
    is_ending.store(true);
    http.reset();
    threads.reset();
    calls.reset();
  }

  const WebServerOptions options;
  const PageFiles files;
  WebHosts hosts;
  std::unique_ptr<TlsContext> tls;
  std::atomic<bool> is_ending{false};
  CallLimits places{{.calls_per_principal_max = kOwnAnsweredMax}};
  Router router;
  const WebSurroundings around;
  std::optional<PublicCalls> calls;
  std::optional<ThreadPool> threads;
  std::unique_ptr<HttpServer> http;
};

WebServer::WebServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

WebServer::~WebServer() { impl_->Stop(); }

absl::StatusOr<std::unique_ptr<WebServer>> WebServer::Start(const WebServerOptions& options) {
  std::unique_ptr<WebServer> server(new WebServer(std::make_unique<Impl>(options)));
  RETURN_IF_ERROR(server->impl_->Start());
  return server;
}

const std::string& WebServer::address() const { return impl_->http->address(); }

}  // namespace tunefarm
