// BinaryDirectory: compiled binaries on disk, one file each, named by the digest of everything that went into them.
//
// A file is written under a temporary name, synced, renamed, and its directory synced: a reader sees a whole file or
// none, whatever dies when. What is damaged all the same (cut short, a flipped bit, another's file, content of another
// key) is found at reading, removed and counted; the caller compiles again. Files that were not used for the longest
// time go first when bytes or files exceed their bounds; the order survives restarts in the files' modification times,
// which a use moves forward at most once per `touch_interval`.
//
// Compile errors are not kept here, although a compiler gives the same answer to the same source: a full scratch
// directory or a missing header makes an error too, and would stand for ever.
//
// A file says which headers outside of the definition its binary was made of. Whether they have changed is for the
// caller to ask; then it removes the file.
//
// A disk that is full or fails costs no trial: writing rests for `rest_after_failure`, with one warning, and reading
// goes on. Several processes may use one directory; each then keeps its own account of the size.
//
// Thread-safe; files are read and written without the lock. All calls block on the disk.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/hash.h"
#include "server/base/mutex.h"
#include "server/exec/evaluator.h"
#include "server/exec/evaluator_stats.h"
#include "tunefarm/worker/v1/worker.pb.h"

namespace tunefarm {

struct BinaryDirectoryOptions {
  std::string path;
  uint64_t bytes_max = 0;       // of all files, each rounded up to whole 4 KiB
  size_t files_max = 65'536;    // so that opening reads a bounded directory
  uint64_t free_bytes_min = 0;  // nothing is written that leaves less on the file system
  Duration touch_interval = std::chrono::minutes(10);
  Duration rest_after_failure = std::chrono::minutes(1);
  Clock* clock = Clock::Real();
  EvaluatorStats* stats = nullptr;  // may be null; outlives the directory
};

class BinaryDirectory {
 public:
  explicit BinaryDirectory(BinaryDirectoryOptions options) : options_(std::move(options)) {}

  // Makes the directory if missing, removes temporaries that a crash left, takes stock and brings the bounds about.
  // Before it has succeeded nothing is found and nothing kept. FailedPrecondition when the directory is another
  // user's or others may write to it; the file system's errors.
  absl::Status Open() LOCKS_EXCLUDED(mutex_);

  std::optional<CompileResult> Find(const Digest& key) LOCKS_EXCLUDED(mutex_);
  // What its binary was made of has changed.
  void Remove(const Digest& key) LOCKS_EXCLUDED(mutex_);
  // Keeps an OK result with a binary; others, and what is larger than the whole bound, are ignored.
  void Insert(const Digest& key, const CompileResult& result) LOCKS_EXCLUDED(mutex_);

  uint64_t bytes() const LOCKS_EXCLUDED(mutex_);
  size_t files() const LOCKS_EXCLUDED(mutex_);
  // False after a failed write, until the rest is over.
  bool writes() const LOCKS_EXCLUDED(mutex_);

  // The path of a key's file, whether it exists or not.
  std::string PathOf(const Digest& key) const;

 private:
  struct Entry {
    Digest key;
    uint64_t bytes = 0;
    int64_t touched_ms = 0;  // the file's modification time
  };

  struct Found {
    CompileResult result;
    uint64_t bytes = 0;
    int64_t touched_ms = 0;
  };
  // NotFound: there is no such file. DataLoss: it is not what it should be.
  absl::StatusOr<Found> Read(const Digest& key) const;
  absl::StatusOr<std::list<Entry>> TakeStock() const;
  // Puts it at the front.
  void Remember(const Entry& entry) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const Digest& key) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeRoom(uint64_t bytes, size_t files) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayWrite(uint64_t bytes) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Rest(const absl::Status& status) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PublishSize() EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const BinaryDirectoryOptions options_;

  mutable Mutex mutex_;
  bool open_ GUARDED_BY(mutex_) = false;
  bool warned_ GUARDED_BY(mutex_) = false;
  std::optional<MonotonicTime> rests_until_ GUARDED_BY(mutex_);
  uint64_t bytes_ GUARDED_BY(mutex_) = 0;
  std::list<Entry> entries_ GUARDED_BY(mutex_);  // most recently used first
  std::unordered_map<Digest, std::list<Entry>::iterator> index_ GUARDED_BY(mutex_);
};

// The files of a frame or of a cached binary's description.
std::shared_ptr<const FileSet> InputsOf(const tunefarm::worker::v1::CompileInputs& inputs);

// The content of a file, and back. Exposed for tests. Decode: DataLoss with what is wrong.
std::string EncodeBinaryFile(const Digest& key, const CompileResult& result);
absl::StatusOr<CompileResult> DecodeBinaryFile(const Digest& key, std::string_view bytes);

}  // namespace tunefarm
