// AnswerTable: answers by the values of a question's varying dims, for one writer and any number of readers that share
// no lock. Open addressing; a place, once taken, is its key's forever, so that a reader never sees half of a change.
//
// Threads: Find from any thread, beside one thread that writes. Answers that were replaced or removed live as long as
// the table: the owner of a reference to the table may use what it found. The writer replaces a table that IsWorn by
// its Rebuilt copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tunefarm/client/answer.h"

namespace tunefarm::client {

// An answer and when the daemon gave it, on the monotonic clock, and at which revision of its catalog; 0: it is of the
// stream, a snapshot or compiled in.
struct StoredAnswer {
  Answer answer;
  int64_t received_ns = 0;
  int64_t catalog_revision = 0;
};

class AnswerTable {
 public:
  // Keys have `dims` values; `expected` of them fit before it is worn.
  AnswerTable(size_t dims, size_t expected);
  AnswerTable(const AnswerTable&) = delete;
  AnswerTable& operator=(const AnswerTable&) = delete;

  // Null: there is none. Tens of nanoseconds; allocates nothing.
  const StoredAnswer* Find(const int64_t* key) const;

  // The rest is the writer's. Put needs a table that is not worn.
  void Put(const int64_t* key, std::shared_ptr<const StoredAnswer> answer);
  // False: there was none.
  bool Remove(const int64_t* key);
  // Too full, or holding on to too much that is no longer found.
  bool IsWorn() const;
  // What is found in this one, with room for `more`.
  std::unique_ptr<AnswerTable> Rebuilt(size_t more) const;
  size_t size() const { return live_; }

  static uint64_t Hash(const int64_t* key, size_t dims);

 private:
  // A place: a pointer to the answer, the hash, then the key. Words, so that it lies in one or two lines of the cache.
  // The pointer is written last (released) when the place is taken; hash and key never change afterwards.
  using Word = std::atomic<uint64_t>;
  static constexpr size_t kPointer = 0, kHash = 1, kKey = 2;

  bool IsAt(const Word* place, uint64_t hash, const int64_t* key) const;
  // The key's place, or the free one where it belongs.
  size_t PlaceOf(const int64_t* key, uint64_t hash) const;

  const size_t dims_;
  const size_t stride_;
  size_t places_;  // a power of two
  std::unique_ptr<Word[]> words_;
  size_t taken_ = 0;
  size_t live_ = 0;
  std::vector<std::shared_ptr<const StoredAnswer>> current_;  // by place; null: free or removed
  std::vector<std::shared_ptr<const StoredAnswer>> former_;
};

}  // namespace tunefarm::client
