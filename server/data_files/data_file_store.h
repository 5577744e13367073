// DataFileStore: the users' own data on disk (DataFileFolder), one file each, named by the SHA-256 of its content: who
// may have how much, what makes room for what, and whose turn it is to write. Uploads outlive the process.
//
// Files that nothing names go when space is needed, those that were used longest ago first; the order survives restarts
// in the files' modification times, which a use moves forward at most once a minute. A file that is removed while
// somebody has it open keeps its content until it is closed.
//
// Thread-safe. All calls but Find, Keep and counts block on the disk; Write also on `named`, and on another Write of
// the same file, for ten seconds at most.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/base/unique_fd.h"
#include "server/data_files/data_file_folder.h"

namespace tunefarm {

struct DataFileStoreOptions {
  std::string path;  // of the folder, made if missing
  // Of all files and of uploads as they will be. Each counts as 1/kFilesMax of it at least, which bounds their number.
  int64_t bytes_max = int64_t{32} << 30;
  // Of one owner's files and uploads; 0: no limit of its own.
  int64_t owner_bytes_max = 0;
  int64_t free_bytes_min = 0;  // nothing is written that leaves less on the file system
  // The digests that something names, whose files stay. Asked when space is needed, with no lock held. Empty function:
  // nothing names any.
  std::function<absl::StatusOr<std::unordered_set<std::string>>()> named = nullptr;
  Clock* clock = Clock::Real();
};

struct OpenDataFile {
  std::shared_ptr<const UniqueFd> file;  // read-only, to be read by position
  int64_t bytes = 0;
};

class DataFileStore {
 public:
  static constexpr int64_t kFileBytesMax = DataFileFolder::kFileBytesMax;
  static constexpr int64_t kPartBytesMax = 1 << 20;
  static constexpr int64_t kFilesMax = 100'000;

  struct Counts {
    int64_t files = 0, bytes = 0;  // whole
    int64_t uploads = 0;           // that were begun and are not whole
    int64_t removed = 0;           // to make room, since the start
  };

  // Takes stock of the folder, and removes uploads that nobody goes on with and files that were cut. FailedPrecondition
  // where the folder is another user's or others may write to it; the file system's errors.
  static absl::StatusOr<std::unique_ptr<DataFileStore>> Open(DataFileStoreOptions options);

  // A use of the file: who asks does not upload it again, and is about to name it.
  DataFileProgress Find(const std::string& digest) LOCKS_EXCLUDED(mutex_);

  // Takes a part. One that begins behind what has been received is not taken, and one that has been received changes
  // nothing: the answer says where the next one begins. After a part with another total than those before the
  // upload begins at 0. InvalidArgument (DATA_FILE_INVALID) for an invalid part and where the whole has another digest,
  // after which the upload is removed; ResourceExhausted (DATA_FILE_QUOTA) without room; Unavailable where another call
  // completes the file, and the errors of `named`: repeat the call.
  absl::StatusOr<DataFileProgress> Write(const DataFilePart& part) LOCKS_EXCLUDED(mutex_);

  // NotFound (DATA_FILE_NOT_FOUND) where it is not whole.
  absl::StatusOr<OpenDataFile> OpenFile(const std::string& digest) LOCKS_EXCLUDED(mutex_);

  // A piece of a whole file of at most kPartBytesMax; empty at its end. InvalidArgument (DATA_FILE_INVALID) for an
  // offset beyond it; as OpenFile.
  struct Piece {
    std::string bytes;
    int64_t total_bytes = 0;
  };
  absl::StatusOr<Piece> Read(const std::string& digest, int64_t offset) LOCKS_EXCLUDED(mutex_);

  // The bytes of a whole file, which stays for the next two minutes: what names it is about to be stored. None: it is
  // not whole.
  std::optional<int64_t> Keep(const std::string& digest) LOCKS_EXCLUDED(mutex_);

  Counts counts() const LOCKS_EXCLUDED(mutex_);

 private:
  struct Whole {
    int64_t bytes = 0;
    int64_t used_ms = 0;     // wall clock
    int64_t touched_ms = 0;  // the file's modification time
    std::string owner;
    MonotonicTime kept_until{};
  };
  struct Upload {
    int64_t total = 0;  // 0: not known since a restart, on a file system without attributes
    int64_t received = 0;
    int64_t used_ms = 0;
    std::string owner;
    bool busy = false;  // a Write works on it, and nobody else changes it
  };

  DataFileStore(DataFileStoreOptions options, DataFileFolder folder)
      : options_(std::move(options)), folder_(std::move(folder)) {}

  absl::Status CheckPart(const DataFilePart& part) const;
  // None: the upload is busy with this call from now on. Else the answer.
  absl::StatusOr<std::optional<DataFileProgress>> Claim(const DataFilePart& part) LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::optional<DataFileProgress>> TryClaim(const DataFilePart& part) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WaitForTurn(const std::string& digest) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes what it must and may, and begins the upload.
  absl::Status MakeRoom(const DataFilePart& part) LOCKS_EXCLUDED(mutex_);
  // Files that nothing names, of the owner or (null) of all, the oldest first, each for `bytes_min` at least. Nothing
  // where all of them were too few.
  void Remove(const std::string* owner, const std::unordered_set<std::string>& named, int64_t bytes, int64_t bytes_min)
      EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a new upload keeps the limits: its owner's, and those of all and of the disk.
  absl::Status CheckOwner(const DataFilePart& part) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRoom(const DataFilePart& part) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t CountedMin() const { return options_.bytes_max / kFilesMax + 1; }
  // What a file counts as in what follows.
  int64_t Counted(int64_t bytes) const { return std::max(bytes, CountedMin()); }
  int64_t BytesOfAll() const EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int64_t BytesOfOwner(std::string_view owner) const EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DataFileStoreOptions options_;
  const DataFileFolder folder_;

  mutable Mutex mutex_;
  CondVar turn_;  // an upload is busy no more
  std::map<std::string, Whole> files_ GUARDED_BY(mutex_);
  std::map<std::string, Upload> uploads_ GUARDED_BY(mutex_);
  int64_t removed_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tunefarm
