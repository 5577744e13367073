// FileSet: which files something was made of, and how they were, so that a later look tells whether one has changed.
// FileSetBook remembers such sets.
//
// Functions are pure but for reading files, on any thread. All calls block on the disk, where nothing else is said.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace tunefarm {

inline constexpr size_t kFileSetFilesMax = 4096;
// Of all packed paths.
inline constexpr size_t kFileSetPathBytesMax = 64 * 1024;

struct FileSet {
  // Sorted absolute paths, as PackPaths writes them.
  std::string packed_paths;
  // Checksum of the files' sizes and times of change, and of their content. Both 0: not known, which equals nothing.
  uint64_t state = 0;
  uint64_t content = 0;

  friend bool operator==(const FileSet&, const FileSet&) = default;
};

// Reads the files. One that was changed at `begun_ms` (wall clock, milliseconds) or later may have changed while it was
// in use: then, and with a path that cannot be read or too many, the set is one that is never unchanged.
FileSet ReadFileSet(std::vector<std::string> paths, int64_t begun_ms);

// Whether all files are as they were. Looks at sizes and times first; reads the files only where those differ.
bool IsUnchanged(const FileSet& files);

// Of paths and content: equal where both are; 0 for no files. Of a set whose content is not known it says nothing.
uint64_t ChecksumOf(const FileSet& files);

// Paths that begin alike take little room. Empty for no paths, and for what does not fit: more than kFileSetFilesMax
// paths or kFileSetPathBytesMax bytes, a path that is not absolute or that holds a line break.
std::string PackPaths(std::vector<std::string> paths);
// InvalidArgument for what PackPaths does not write.
absl::StatusOr<std::vector<std::string>> UnpackPaths(std::string_view packed);

// Remembers sets of files by their checksums, and says whether the files of one have changed since. It is
// kept in one file. Of the sets that were used least recently those beyond the bounds are forgotten; of what is not
// known nothing is said.
//
// Thread-safe. Note and the constructor block on the disk. HaveChanged looks at the files at most once per
// kLookInterval for each set, one look at a time: a disk that hangs holds up one caller, and others are told what the
// look before has found.
class FileSetBook {
 public:
  static constexpr size_t kSetsMax = 256;
  static constexpr size_t kBytesMax = 2 << 20;  // of all packed paths
  // From the end of a look to the next one. Longer where a look takes more than a hundredth of it, up to the maximum.
  static constexpr Duration kLookInterval = std::chrono::seconds(1);
  static constexpr Duration kLookIntervalMax = std::chrono::minutes(1);

  // Reads the file, if there is one. One that cannot be read is replaced when a set is noted; a warning says so.
  FileSetBook(std::string path, Clock* clock);

  // The files are as the set says. Sets without files, and those whose content is not known, are ignored. When it
  // returns the set is durable; where it cannot be written, a warning says so, and it is known until the process ends.
  void Note(const FileSet& files) LOCKS_EXCLUDED(write_mutex_, mutex_);

  // Whether files of the noted set with this ChecksumOf are missing or have other content than it says. False for a set
  // that is not known.
  bool HaveChanged(uint64_t checksum) LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    uint64_t checksum = 0;
    std::shared_ptr<const FileSet> files;
    bool have_changed = false;  // as the last look found
    MonotonicTime next_look;
  };

  // Puts it in front. False: it is there already, with the same state.
  bool Put(const FileSet& files) EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Write() EXCLUSIVE_LOCKS_REQUIRED(write_mutex_) LOCKS_EXCLUDED(mutex_);

  const std::string path_;
  Clock* const clock_;

  Mutex write_mutex_;  // taken before mutex_
  bool warned_ GUARDED_BY(write_mutex_) = false;

  Mutex mutex_;
  bool is_looking_ GUARDED_BY(mutex_) = false;
  size_t bytes_ GUARDED_BY(mutex_) = 0;
  std::list<Entry> entries_ GUARDED_BY(mutex_);  // most recently used first
  std::unordered_map<uint64_t, std::list<Entry>::iterator> index_ GUARDED_BY(mutex_);
};

}  // namespace tunefarm
