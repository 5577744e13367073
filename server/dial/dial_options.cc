#include "server/dial/dial_options.h"

#include <algorithm>
#include <cctype>

#include "server/base/file.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr uint64_t kTokenFileBytesMax = 4096;
constexpr size_t kSocketPathBytesMax = 107;

bool IsPort(const std::string& text) {
  const bool is_number = !text.empty() && text.size() <= 5 && text.find_first_not_of("0123456789") == std::string::npos;
  return is_number && std::stoi(text) >= 1 && std::stoi(text) <= 65535;
}

}  // namespace

absl::Status CheckAddress(const std::string& address) {
  const auto bad = [&](const std::string& why) {
    return WithReason(
        InvalidArgument("'{}' is not an address of a daemon: {}; write unix:/path or host:port", address, why),
        "ADDRESS_INVALID");
  };
  if (address.rfind("unix:", 0) == 0) {
    if (address.size() == 5) return bad("the path is missing");
    if (address.size() - 5 > kSocketPathBytesMax) {
      return bad(fmt::format("the path has {} bytes, a socket's at most {}", address.size() - 5, kSocketPathBytesMax));
    }
    return absl::OkStatus();
  }
  if (address.find('/') != std::string::npos) {
    return bad(address[0] == '/' || address[0] == '.' ? "the path of a socket begins with unix:"
                                                      : "it holds a '/', which no host name does");
  }
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return bad("the port is missing");
  const std::string host = address.substr(0, colon);
  if (host.empty() || host == "[]") return bad("the host is missing");
  const bool is_bracketed = host.front() == '[' && host.back() == ']' && host.size() > 2;
  if (!is_bracketed && host.find(':') != std::string::npos)
    return bad("an IPv6 address stands in brackets: [::1]:7070");
  if (!IsPort(address.substr(colon + 1))) {
    return bad(fmt::format("'{}' is not a port from 1 to 65535", address.substr(colon + 1)));
  }
  return absl::OkStatus();
}

bool StaysHere(const std::string& address) {
  if (address.rfind("unix:", 0) == 0) return true;
  const std::string host = address.substr(0, address.rfind(':'));
  return host == "localhost" || host == "[::1]" || host.rfind("127.", 0) == 0;
}

DialOptions WithEnvironment(DialOptions options, const EnvironmentGetter& environment) {
  const auto fill = [&](std::string* value, const char* name) {
    if (value->empty()) *value = environment(name).value_or("");
  };
  fill(&options.ca, "TUNEFARM_TLS_CA");
  if (options.certificate.empty() && options.key.empty()) {
    fill(&options.certificate, "TUNEFARM_CLIENT_CERTIFICATE");
    fill(&options.key, "TUNEFARM_CLIENT_KEY");
  }
  if (options.token.empty() && options.token_file.empty()) {
    fill(&options.token, "TUNEFARM_TOKEN");
    if (options.token.empty()) fill(&options.token_file, "TUNEFARM_TOKEN_FILE");
  }
  return options;
}

absl::StatusOr<DialOptions> Checked(DialOptions options) {
  RETURN_IF_ERROR(CheckAddress(options.address));
  if (options.certificate.empty() != options.key.empty()) {
    return InvalidArgument("a certificate and its key belong together: give both (--tls-certificate, --tls-key)");
  }
  const bool is_unix = options.address.rfind("unix:", 0) == 0;
  if (is_unix) {
    // TLS is of no use there; the environment may speak of another daemon.
    options.ca.clear();
    options.certificate.clear();
    options.key.clear();
  }
  if (!options.certificate.empty() && options.ca.empty()) {
    return InvalidArgument(
        "a certificate is shown in TLS only: also give the CA of the daemon's certificate (--tls-ca)");
  }
  if (!options.key.empty()) RETURN_IF_ERROR(CheckSecretFile("the private key", options.key));
  if (!options.token_file.empty() && options.token.empty()) {
    RETURN_IF_ERROR(CheckSecretFile("the token's file", options.token_file));
    ASSIGN_OR_RETURN(options.token, ReadFile(options.token_file, kTokenFileBytesMax));
    while (!options.token.empty() && std::isspace(static_cast<unsigned char>(options.token.back())) != 0) {
      options.token.pop_back();
    }
    if (options.token.empty()) {
      return InvalidArgument("the token file {} is empty; it holds one token, which begins with 'tft_'",
                             options.token_file);
    }
  }
  if (options.token.empty()) return options;
  const bool is_clean = std::all_of(options.token.begin(), options.token.end(),
                                    [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  if (options.token.rfind("tft_", 0) != 0 || !is_clean) {
    return InvalidArgument("{} holds no token: one begins with 'tft_'",
                           options.token_file.empty() ? "TUNEFARM_TOKEN" : options.token_file);
  }
  if (options.ca.empty() && !StaysHere(options.address)) {
    return WithReason(
        InvalidArgument("a token is not sent to {} as plain text: give the CA of the daemon's certificate "
                        "(--tls-ca)",
                        options.address),
        "TOKEN_IN_PLAINTEXT");
  }
  return options;
}

}  // namespace tunefarm
