#include "server/base/hash.h"

// EVP, which OpenSSL 3 wants instead, brings all of its algorithms into the worker, which is linked with the archive.
// These three cannot fail.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <xxhash.h>

#include "server/base/check.h"
#include "server/base/status.h"

namespace tunefarm {

std::string Digest::Hex() const {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const uint8_t byte : bytes) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

absl::StatusOr<Digest> Digest::FromHex(std::string_view hex) {
  Digest digest;
  if (hex.size() != 2 * digest.bytes.size()) {
    return InvalidArgument("a digest has 64 hexadecimal digits, not {} characters", hex.size());
  }
  for (size_t i = 0; i < hex.size(); ++i) {
    const char c = hex[i];
    int value;
    if (c >= '0' && c <= '9') {
      value = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      value = c - 'a' + 10;
    } else {
      return InvalidArgument("digest has a character at {} that is no lower-case hexadecimal digit", i);
    }
    digest.bytes[i / 2] = static_cast<uint8_t>(digest.bytes[i / 2] << 4 | value);
  }
  return digest;
}

struct Sha256Stream::State {
  State() { SHA256_Init(&context); }

  SHA256_CTX context;
};

Sha256Stream::Sha256Stream() : state_(std::make_unique<State>()) {}
Sha256Stream::~Sha256Stream() = default;
Sha256Stream::Sha256Stream(Sha256Stream&&) noexcept = default;
Sha256Stream& Sha256Stream::operator=(Sha256Stream&&) noexcept = default;

void Sha256Stream::Update(std::string_view bytes) {
  TUNEFARM_CHECK(state_ != nullptr);
  SHA256_Update(&state_->context, bytes.data(), bytes.size());
}

Digest Sha256Stream::Finish() {
  TUNEFARM_CHECK(state_ != nullptr);
  Digest digest;
  SHA256_Final(digest.bytes.data(), &state_->context);
  state_ = nullptr;
  return digest;
}

Digest Sha256(std::string_view bytes) {
  Sha256Stream stream;
  stream.Update(bytes);
  return stream.Finish();
}

uint64_t Xxh3(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace tunefarm
