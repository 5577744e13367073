#include "client/cli/certificate_files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <memory>

#include "client/cli/options/problem_options.h"
#include "server/access/principal.h"
#include "server/base/file.h"
#include "server/base/freed.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/unique_fd.h"

namespace tunefarm::cli {
namespace {

constexpr uint64_t kPemBytesMax = 1 << 20;
constexpr size_t kHostsMax = 64;
constexpr int64_t kSkewMs = 5 * 60 * 1000;  // clocks of the farm may differ by so much

using X509Ptr = std::unique_ptr<X509, Freed<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, Freed<BIO_free_all>>;

absl::Status LibraryError(std::string_view what) {
  char text[256] = {};
  ERR_error_string_n(ERR_get_error(), text, sizeof(text));
  ERR_clear_error();
  return Internal("{}: {}", what, text);
}

std::string TextIn(BIO* bio) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  return std::string(text, static_cast<size_t>(size));
}

BioPtr NewBio() { return BioPtr(BIO_new(BIO_s_mem())); }

absl::Status WriteNew(const std::string& path, const std::string& text, mode_t mode) {
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file.valid() && errno == EEXIST) {
    return AlreadyExists("{} exists and is not replaced; move it away, or choose another name", path);
  }
  if (!file.valid()) return ErrnoStatus(errno, "making {}", path);
  errno = 0;
  if (write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) || fsync(file.get()) != 0) {
    const int error = errno == 0 ? ENOSPC : errno;
    (void)unlink(path.c_str());  // else a second attempt would find it
    return ErrnoStatus(error, "writing {}", path);
  }
  return absl::OkStatus();
}

absl::Status WritePair(const CertificateFiles& files, X509* certificate, EVP_PKEY* key) {
  const BioPtr certificate_text = NewBio();
  const BioPtr key_text = NewBio();
  if (PEM_write_bio_X509(certificate_text.get(), certificate) != 1 ||
      PEM_write_bio_PKCS8PrivateKey(key_text.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return LibraryError("writing the certificate");
  }
  if (access(files.certificate.c_str(), F_OK) == 0) {
    return AlreadyExists("{} exists and is not replaced; move it away, or choose another name", files.certificate);
  }
  RETURN_IF_ERROR(WriteNew(files.key, TextIn(key_text.get()), 0600));
  return WriteNew(files.certificate, TextIn(certificate_text.get()), 0644);
}

absl::Status AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str()));
  if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1) {
    return LibraryError(fmt::format("the extension {}", value));
  }
  return absl::OkStatus();
}

// Everything but extensions and signature. `issuer` null: its own.
absl::StatusOr<X509Ptr> NewCertificate(const std::string& common_name, EVP_PKEY* key, X509* issuer, int64_t life_ms,
                                       int64_t now_ms) {
  X509Ptr certificate(X509_new());
  unsigned char serial[16];
  if (RAND_bytes(serial, sizeof(serial)) != 1) return LibraryError("drawing a serial number");
  serial[0] = static_cast<unsigned char>((serial[0] & 0x7f) | 0x40);  // positive, and never shorter
  const std::unique_ptr<BIGNUM, Freed<BN_free>> number(BN_bin2bn(serial, sizeof(serial), nullptr));
  BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate.get()));
  X509_set_version(certificate.get(), 2);
  ASN1_TIME_set(X509_getm_notBefore(certificate.get()), static_cast<time_t>((now_ms - kSkewMs) / 1000));
  ASN1_TIME_set(X509_getm_notAfter(certificate.get()), static_cast<time_t>((now_ms + life_ms) / 1000));
  X509_set_pubkey(certificate.get(), key);
  X509_NAME* const name = X509_get_subject_name(certificate.get());
  const auto* const bytes = reinterpret_cast<const unsigned char*>(common_name.data());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, bytes, static_cast<int>(common_name.size()), -1, 0);
  X509_set_issuer_name(certificate.get(), issuer == nullptr ? name : X509_get_subject_name(issuer));
  return certificate;
}

bool IsAddress(const std::string& host) {
  ASN1_OCTET_STRING* const address = a2i_IPADDRESS(host.c_str());
  ASN1_OCTET_STRING_free(address);
  ERR_clear_error();
  return address != nullptr;
}

// What the extension's text may hold: nothing that it would take for syntax.
absl::Status CheckHost(const std::string& host) {
  const bool is_clean =
      !host.empty() && host.size() <= 253 && std::all_of(host.begin(), host.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '.' || c == '-' || c == ':' || c == '*';
      });
  if (is_clean && (host.find(':') == std::string::npos || IsAddress(host))) return absl::OkStatus();
  return InvalidArgument("--host '{}' is neither a host's name nor an address (without a port)", host);
}

absl::StatusOr<X509Ptr> ReadCertificate(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string pem, ReadFile(path, kPemBytesMax));
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  X509Ptr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (certificate == nullptr) return InvalidArgument("there is no certificate in {} (PEM is expected)", path);
  return certificate;
}

absl::StatusOr<KeyPtr> ReadKey(const std::string& path) {
  RETURN_IF_ERROR(CheckSecretFile("the private key", path));
  ASSIGN_OR_RETURN(const std::string pem, ReadFile(path, kPemBytesMax));
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  KeyPtr key(PEM_read_bio_PrivateKey(
      bio.get(), nullptr, [](char*, int, int, void*) { return 0; }, nullptr));
  ERR_clear_error();
  if (key == nullptr)
    return InvalidArgument("there is no private key in {} (PEM without a password is expected)", path);
  return key;
}

std::string TimeText(const ASN1_TIME* time) {
  const BioPtr bio = NewBio();
  return ASN1_TIME_print(bio.get(), time) == 1 ? TextIn(bio.get()) : "?";
}

