// One attempt to connect with OpenSSL, which says what gRPC does not, and what it says of the caller's own files.

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>

#include "server/base/file.h"
#include "server/base/freed.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/unique_fd.h"
#include "server/dial/dial_options.h"
#include "server/dial/probe.h"

namespace tunefarm {
namespace {

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

// A key with a passphrase is refused instead of asking for it on the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

template <typename T, auto free>
std::unique_ptr<T, Freed<free>> ReadPem(const std::string& text, T* (*read)(BIO*, T**, pem_password_cb*, void*)) {
  const std::unique_ptr<BIO, Freed<BIO_free_all>> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  std::unique_ptr<T, Freed<free>> object(read(bio.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  return object;
}

constexpr uint64_t kPemBytesMax = 1 << 20;

}  // namespace

absl::Status CheckTlsFiles(const DialOptions& options) {
  if (options.ca.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string ca, ReadFile(options.ca, kPemBytesMax));
  if (ReadPem<X509, X509_free>(ca, PEM_read_bio_X509) == nullptr) {
    return InvalidArgument("there is no certificate in {} (PEM is expected)", options.ca);
  }
  if (options.certificate.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string certificate_text, ReadFile(options.certificate, kPemBytesMax));
  ASSIGN_OR_RETURN(const std::string key_text, ReadFile(options.key, kPemBytesMax));
  const auto certificate = ReadPem<X509, X509_free>(certificate_text, PEM_read_bio_X509);
  if (certificate == nullptr) {
    return InvalidArgument("there is no certificate in {} (PEM is expected)", options.certificate);
  }
  const auto key = ReadPem<EVP_PKEY, EVP_PKEY_free>(key_text, PEM_read_bio_PrivateKey);
  if (key == nullptr) {
    return InvalidArgument("there is no private key in {} (PEM without a passphrase is expected)", options.key);
  }
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    ERR_clear_error();
    return WithReason(InvalidArgument("the key in {} is not that of the certificate in {}; give the pair that was "
                                      "issued together",
                                      options.key, options.certificate),
                      "KEY_MISMATCH");
  }
  return absl::OkStatus();
}

absl::Status ExplainTls(const DialOptions& options) {
  if (options.address.rfind("unix:", 0) == 0) return absl::OkStatus();
  const HostPort at = SplitAddress(options.address);
  const absl::StatusOr<UniqueFd> fd = ConnectTo(options.address);
  if (!fd.ok()) return absl::OkStatus();
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
  SSL_set_fd(ssl.get(), fd->get());
  const int connected = SSL_connect(ssl.get());
  const bool is_silent = connected != 1 && SSL_get_error(ssl.get(), connected) == SSL_ERROR_WANT_READ;
  ERR_clear_error();
  if (connected != 1) {
    if (!expects_tls) return absl::OkStatus();
    if (is_silent) return DoesNotAnswer(options.address);
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
