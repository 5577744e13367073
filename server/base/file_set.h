// FileSet: which files something was made of, and how they were, so that a later look tells whether one has changed.
//
// Pure but for reading files; any thread. All calls block on the disk.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

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

}  // namespace tunefarm
