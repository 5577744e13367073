#pragma once

// Content hashes: SHA-256 wherever a key or an identity depends on it, XXH3 only for in-memory tables and checksums
// against accidents (anyone can forge a collision).

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tunefarm {

// A SHA-256 value. All zeros when default-constructed.
struct Digest {
  std::array<uint8_t, 32> bytes = {};

  // 64 lower-case hexadecimal digits.
  std::string Hex() const;
  // Accepts exactly what Hex() gives, so that every digest has one spelling. InvalidArgument otherwise.
  static absl::StatusOr<Digest> FromHex(std::string_view hex);

  // The 32 bytes, e.g. for a database blob. Valid while the digest lives.
  std::string_view view() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

  friend bool operator==(const Digest&, const Digest&) = default;
  friend auto operator<=>(const Digest&, const Digest&) = default;
};

Digest Sha256(std::string_view bytes);

// SHA-256 of bytes that come in pieces. Not thread-safe.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(Sha256Stream&&) noexcept;
  Sha256Stream& operator=(Sha256Stream&&) noexcept;

  void Update(std::string_view bytes);
  // The digest of everything given to Update. Once; nothing may be called afterwards.
  Digest Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

uint64_t Xxh3(std::string_view bytes);

}  // namespace tunefarm

template <>
struct std::hash<tunefarm::Digest> {
  size_t operator()(const tunefarm::Digest& digest) const noexcept {
    size_t value;  // A digest's bytes are uniform already.
    std::memcpy(&value, digest.bytes.data(), sizeof(value));
    return value;
  }
};
