#include "server/daemon/config_rules.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/dial/dial_options.h"
#include "server/store/postgres_store.h"

namespace tunefarm {
namespace {

constexpr size_t kControlAddressesMax = 16;
constexpr size_t kHostBytesMax = 253;  // of a name of the DNS
constexpr size_t kLabelsMax = 64;
constexpr size_t kLabelBytesMax = 240;  // a job's selector has 256, with what it begins with

// The value is not repeated: it may hold a password.
absl::Status CheckStore(const std::string& store) {
  if (store.empty()) return absl::OkStatus();
  return Annotate(DescribePostgresUrl(store).status(), "store");
}

absl::Status CheckIsolationLevel(const std::string& level) {
  if (level.empty() || level == "L0" || level == "L1") return absl::OkStatus();
  return InvalidArgument("required_isolation '{}' is no level of isolation; write L1, or L0 for whatever can be had",
                         level);
}

absl::Status CheckInterpreter(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  if (path.front() != '/') {
    return InvalidArgument("python_interpreter '{}' is no absolute path; write for example /usr/bin/python3", path);
  }
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return InvalidArgument(
        "python_interpreter {} is no file; name an interpreter, or leave it out to refuse kernels in "
        "Python",
        path);
  }
  return absl::OkStatus();
}

// `key`: the setting that holds it.
absl::Status CheckListen(std::string_view key, const std::string& listen, bool may_be_remote) {
  if (listen.empty()) return absl::OkStatus();
  const size_t colon = listen.rfind(':');
  const std::string port = colon == std::string::npos ? "" : listen.substr(colon + 1);
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos ||
      std::stoi(port) > 65'535) {
    return InvalidArgument("{} address '{}' has no port from 0 to 65535; write 127.0.0.1:7070", key, listen);
  }
  if (!may_be_remote && !IsLoopback(listen)) {
    return WithReason(
        InvalidArgument("{} address '{}' is not loopback: plain text is served on 127.0.0.1, localhost or [::1] only{}",
                        key, listen,
                        key == "dashboard_listen" ? "; set tls_certificate and tls_key (tunefarm certs makes them)"
                        : key == "listen"
                            ? "; set tls_certificate and tls_key (tunefarm certs makes them), or --insecure "
                              "where nobody else can reach the network"
                            : ""),
        "PLAINTEXT_REFUSED");
  }
  return absl::OkStatus();
}