std::string NameText(X509_NAME* name) {
  const BioPtr bio = NewBio();
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
  return TextIn(bio.get());
}

CertificateView ViewOf(X509* certificate, int64_t now_ms) {
  CertificateView view;
  view.subject = NameText(X509_get_subject_name(certificate));
  view.issuer = NameText(X509_get_issuer_name(certificate));
  view.valid_from = TimeText(X509_get0_notBefore(certificate));
  view.valid_until = TimeText(X509_get0_notAfter(certificate));
  view.is_ca = X509_check_ca(certificate) == 1;
  time_t now = static_cast<time_t>(now_ms / 1000);
  view.is_over = X509_cmp_time(X509_get0_notAfter(certificate), &now) < 0;
  auto* const names =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names, i);
    const BioPtr bio = NewBio();
    GENERAL_NAME_print(bio.get(), const_cast<GENERAL_NAME*>(name));
    const std::string text = TextIn(bio.get());  // "DNS:host", "URI:tunefarm://..."
    std::string value = text.substr(std::min(text.size(), text.find(':') + 1));
    (name->type == GEN_URI ? view.identities : view.hosts).push_back(std::move(value));
  }
  GENERAL_NAMES_free(names);
  return view;
}

}  // namespace

absl::StatusOr<CertificateFiles> MakeAuthority(const std::string& folder, int64_t life_ms, int64_t now_ms) {
  RETURN_IF_ERROR(MakeDirectories(folder, 0700));
  const CertificateFiles files{folder + "/ca.pem", folder + "/ca.key"};
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return LibraryError("making a key");
  ASSIGN_OR_RETURN(const X509Ptr ca, NewCertificate("tunefarm CA", key.get(), nullptr, life_ms, now_ms));
  RETURN_IF_ERROR(AddExtension(ca.get(), ca.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  RETURN_IF_ERROR(AddExtension(ca.get(), ca.get(), NID_key_usage, "critical,keyCertSign,cRLSign"));
  RETURN_IF_ERROR(AddExtension(ca.get(), ca.get(), NID_subject_key_identifier, "hash"));
  if (X509_sign(ca.get(), key.get(), EVP_sha256()) == 0) return LibraryError("signing");
  RETURN_IF_ERROR(WritePair(files, ca.get(), key.get()));
  return files;
}

absl::StatusOr<CertificateFiles> IssueCertificate(const IssueRequest& request) {
  RETURN_IF_ERROR(CheckPrincipalName(request.name));
  if (request.name == "ca") return InvalidArgument("--name ca is reserved for the CA; choose another name");
  if (request.roles.empty() && request.hosts.empty()) {
    return InvalidArgument("a certificate needs --role (for a client or an agent), --host (for a daemon), or both");
  }
  if (request.hosts.size() > kHostsMax) return InvalidArgument("more than {} hosts are given", kHostsMax);
  std::string names;
  if (!request.roles.empty()) {
    RETURN_IF_ERROR(ParseRoles(request.roles).status());
    names = "URI:" + UriOf(request.roles, request.name);
  }
  for (const std::string& host : request.hosts) {
    RETURN_IF_ERROR(CheckHost(host));
    names += fmt::format("{}{}:{}", names.empty() ? "" : ",", IsAddress(host) ? "IP" : "DNS", host);
  }
  const std::string ca_file = request.folder + "/ca.pem";
  if (access(ca_file.c_str(), F_OK) != 0) {
    return NotFound("there is no CA in {}; tunefarm certs init {} makes one", request.folder,
                    ShellWord(request.folder));
  }
  ASSIGN_OR_RETURN(const X509Ptr ca, ReadCertificate(ca_file));
  ASSIGN_OR_RETURN(const KeyPtr ca_key, ReadKey(request.folder + "/ca.key"));
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return LibraryError("making a key");
  ASSIGN_OR_RETURN(const X509Ptr leaf,
                   NewCertificate(request.name, key.get(), ca.get(), request.life_ms, request.now_ms));
  const char* const purposes = request.hosts.empty()   ? "clientAuth"
                               : request.roles.empty() ? "serverAuth"
                                                       : "serverAuth,clientAuth";
  RETURN_IF_ERROR(AddExtension(leaf.get(), ca.get(), NID_basic_constraints, "critical,CA:FALSE"));
  RETURN_IF_ERROR(AddExtension(leaf.get(), ca.get(), NID_key_usage, "critical,digitalSignature"));
  RETURN_IF_ERROR(AddExtension(leaf.get(), ca.get(), NID_ext_key_usage, purposes));
  RETURN_IF_ERROR(AddExtension(leaf.get(), ca.get(), NID_subject_alt_name, names));
  RETURN_IF_ERROR(AddExtension(leaf.get(), ca.get(), NID_authority_key_identifier, "keyid:always"));
  if (X509_sign(leaf.get(), ca_key.get(), EVP_sha256()) == 0) return LibraryError("signing");
  const CertificateFiles files{request.folder + "/" + request.name + ".pem",
                               request.folder + "/" + request.name + ".key"};
  RETURN_IF_ERROR(WritePair(files, leaf.get(), key.get()));
  return files;
}

absl::StatusOr<std::vector<CertificateView>> ViewCertificates(const std::string& file, int64_t now_ms) {
  ASSIGN_OR_RETURN(const std::string pem, ReadFile(file, kPemBytesMax));
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  std::vector<CertificateView> views;
  while (views.size() < 100) {
    const X509Ptr one(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (one == nullptr) break;
    views.push_back(ViewOf(one.get(), now_ms));
  }
  ERR_clear_error();
  if (views.empty()) return InvalidArgument("there is no certificate in {} (PEM is expected)", file);
  return views;
}

}  // namespace tunefarm::cli
