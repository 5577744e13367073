#pragma once

#include <cstddef>
#include <cstdint>

#include "server/base/mutex.h"
#include "server/base/random.h"

namespace tunefarm {

// The same "unpredictable" bytes for the same seed. Thread-safe.
class FakeEntropy : public EntropySource {
 public:
  explicit FakeEntropy(uint64_t seed = 0) : stream_(seed) {}

  void Fill(void* buffer, size_t bytes) override {
    MutexLock lock(&mutex_);
    for (size_t i = 0; i < bytes; ++i) static_cast<uint8_t*>(buffer)[i] = static_cast<uint8_t>(stream_.NextU32());
  }

 private:
  Mutex mutex_;
  PhiloxStream stream_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
