#include "server/dial/dial.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/support/client_interceptor.h>

#include <utility>
#include <vector>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr unsigned kReadAgainSeconds = 5;
// What one attempt to connect may take, of which a busy machine needs some.
constexpr Duration kAttemptMax = std::chrono::seconds(5);

// Sends the token with every call, over whatever channel: gRPC's own way would not over a Unix socket.
class TokenSender : public grpc::experimental::Interceptor {
 public:
  explicit TokenSender(const std::string* header) : header_(header) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", *header_);
    }
    methods->Proceed();
  }

 private:
  const std::string* const header_;
};

class TokenSenders : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenSenders(const std::string& token) : header_("Bearer " + token) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(grpc::experimental::ClientRpcInfo*) override {
    return new TokenSender(&header_);
  }

 private:
  const std::string header_;
};

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const DialOptions& options) {
  if (options.ca.empty()) return grpc::InsecureChannelCredentials();
  RETURN_IF_ERROR(CheckTlsFiles(options));
  grpc::experimental::TlsChannelCredentialsOptions tls;
  tls.set_certificate_provider(std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      options.key, options.certificate, options.ca, kReadAgainSeconds));
  tls.watch_root_certs();
  if (!options.certificate.empty()) tls.watch_identity_key_cert_pairs();
  tls.set_certificate_verifier(std::make_shared<grpc::experimental::HostNameCertificateVerifier>());
  return grpc::experimental::TlsCredentials(tls);
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> Dial(const DialOptions& given, const grpc::ChannelArguments& arguments) {
  ASSIGN_OR_RETURN(const DialOptions options, Checked(given));
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials, MakeCredentials(options));
  if (options.token.empty()) return grpc::CreateCustomChannel(options.address, credentials, arguments);
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> senders;
  senders.push_back(std::make_unique<TokenSenders>(options.token));
  return grpc::experimental::CreateCustomChannelWithInterceptors(options.address, credentials, arguments,
                                                                 std::move(senders));
}

void SetReconnectPauses(Duration first, Duration longest, grpc::ChannelArguments* arguments) {
  const auto set = [arguments](const char* name, Duration value) {
    arguments->SetInt(name, static_cast<int>(value / std::chrono::milliseconds(1)));
  };
  set(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, first);
  set(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, longest);
  // In spite of its name the time that one attempt may take.
  set(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kAttemptMax);
}

}  // namespace tunefarm
