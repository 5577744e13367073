// One attempt to connect with OpenSSL, which says what gRPC does not.

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <memory>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/unique_fd.h"
#include "server/dial/dial_options.h"

namespace tunefarm {
namespace {

constexpr int kPatienceMs = 3000;

template <auto function>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    function(object);
  }
};

struct HostPort {
  std::string host, port;
};

HostPort Split(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostPort result{address.substr(0, colon), colon == std::string::npos ? "" : address.substr(colon + 1)};
  if (result.host.size() > 2 && result.host.front() == '[') result.host = result.host.substr(1, result.host.size() - 2);
  return result;
}

// Invalid: nobody is there.
UniqueFd Connect(const HostPort& at) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(at.host.c_str(), at.port.c_str(), &hints, &found) != 0) return UniqueFd();
  const std::unique_ptr<addrinfo, Freed<freeaddrinfo>> list(found);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    UniqueFd fd(socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
    if (!fd.valid()) continue;
    const timeval patience = {kPatienceMs / 1000, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd.get(), one->ai_addr, one->ai_addrlen) == 0) return fd;
  }
  return UniqueFd();
}

std::string NamesIn(X509* certificate) {
  std::string names;
  GENERAL_NAMES* const all =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; all != nullptr && i < sk_GENERAL_NAME_num(all); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(all, i);
    std::string text;
    if (name->type == GEN_DNS) {
      text.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                  static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      const std::unique_ptr<char, void (*)(char*)> address(i2s_ASN1_OCTET_STRING(nullptr, name->d.iPAddress),
                                                           [](char* text_of_it) { OPENSSL_free(text_of_it); });
      const unsigned char* const bytes = ASN1_STRING_get0_data(name->d.iPAddress);
      const int size = ASN1_STRING_length(name->d.iPAddress);
      text = size == 4 ? fmt::format("{}.{}.{}.{}", bytes[0], bytes[1], bytes[2], bytes[3]) : address.get();
    }
    if (!text.empty()) names += (names.empty() ? "" : ", ") + text.substr(0, 200);
  }
  GENERAL_NAMES_free(all);
  return names.empty() ? "no host" : names;
}

std::string EndOf(X509* certificate) {
  const std::unique_ptr<BIO, Freed<BIO_free_all>> bio(BIO_new(BIO_s_mem()));
  if (certificate == nullptr || ASN1_TIME_print(bio.get(), X509_get0_notAfter(certificate)) != 1) return "some day";
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

absl::Status Explained(long error, X509* certificate, const DialOptions& options, const HostPort& at) {
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return WithReason(Unavailable("the certificate of the daemon at {} expired on {}; its operator must issue a new "
                                    "one (tunefarm certs issue)",
                                    options.address, EndOf(certificate)),
                        "CERTIFICATE_EXPIRED");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return WithReason(Unavailable("the certificate of the daemon at {} is not valid yet; check the clocks of both "
                                    "machines",
                                    options.address),
                        "CERTIFICATE_NOT_YET_VALID");
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return WithReason(
          Unavailable("the certificate of the daemon at {} is for {}, not for {}; issue one with --host {}",
                      options.address, certificate == nullptr ? "no host" : NamesIn(certificate), at.host, at.host),
          "CERTIFICATE_HOST");
    default:
      return WithReason(Unavailable("the certificate of the daemon at {} is not signed by the CA in {} ({})",
                                    options.address, options.ca, X509_verify_cert_error_string(error)),
                        "CERTIFICATE_UNTRUSTED");
  }
}

}  // namespace

absl::Status ExplainTls(const DialOptions& options) {
  if (options.address.rfind("unix:", 0) == 0) return absl::OkStatus();
  const HostPort at = Split(options.address);
  const UniqueFd fd = Connect(at);
  if (!fd.valid()) return absl::OkStatus();
  const std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>> context(SSL_CTX_new(TLS_client_method()));
  const bool expects_tls = !options.ca.empty();
  if (expects_tls && SSL_CTX_load_verify_locations(context.get(), options.ca.c_str(), nullptr) != 1) {
    ERR_clear_error();
    return InvalidArgument("there is no certificate in {} (PEM is expected)", options.ca);
  }
  const std::unique_ptr<SSL, Freed<SSL_free>> ssl(SSL_new(context.get()));
  // The handshake goes on whatever is wrong, so that the certificate can be looked at.
  SSL_set_verify(ssl.get(), SSL_VERIFY_NONE, nullptr);
  X509_VERIFY_PARAM* const parameters = SSL_get0_param(ssl.get());
  if (X509_VERIFY_PARAM_set1_ip_asc(parameters, at.host.c_str()) != 1) {
    X509_VERIFY_PARAM_set1_host(parameters, at.host.c_str(), at.host.size());
    SSL_set_tlsext_host_name(ssl.get(), at.host.c_str());
  }
  static constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(ssl.get(), kHttp2, sizeof(kHttp2));
  SSL_set_fd(ssl.get(), fd.get());
  const int connected = SSL_connect(ssl.get());
  ERR_clear_error();
  if (connected != 1) {
    if (!expects_tls) return absl::OkStatus();
    return WithReason(Unavailable("{} does not speak TLS; leave --tls-ca out, or give the daemon a certificate "
                                  "(tls_certificate, tls_key)",
                                  options.address),
                      "TLS_NOT_SPOKEN");
  }
  if (!expects_tls) {
    return WithReason(Unavailable("{} expects TLS; give the CA of its certificate (--tls-ca, TUNEFARM_TLS_CA), and a "
                                  "certificate or a token",
                                  options.address),
                      "TLS_EXPECTED");
  }
  const std::unique_ptr<X509, Freed<X509_free>> certificate(SSL_get1_peer_certificate(ssl.get()));
  const long error = SSL_get_verify_result(ssl.get());
  return error == X509_V_OK ? absl::OkStatus() : Explained(error, certificate.get(), options, at);
}

}  // namespace tunefarm