absl::Status CheckDashboard(const DaemonConfig& config) {
  RETURN_IF_ERROR(CheckListen("dashboard_listen", config.dashboard_listen, !config.tls_certificate.empty()));
  if (config.role == "agent" && !config.dashboard_listen.empty()) {
    return InvalidArgument("dashboard_listen is for control daemons: an agent has no dashboard");
  }
  for (const std::string& host : ParseAddresses(config.dashboard_hosts)) {
    const bool is_name = std::all_of(host.begin(), host.end(), [](unsigned char c) {
      return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '.' || c == '-';
    });
    if (!is_name || host.size() > kHostBytesMax) {
      return InvalidArgument(
          "dashboard_hosts has '{}', which is no name of a host in lower case and without a port; "
          "write tune.example,farm-1",
          host);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRole(const DaemonConfig& config) {
  if (config.role != "all" && config.role != "control" && config.role != "agent") {
    return InvalidArgument("role '{}' is none of all, control and agent", config.role);
  }
  if (config.role == "agent" && config.control.empty()) {
    return InvalidArgument("an agent must be told where control is: --control HOST:PORT");
  }
  if (config.role != "agent" && config.compile_only) {
    return InvalidArgument("compile_only is for agents: add --role agent, or leave it out");
  }
  if (config.role != "agent" && !config.control.empty()) {
    return InvalidArgument("control = '{}' is for agents: add --role agent, or leave it out", config.control);
  }
  const std::vector<std::string> addresses = ParseAddresses(config.control);
  if (addresses.size() > kControlAddressesMax) {
    return InvalidArgument("{} addresses of control are given, at most {} are taken", addresses.size(),
                           kControlAddressesMax);
  }
  for (const std::string& address : addresses) {
    const size_t colon = address.rfind(':');
    const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
    const bool is_unix = address.rfind("unix:/", 0) == 0;
    if (!is_unix && (colon == 0 || port.empty() || port.size() > 5 ||
                     port.find_first_not_of("0123456789") != std::string::npos || std::stoi(port) > 65'535)) {
      return InvalidArgument("control address '{}' has no host or no port; write farm-1:7070", address);
    }
  }
  if (config.agent_name.size() > kLabelBytesMax) {
    return InvalidArgument("agent_name has {} bytes, at most {} are allowed", config.agent_name.size(), kLabelBytesMax);
  }
  const std::vector<std::pair<std::string, std::string>> labels = ParseLabels(config.labels);
  if (labels.size() > kLabelsMax) return InvalidArgument("{} labels are given, at most {}", labels.size(), kLabelsMax);
  for (const auto& [name, value] : labels) {
    if (name.empty() || value.empty() || name.size() + value.size() > kLabelBytesMax) {
      return InvalidArgument("labels '{}' is no list of NAME=VALUE; write rack=3,room=b", config.labels);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSentinels(const std::string& sentinels) {
  if (sentinels == "gpus" || sentinels == "all" || sentinels == "none") return absl::OkStatus();
  return InvalidArgument("sentinels '{}' is none of gpus, all and none", sentinels);
}

absl::Status CheckTls(const DaemonConfig& config) {
  if (config.tls_certificate.empty() != config.tls_key.empty()) {
    return InvalidArgument("{} is set without {}: TLS needs both",
                           config.tls_key.empty() ? "tls_certificate" : "tls_key",
                           config.tls_key.empty() ? "tls_key" : "tls_certificate");
  }
  if (!config.tls_key.empty()) RETURN_IF_ERROR(CheckSecretFile("the private key", config.tls_key));
  if (config.role == "agent") {
    if (!config.tls_certificate.empty() && config.tls_ca.empty()) {
      return InvalidArgument("tls_certificate is set without tls_ca: an agent shows its certificate in TLS only");
    }
    for (const std::string& address : ParseAddresses(config.control)) {
      if (!config.tls_ca.empty() || config.insecure_plaintext || StaysHere(address)) continue;
      return InvalidArgument(
          "control address '{}' is another machine, and there is no tls_ca: kernels and results would travel as plain "
          "text; make certificates with tunefarm certs, or allow it with --insecure",
          address);
    }
    return absl::OkStatus();
  }
  if (!config.tls_ca.empty()) return InvalidArgument("tls_ca is for agents; who may call is said with tls_client_ca");
  if (!config.tls_client_ca.empty() && config.tls_certificate.empty()) {
    return InvalidArgument(
        "tls_client_ca is set without tls_certificate and tls_key: certificates are shown in TLS only");
  }
  if (config.insecure_plaintext && !config.tls_certificate.empty()) {
    return InvalidArgument("insecure_plaintext and tls_certificate are both set: choose one of them");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDaemonConfig(const DaemonConfig& config) {
  RETURN_IF_ERROR(CheckListen("listen", config.listen, !config.tls_certificate.empty() || config.insecure_plaintext));
  RETURN_IF_ERROR(CheckListen("http_listen", config.http_listen, false));
  RETURN_IF_ERROR(CheckDashboard(config));
  RETURN_IF_ERROR(CheckRole(config));
  RETURN_IF_ERROR(CheckSentinels(config.sentinels));
  RETURN_IF_ERROR(CheckTls(config));
  RETURN_IF_ERROR(CheckIsolationLevel(config.required_isolation));
  RETURN_IF_ERROR(CheckInterpreter(config.python_interpreter));
  RETURN_IF_ERROR(CheckStore(config.store));
  return absl::OkStatus();
}

}  // namespace tunefarm
