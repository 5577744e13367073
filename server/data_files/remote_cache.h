// RemoteCache: the entries of CacheService on disk, one file each. An entry has an owner, a cache and a key. Any may be
// gone at any time: the least recently used ones are removed when the limits of RemoteCacheOptions are reached, and a
// damaged one is removed when it is read.
//
// The order of use survives restarts in the files' access times, which a use moves forward at most once a minute; their
// modification times say when they were written.
//
// Nothing is synced: what a power cut leaves of an entry is damaged, or the one before.
//
// Thread-safe. All calls but counts block on the disk.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/file.h"
#include "server/base/hash.h"
#include "server/base/mutex.h"

namespace tunefarm {

struct RemoteCacheOptions {
  std::string path;                      // of the folder, made if missing; for one RemoteCache at a time
  int64_t bytes_max = int64_t{4} << 30;  // of all files; each counts as 4 KiB at least
  int64_t free_bytes_min = 0;            // nothing is written that leaves less on the file system
  size_t entries_max = 100'000;
  Clock* clock = Clock::Real();  // outlives it
  // Bytes that the file system of a path has free.
  std::function<absl::StatusOr<uint64_t>(const std::string&)> free_bytes = FreeBytes;
};

class RemoteCache {
 public:
  static constexpr size_t kEntryBytesMax = 8 << 20;

  struct Id {
    std::string owner;
    std::string cache;
    std::string key;
  };

  struct Entry {
    std::string key;
    std::string data;
    int64_t written_ms = 0;  // wall clock
  };

  // Where a page of a list ended: written_ms of its last entry, and what tells entries of one millisecond apart.
  struct Position {
    int64_t written_ms = 0;
    int64_t tie = 0;
  };

  struct Page {
    std::vector<Entry> entries;
    std::optional<Position> last;  // none: there are no more
  };

  struct Counts {
    int64_t entries = 0, bytes = 0;
    int64_t hits = 0, misses = 0, removed = 0, damaged = 0;  // since the start; removed: to make room
  };

  // Lists the folder, and removes files that were not written completely. FailedPrecondition where the folder is
  // another user's or others may write to it; the file system's errors.
  static absl::StatusOr<std::unique_ptr<RemoteCache>> Open(RemoteCacheOptions options);

  // The entry of the first owner who has one; this counts as a use. None if no owner has one, or if none can be read.
  std::optional<Entry> Find(const std::vector<std::string>& owners, const std::string& cache, const std::string& key)
      LOCKS_EXCLUDED(mutex_);

  // Replaces an entry with the same id. InvalidArgument for more data than kEntryBytesMax and for an id that is too
  // long; ResourceExhausted where even the removal of all entries would not make enough room, and then none is removed;
  // the file system's errors.
  absl::Status Put(const Id& id, std::string_view data) LOCKS_EXCLUDED(mutex_);

  // The entries of one cache that belong to these owners, the newest first, those after `after` where it is given. At
  // most `entries_max`, and no more than `bytes_max` of data unless the first entry has more. Not a use of them.
  Page List(const std::vector<std::string>& owners, std::string_view cache, size_t entries_max, size_t bytes_max,
            std::optional<Position> after) LOCKS_EXCLUDED(mutex_);

  Counts counts() const LOCKS_EXCLUDED(mutex_);

 private:
  // The name of a file. Entries of one cache of one owner have the same group.
  struct Name {
    uint64_t group = 0;
    Digest digest;

    static uint64_t GroupOf(std::string_view owner, std::string_view cache);
    static Name Of(const Id& id);
    // None: another file.
    static std::optional<Name> Parse(std::string_view text);
    std::string Text() const;
    // Orders entries of one millisecond.
    int64_t Tie() const;
  };

  struct File {
    Name name;
    int64_t bytes = 0;       // on the disk, in whole blocks
    int64_t written_ms = 0;  // the file's modification time
    int64_t touched_ms = 0;  // the file's access time
    uint64_t serial = 0;     // of the Put that wrote it
  };

  explicit RemoteCache(RemoteCacheOptions options) : options_(std::move(options)) {}

  absl::StatusOr<std::list<File>> TakeStock() const;
  std::string PathOf(const Name& name) const;
  std::optional<Entry> Use(const Name& name) LOCKS_EXCLUDED(mutex_);
  // `id`: as the file has it. None: the file is gone, or is damaged and has been removed.
  std::optional<Entry> Read(const File& file, Id* id, bool is_use) LOCKS_EXCLUDED(mutex_);
  void RemoveDamaged(const File& file, const absl::Status& why) LOCKS_EXCLUDED(mutex_);
  // Makes room for one more file of `bytes`. ResourceExhausted, with all files kept, if that is impossible.
  absl::Status CheckRoom(int64_t bytes) LOCKS_EXCLUDED(mutex_);
  // Removes files until the limits hold with one more file of `bytes` (0: none), and until `missing` bytes are freed on
  // the disk.
  void MakeRoom(int64_t bytes, int64_t missing) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remember(const File& file) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const Digest& digest) EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RemoteCacheOptions options_;
  std::atomic<uint64_t> last_serial_{0};

  mutable Mutex mutex_;
  int64_t bytes_ GUARDED_BY(mutex_) = 0;
  int64_t hits_ GUARDED_BY(mutex_) = 0, misses_ GUARDED_BY(mutex_) = 0;
  int64_t removed_ GUARDED_BY(mutex_) = 0, damaged_ GUARDED_BY(mutex_) = 0;
  std::list<File> files_ GUARDED_BY(mutex_);  // most recently used first
  std::unordered_map<Digest, std::list<File>::iterator> index_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
