#include "server/access/certificate_check.h"

#include <fmt/core.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <utility>
#include <vector>

#include "server/base/file.h"
#include "server/base/freed.h"
#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr uint64_t kPemBytesMax = 1 << 20;
constexpr size_t kVerdictsMax = 20'000;
constexpr int kChainMax = 10;
constexpr Duration kVerdictFresh = std::chrono::seconds(10);
constexpr Duration kFileFresh = std::chrono::seconds(1);

using X509Ptr = std::unique_ptr<X509, Freed<X509_free>>;
using BioPtr = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using StorePtr = std::unique_ptr<X509_STORE, Freed<X509_STORE_free>>;
using ContextPtr = std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

BioPtr ReadOnly(std::string_view bytes) {
  return BioPtr(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
}

// At most as many as a chain may have, or a CA file.
std::vector<X509Ptr> CertificatesIn(std::string_view pem, size_t count_max) {
  std::vector<X509Ptr> certificates;
  const BioPtr bio = ReadOnly(pem);
  while (certificates.size() < count_max) {
    X509Ptr one(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (one == nullptr) break;
    certificates.push_back(std::move(one));
  }
  ERR_clear_error();  // the end of the text is an error to it
  return certificates;
}

std::string TimeText(const ASN1_TIME* time) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (ASN1_TIME_print(bio.get(), time) != 1) return "an unknown time";
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

// Without it the library asks on the terminal.
int NoPassword(char*, int, int, void*) { return 0; }

absl::StatusOr<Principal> IdentityOf(X509* certificate) {
  GENERAL_NAMES* const names =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  std::vector<std::string> uris;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names, i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* const uri = name->d.uniformResourceIdentifier;
    std::string text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                     static_cast<size_t>(ASN1_STRING_length(uri)));
    if (text.rfind("tunefarm://", 0) == 0) uris.push_back(std::move(text));
  }
  GENERAL_NAMES_free(names);
  if (uris.size() == 1) return PrincipalOfUri(uris[0]);
  return WithReason(Unauthenticated("the certificate has {} identities of the form tunefarm://<role[+role]>/<name>, it "
                                    "must have one; tunefarm certs issue makes such",
                                    uris.empty() ? "no" : "several"),
                    "CERTIFICATE_IDENTITY");
}

absl::Status RefusalOf(int error, X509* certificate) {
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return WithReason(Unauthenticated("the certificate (or one that signed it) expired on {}; issue a new one",
                                        TimeText(X509_get0_notAfter(certificate))),
                        "CERTIFICATE_EXPIRED");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return WithReason(Unauthenticated("the certificate is valid from {} on; check the clocks of both machines",
                                        TimeText(X509_get0_notBefore(certificate))),
                        "CERTIFICATE_NOT_YET_VALID");
    case X509_V_ERR_INVALID_PURPOSE:
      return WithReason(Unauthenticated("the certificate is not made for clients (extended key usage clientAuth)"),
                        "CERTIFICATE_UNTRUSTED");
    default:
      return WithReason(
          Unauthenticated("the certificate is not signed by this farm's CA ({})", X509_verify_cert_error_string(error)),
          "CERTIFICATE_UNTRUSTED");
  }
}

}  // namespace

struct CertificateCheck::Authorities {
  StorePtr store;
  Digest digest;  // of the file

  absl::StatusOr<Principal> Judge(const std::string& pem, const std::string& chain_pem, int64_t wall_ms) const {
    const std::vector<X509Ptr> leaf = CertificatesIn(pem, 1);
    if (leaf.empty()) {
      return WithReason(Unauthenticated("the certificate cannot be read"), "CERTIFICATE_UNTRUSTED");
    }
    const std::vector<X509Ptr> chain = CertificatesIn(chain_pem, kChainMax);
    STACK_OF(X509)* const untrusted = sk_X509_new_null();
    for (const X509Ptr& one : chain) sk_X509_push(untrusted, one.get());
    const ContextPtr context(X509_STORE_CTX_new());
    int error = X509_V_ERR_OUT_OF_MEM;
    X509* at_fault = leaf[0].get();
    if (X509_STORE_CTX_init(context.get(), store.get(), leaf[0].get(), untrusted) == 1) {
      X509_STORE_CTX_set_purpose(context.get(), X509_PURPOSE_SSL_CLIENT);
      X509_VERIFY_PARAM* const parameters = X509_STORE_CTX_get0_param(context.get());
      X509_VERIFY_PARAM_set_depth(parameters, kChainMax);
      X509_VERIFY_PARAM_set_time(parameters, static_cast<time_t>(wall_ms / 1000));
      error = X509_verify_cert(context.get()) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(context.get());
      if (X509* const current = X509_STORE_CTX_get_current_cert(context.get()); current != nullptr) at_fault = current;
      if (error == X509_V_OK && X509_STORE_CTX_get_error(context.get()) != X509_V_OK) error = X509_V_ERR_UNSPECIFIED;
    }
    const absl::Status refused = error == X509_V_OK ? absl::OkStatus() : RefusalOf(error, at_fault);
    sk_X509_free(untrusted);
    ERR_clear_error();
    if (!refused.ok()) return refused;
    absl::StatusOr<Principal> principal = IdentityOf(leaf[0].get());
    std::tm ends = {};
    if (principal.ok() && ASN1_TIME_to_tm(X509_get0_notAfter(leaf[0].get()), &ends) == 1) {
      principal->expires_at_ms = int64_t{1000} * timegm(&ends);
    }
    return principal;
  }
};

