// A private CA in a folder, and certificates that it signs: ECDSA P-256 by OpenSSL, offline.
//
// Single-threaded. Files are never overwritten; keys have mode 0600.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tunefarm::cli {

struct IssueRequest {
  std::string folder;              // with ca.pem and ca.key
  std::string name;                // of the principal and of the files
  std::string roles;               // "submit,kernels"; empty: no identity, of use for a daemon only
  std::vector<std::string> hosts;  // names and addresses under which it is dialled; empty: of use for a client only
  int64_t life_ms = 0;
  int64_t now_ms = 0;
};

struct CertificateFiles {
  std::string certificate, key;
};

struct CertificateView {
  std::string subject, issuer;
  std::vector<std::string> identities, hosts;
  std::string valid_from, valid_until;
  bool is_ca = false;
  bool is_over = false;
};

// Makes the folder if it is missing. AlreadyExists where there is a CA.
absl::StatusOr<CertificateFiles> MakeAuthority(const std::string& folder, int64_t life_ms, int64_t now_ms);
// NotFound without a CA; AlreadyExists where the files are there; InvalidArgument.
absl::StatusOr<CertificateFiles> IssueCertificate(const IssueRequest& request);
// Of each certificate in the file.
absl::StatusOr<std::vector<CertificateView>> ViewCertificates(const std::string& file, int64_t now_ms);

}  // namespace tunefarm::cli
