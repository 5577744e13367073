#include "server/http/tls_context.h"

#include <fmt/core.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <utility>

#include "server/base/file.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr uint64_t kPemBytesMax = 1 << 20;
constexpr int kChainMax = 10;
constexpr Duration kFileFresh = std::chrono::seconds(1);

using BioPtr = std::unique_ptr<BIO, Freed<BIO_free_all>>;

void FreeChain(STACK_OF(X509) * chain) { sk_X509_pop_free(chain, X509_free); }

// Without it the library asks on the terminal.
int NoPassword(char*, int, int, void*) { return 0; }

// Any certificate is taken; who shows it is judged call by call, with a reason.
int TakeAny(int /*verified*/, X509_STORE_CTX* /*context*/) { return 1; }

std::string PemOf(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(bio.get(), certificate) != 1) return "";
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

// Tells a version of a file from another one.
std::string StampOf(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) != 0) return "";
  return fmt::format("{}.{}.{}.{} ", file.st_ino, file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
}

}  // namespace

struct TlsContext::Pair {
  SslCertificatePtr certificate;
  std::unique_ptr<STACK_OF(X509), Freed<FreeChain>> chain;
  std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>> key;
};

TlsContext::TlsContext(std::string certificate_file, std::string key_file)
    : certificate_file_(std::move(certificate_file)), key_file_(std::move(key_file)) {}

TlsContext::~TlsContext() = default;

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::Open(const std::string& certificate_file,
                                                             const std::string& key_file, bool asks_for_certificates) {
  std::unique_ptr<TlsContext> made(new TlsContext(certificate_file, key_file));
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  if (context == nullptr) return ResourceExhausted("the TLS library has no memory left");
  made->context_.reset(context);
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
                                   SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  // A peer that sends handshake messages alone (key updates, refused renegotiations) would keep one read from ending.
  SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_cert_cb(context, OnCertificate, made.get());
  if (asks_for_certificates) SSL_CTX_set_verify(context, SSL_VERIFY_PEER, TakeAny);
  {
    MutexLock lock(&made->mutex_);
    made->stamp_ = StampOf(certificate_file) + StampOf(key_file);
    made->looked_at_ = Clock::Real()->Now();
    ASSIGN_OR_RETURN(made->pair_, made->Read());
  }
  return made;
}

absl::StatusOr<std::shared_ptr<const TlsContext::Pair>> TlsContext::Read() const {
  auto pair = std::make_shared<Pair>();
  ASSIGN_OR_RETURN(const std::string certificates, ReadFile(certificate_file_, kPemBytesMax));
  ASSIGN_OR_RETURN(const std::string key, ReadFile(key_file_, kPemBytesMax));
  const BioPtr certificate_bio(BIO_new_mem_buf(certificates.data(), static_cast<int>(certificates.size())));
  const BioPtr key_bio(BIO_new_mem_buf(key.data(), static_cast<int>(key.size())));
  pair->chain.reset(sk_X509_new_null());
  pair->certificate.reset(PEM_read_bio_X509(certificate_bio.get(), nullptr, nullptr, nullptr));
  while (sk_X509_num(pair->chain.get()) < kChainMax) {
    X509* const one = PEM_read_bio_X509(certificate_bio.get(), nullptr, nullptr, nullptr);
    if (one == nullptr) break;
    sk_X509_push(pair->chain.get(), one);
  }
  pair->key.reset(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, NoPassword, nullptr));
  const bool fits = pair->certificate != nullptr && pair->key != nullptr &&
                    X509_check_private_key(pair->certificate.get(), pair->key.get()) == 1;
  ERR_clear_error();  // the end of the text is an error to it
  if (!fits) {
    return InvalidArgument("{} and {} are no certificate and its private key (PEM, without a password)",
                           certificate_file_, key_file_);
  }
  return pair;
}

std::shared_ptr<const TlsContext::Pair> TlsContext::Current() {
  MutexLock lock(&mutex_);
  const MonotonicTime now = Clock::Real()->Now();
  if (now - looked_at_ < kFileFresh) return pair_;
  looked_at_ = now;
  std::string stamp = StampOf(certificate_file_) + StampOf(key_file_);
  if (stamp == stamp_) return pair_;
  absl::StatusOr<std::shared_ptr<const Pair>> read = Read();
  if (!read.ok()) {
    // Perhaps only one of the two is new yet: looked at again.
    LogDebug("http", "the certificate stays as it was: {}", MessageOf(read.status()));
    return pair_;
  }
  stamp_ = std::move(stamp);
  pair_ = *std::move(read);
  return pair_;
}

int TlsContext::OnCertificate(SSL* ssl, void* context) {
  const std::shared_ptr<const Pair> pair = static_cast<TlsContext*>(context)->Current();
  return SSL_use_cert_and_key(ssl, pair->certificate.get(), pair->key.get(), pair->chain.get(), 1);
}

SslPtr TlsContext::Accept(int fd) {
  SslPtr ssl(SSL_new(context_.get()));
  if (ssl == nullptr || SSL_set_fd(ssl.get(), fd) != 1) return nullptr;
  SSL_set_accept_state(ssl.get());
  return ssl;
}

bool TlsContext::IsFor(const std::string& host) {
  const std::shared_ptr<const Pair> pair = Current();
  X509* const certificate = pair->certificate.get();
  return X509_check_host(certificate, host.data(), host.size(), 0, nullptr) == 1 ||
         X509_check_ip_asc(certificate, host.c_str(), 0) == 1;
}

PeerCertificate PeerCertificateOf(SSL* ssl) {
  PeerCertificate peer;
  const SslCertificatePtr certificate(SSL_get1_peer_certificate(ssl));
  if (certificate == nullptr) return peer;
  peer.certificate = PemOf(certificate.get());
  STACK_OF(X509)* const chain = SSL_get_peer_cert_chain(ssl);
  for (int i = 0; chain != nullptr && i < sk_X509_num(chain) && i < kChainMax; ++i) {
    peer.chain += PemOf(sk_X509_value(chain, i));
  }
  return peer;
}

}  // namespace tunefarm