absl::StatusOr<std::shared_ptr<const CertificateCheck::Authorities>> CertificateCheck::Read(
    const std::string& ca_file) {
  ASSIGN_OR_RETURN(const std::string pem, ReadFile(ca_file, kPemBytesMax));
  const std::vector<X509Ptr> certificates = CertificatesIn(pem, 1000);
  if (certificates.empty()) return InvalidArgument("there is no certificate in {} (PEM is expected)", ca_file);
  auto authorities = std::make_shared<Authorities>();
  authorities->store.reset(X509_STORE_new());
  authorities->digest = Sha256(pem);
  for (const X509Ptr& one : certificates) X509_STORE_add_cert(authorities->store.get(), one.get());
  return authorities;
}

CertificateCheck::CertificateCheck(std::string ca_file, Clock* clock)
    : ca_file_(std::move(ca_file)), clock_(clock), looked_at_(clock->Now()) {}

CertificateCheck::~CertificateCheck() = default;

absl::StatusOr<std::unique_ptr<CertificateCheck>> CertificateCheck::Open(const std::string& ca_file, Clock* clock) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Authorities> authorities, Read(ca_file));
  std::unique_ptr<CertificateCheck> check(new CertificateCheck(ca_file, clock));
  MutexLock lock(&check->mutex_);
  check->authorities_ = std::move(authorities);
  return check;
}

std::shared_ptr<const CertificateCheck::Authorities> CertificateCheck::Current() {
  const MonotonicTime now = clock_->Now();
  {
    MutexLock lock(&mutex_);
    if (now - looked_at_ < kFileFresh) return authorities_;
    looked_at_ = now;
  }
  // The old ones go on when the file is not there or half written.
  absl::StatusOr<std::shared_ptr<const Authorities>> read = Read(ca_file_);
  MutexLock lock(&mutex_);
  if (!read.ok()) {
    LogWarn("access", "the client CA is unchanged: {}", MessageOf(read.status()));
  } else if ((*read)->digest != authorities_->digest) {
    LogInfo("access", "the client CA {} is reloaded", ca_file_);
    authorities_ = *std::move(read);
    verdicts_.clear();
  }
  return authorities_;
}

absl::StatusOr<Principal> CertificateCheck::Check(const std::string& certificate, const std::string& chain) {
  if (certificate.size() > kPemBytesMax || chain.size() > kPemBytesMax) {
    return WithReason(Unauthenticated("the certificate is larger than {} bytes", kPemBytesMax),
                      "CERTIFICATE_UNTRUSTED");
  }
  const std::shared_ptr<const Authorities> authorities = Current();
  const std::string key = Sha256(certificate + chain).Hex();
  const MonotonicTime now = clock_->Now();
  {
    MutexLock lock(&mutex_);
    const auto known = verdicts_.find(key);
    if (known != verdicts_.end() && now - known->second.judged_at < kVerdictFresh) return known->second.principal;
  }
  absl::StatusOr<Principal> principal = authorities->Judge(certificate, chain, clock_->WallMs());
  MutexLock lock(&mutex_);
  if (verdicts_.size() >= kVerdictsMax) verdicts_.clear();
  if (authorities == authorities_) verdicts_.insert_or_assign(key, Verdict{principal, now});
  return principal;
}

absl::Status CheckKeyPair(const std::string& certificate_file, const std::string& key_file) {
  ASSIGN_OR_RETURN(const std::string certificate_pem, ReadFile(certificate_file, kPemBytesMax));
  ASSIGN_OR_RETURN(const std::string key_pem, ReadFile(key_file, kPemBytesMax));
  const std::vector<X509Ptr> certificates = CertificatesIn(certificate_pem, 1);
  if (certificates.empty()) return InvalidArgument("there is no certificate in {} (PEM is expected)", certificate_file);
  const KeyPtr key(PEM_read_bio_PrivateKey(ReadOnly(key_pem).get(), nullptr, NoPassword, nullptr));
  const bool fits = key != nullptr && X509_check_private_key(certificates[0].get(), key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr)
    return InvalidArgument("there is no private key in {} (PEM without a password is expected)", key_file);
  if (!fits) return InvalidArgument("the key {} is not that of the certificate {}", key_file, certificate_file);
  return absl::OkStatus();
}

}  // namespace tunefarm
