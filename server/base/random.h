#pragma once

// Randomness: unpredictable bytes for identifiers, and reproducible streams for everything that must come out the same
// again (input data, search order).

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tunefarm {

// Unpredictable bytes. Thread-safe.
class EntropySource {
 public:
  virtual ~EntropySource() = default;

  // Fills the whole buffer; cannot fail (the real one aborts when the kernel has no randomness).
  virtual void Fill(void* buffer, size_t bytes) = 0;

  // The kernel's generator; lives forever.
  static EntropySource* Real();
};

// A version 4 UUID in lower case: "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx".
std::string NewUuid(EntropySource* entropy);
// A seed that nobody can predict.
uint64_t NewSeed(EntropySource* entropy);

// Philox4x32-10 (server/base/philox.h), a pure function.
std::array<uint32_t, 4> Philox4x32(const std::array<uint32_t, 4>& counter, const std::array<uint32_t, 2>& key);

// The numbers of one (seed, stream) pair, the same on every platform and in every version: block i is
// Philox4x32(counter = {i low, i high, stream low, stream high}, key = {seed low, seed high}), read word by word.
// Streams of one seed are independent. A value type, not thread-safe; a copy goes on from the same place.
class PhiloxStream {
 public:
  explicit PhiloxStream(uint64_t seed, uint64_t stream = 0);

  uint32_t NextU32();
  // The first of two words is the low half.
  uint64_t NextU64();
  // In [0, 1): the top 53 bits of NextU64() times 2^-53.
  double NextDouble();
  // In [0, n), without bias. n must not be 0 (checked).
  uint64_t UniformInt(uint64_t n);

 private:
  std::array<uint32_t, 2> key_;
  uint64_t stream_;
  uint64_t next_block_ = 0;
  std::array<uint32_t, 4> words_ = {};
  int next_word_ = 4;
};

}  // namespace tunefarm
