#include "server/rpc/tls.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <vector>

#include "server/access/certificate_check.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/mutex.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr unsigned kReadAgainSeconds = 1;
// Of what the library says, which quotes peers that nobody knows: one line in so long, and so much of it.
constexpr Duration kLogInterval = std::chrono::seconds(10);
constexpr size_t kLogBytesMax = 300;

// gRPC has one log function for the process. Never destroyed: its threads log to the end.
struct Listeners {
  Mutex mutex;
  std::vector<const Gate*> gates GUARDED_BY(mutex);

  static Listeners& Get() {
    static Listeners* const listeners = new Listeners;
    return *listeners;
  }
};

// In words, where the library's would be understood by few.
std::string HandshakeText(std::string_view message) {
  for (const std::string_view sign : {"wrong version number", "http request"}) {
    if (message.find(sign) != std::string_view::npos) return "plain text was sent to a port that expects TLS";
  }
  return "a TLS handshake failed: " + std::string(message.substr(0, 200));
}

// What a library says on its own.
void LogForLibrary(std::string_view library, std::string_view message) {
  static LogRateLimit* const limit = new LogRateLimit(Clock::Real(), kLogInterval);
  uint64_t skipped = 0;
  if (!limit->Allow(&skipped)) return;
  LogWarn("rpc", "{} says: {} ({} more since the last message)", library, message.substr(0, kLogBytesMax), skipped);
}

void OnProtobufLog(google::protobuf::LogLevel level, const char* /*file*/, int /*line*/, const std::string& message) {
  if (level >= google::protobuf::LOGLEVEL_ERROR) LogForLibrary("protobuf", message);
}

void OnLog(gpr_log_func_args* arguments) {
  const std::string_view message(arguments->message);
  if (message.find("Handshake failed") != std::string_view::npos) {
    Listeners& listeners = Listeners::Get();
    MutexLock lock(&listeners.mutex);
    for (const Gate* const gate : listeners.gates) gate->RecordHandshake(HandshakeText(message));
    return;
  }
  if (arguments->severity == GPR_LOG_SEVERITY_ERROR) LogForLibrary("gRPC", message);
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(const TlsFiles& files) {
  RETURN_IF_ERROR(CheckKeyPair(files.certificate, files.key));
  const auto provider = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      files.key, files.certificate, kReadAgainSeconds);
  grpc::experimental::TlsServerCredentialsOptions options(provider);
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(files.asks_for_certificates ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_BUT_DONT_VERIFY
                                                            : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  return grpc::experimental::TlsServerCredentials(options);
}

HandshakeLog::HandshakeLog(const Gate* gate) : gate_(gate) {
  Listeners& listeners = Listeners::Get();
  MutexLock lock(&listeners.mutex);
  if (gate != nullptr) listeners.gates.push_back(gate);
  static const bool is_set = [] {
    gpr_set_log_function(OnLog);
    google::protobuf::SetLogHandler(OnProtobufLog);
    return true;
  }();
  static_cast<void>(is_set);
}

HandshakeLog::~HandshakeLog() {
  Listeners& listeners = Listeners::Get();
  MutexLock lock(&listeners.mutex);
  const auto own = std::find(listeners.gates.begin(), listeners.gates.end(), gate_);
  if (own != listeners.gates.end()) listeners.gates.erase(own);
}

}  // namespace tunefarm
