#include "server/base/random.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <cerrno>

#include "server/base/check.h"
#include "server/base/philox.h"

namespace tunefarm {
namespace {

static_assert(sizeof(unsigned int) == sizeof(uint32_t), "philox.h relies on it");

class KernelEntropy : public EntropySource {
 public:
  void Fill(void* buffer, size_t bytes) override {
    auto* next = static_cast<unsigned char*>(buffer);
    while (bytes > 0) {
      const ssize_t got = getrandom(next, bytes, 0);
      if (got < 0 && errno == EINTR) continue;
      TUNEFARM_CHECK(got > 0);
      next += got;
      bytes -= static_cast<size_t>(got);
    }
  }
};

}  // namespace

EntropySource* EntropySource::Real() {
  static EntropySource* const source = new KernelEntropy;  // Never destroyed, as Clock::Real().
  return source;
}

std::string NewUuid(EntropySource* entropy) {
  std::array<uint8_t, 16> bytes;
  entropy->Fill(bytes.data(), bytes.size());
  bytes[6] = static_cast<uint8_t>((bytes[6] & 0x0f) | 0x40);  // Version 4.
  bytes[8] = static_cast<uint8_t>((bytes[8] & 0x3f) | 0x80);  // Variant of RFC 4122.
  std::string text;
  text.reserve(36);
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

uint64_t NewSeed(EntropySource* entropy) {
  uint64_t seed = 0;
  entropy->Fill(&seed, sizeof(seed));
  return seed;
}

std::array<uint32_t, 4> Philox4x32(const std::array<uint32_t, 4>& counter, const std::array<uint32_t, 2>& key) {
  std::array<uint32_t, 4> output;
  tunefarm_philox4x32_10(counter.data(), key.data(), output.data());
  return output;
}

PhiloxStream::PhiloxStream(uint64_t seed, uint64_t stream)
    : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}, stream_(stream) {}

uint32_t PhiloxStream::NextU32() {
  if (next_word_ == 4) {
    words_ = Philox4x32({static_cast<uint32_t>(next_block_), static_cast<uint32_t>(next_block_ >> 32),
                         static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                        key_);
    ++next_block_;
    next_word_ = 0;
  }
  return words_[static_cast<size_t>(next_word_++)];
}

uint64_t PhiloxStream::NextU64() {
  const uint64_t low = NextU32();
  const uint64_t high = NextU32();
  return high << 32 | low;
}

double PhiloxStream::NextDouble() { return static_cast<double>(NextU64() >> 11) * 0x1p-53; }

uint64_t PhiloxStream::UniformInt(uint64_t n) {
  TUNEFARM_CHECK(n > 0);
  // The lowest 2^64 mod n values would come up once more often than the others: draw again.
  const uint64_t biased = (0 - n) % n;
  uint64_t value = NextU64();
  while (value < biased) value = NextU64();
  return value % n;
}

}  // namespace tunefarm
