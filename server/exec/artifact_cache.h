#pragma once

// Compiled binaries and compile errors in memory, by what went into them. Least recently used go first.

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>

#include "server/base/clock.h"
#include "server/base/hash.h"
#include "server/exec/evaluator.h"

namespace tunefarm {

// Not thread-safe: belongs to the supervisor's thread.
class ArtifactCache {
 public:
  // A missing header is an error too: compile errors are kept so long.
  static constexpr Duration kErrorsKept = std::chrono::minutes(1);

  explicit ArtifactCache(uint64_t bytes_max, Clock* clock = Clock::Real()) : bytes_max_(bytes_max), clock_(clock) {}

  std::optional<CompileResult> Find(const Digest& key);
  // Keeps results that are the same every time: OK and COMPILE_ERROR. Others, and those larger than the whole cache,
  // are ignored.
  void Insert(const Digest& key, const CompileResult& result);
  // Nothing where there is none.
  void Remove(const Digest& key);
  // The compiler has changed.
  void Clear();

  uint64_t bytes() const { return bytes_; }
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Digest key;
    CompileResult result;
    uint64_t bytes;
    MonotonicTime inserted;
  };

  const uint64_t bytes_max_;
  Clock* const clock_;
  uint64_t bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<Digest, std::list<Entry>::iterator> index_;
};

}  // namespace tunefarm
