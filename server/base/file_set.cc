#include "server/base/file_set.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/base/unique_fd.h"

namespace tunefarm {
namespace {

constexpr size_t kPathBytesMax = 4096;
// The kernel stamps files with the time of its last tick.
constexpr int64_t kTimestampStepMs = 10;
// Of one file.
constexpr int64_t kContentBytesMax = 64 << 20;

int64_t Milliseconds(const timespec& time) { return int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000; }

// Adds up a checksum of parts in their order.
class Checksum {
 public:
  void Add(uint64_t part) {
    const uint64_t both[2] = {sum_, part};
    sum_ = Xxh3({reinterpret_cast<const char*>(both), sizeof(both)});
  }
  // Never 0, which means that nothing is known.
  uint64_t Finish() const { return sum_ == 0 ? 1 : sum_; }

 private:
  uint64_t sum_ = 0;
};

// Of all files; none if one is missing or no regular file. `newest_ms` takes the latest time of change.
std::optional<uint64_t> StateOf(const std::vector<std::string>& paths, int64_t* newest_ms) {
  Checksum sum;
  for (const std::string& path : paths) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
    sum.Add(static_cast<uint64_t>(info.st_ino));  // two changes may have one time
    sum.Add(static_cast<uint64_t>(info.st_size));
    for (const timespec& time : {info.st_mtim, info.st_ctim}) {
      sum.Add(static_cast<uint64_t>(time.tv_sec));
      sum.Add(static_cast<uint64_t>(time.tv_nsec));
      *newest_ms = std::max(*newest_ms, Milliseconds(time));
    }
  }
  return sum.Finish();
}

std::optional<uint64_t> ContentOf(const std::string& path) {
  // A FIFO that took the file's place must not hold the reader up.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!fd || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > kContentBytesMax) {
    return std::nullopt;
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = read(fd.get(), bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    filled += static_cast<size_t>(got);
  }
  return Xxh3(bytes);
}

std::optional<uint64_t> ContentOf(const std::vector<std::string>& paths) {
  Checksum sum;
  for (const std::string& path : paths) {
    const std::optional<uint64_t> content = ContentOf(path);
    if (!content.has_value()) return std::nullopt;
    sum.Add(*content);
  }
  return sum.Finish();
}

}  // namespace

FileSet ReadFileSet(std::vector<std::string> paths, int64_t begun_ms) {
  FileSet files;
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  files.packed_paths = PackPaths(paths);
  if (files.packed_paths.empty() && !paths.empty()) return files;
  int64_t newest_ms = 0;
  const std::optional<uint64_t> state = StateOf(paths, &newest_ms);
  const std::optional<uint64_t> content = ContentOf(paths);
  if (!state.has_value() || !content.has_value() || newest_ms >= begun_ms - kTimestampStepMs) return files;
  files.state = *state;
  files.content = *content;
  return files;
}

bool IsUnchanged(const FileSet& files) {
  if (files.state == 0 || files.content == 0) return false;
  const absl::StatusOr<std::vector<std::string>> paths = UnpackPaths(files.packed_paths);
  if (!paths.ok()) return false;
  int64_t newest_ms = 0;
  const std::optional<uint64_t> state = StateOf(*paths, &newest_ms);
  if (!state.has_value()) return false;
  return *state == files.state || ContentOf(*paths) == files.content;
}

uint64_t ChecksumOf(const FileSet& files) {
  if (files.packed_paths.empty() && files.content != 0) return 0;
  Checksum sum;
  sum.Add(Xxh3(files.packed_paths));
  sum.Add(files.content);
  return sum.Finish();
}

// A line for each path: how many of its first bytes are those of the path before, a blank, and the rest.
std::string PackPaths(std::vector<std::string> paths) {
  if (paths.size() > kFileSetFilesMax) return {};
  std::sort(paths.begin(), paths.end());
  std::string packed;
  std::string_view before;
  for (const std::string& path : paths) {
    const bool is_good = !path.empty() && path.front() == '/' && path.size() <= kPathBytesMax &&
                         path.find_first_of(std::string_view("\n\0", 2)) == std::string::npos;
    if (!is_good) return {};
    const size_t most = std::min(before.size(), path.size());
    const size_t same = static_cast<size_t>(
        std::mismatch(path.begin(), path.begin() + static_cast<ptrdiff_t>(most), before.begin()).first - path.begin());
    packed += fmt::format("{} {}\n", same, std::string_view(path).substr(same));
    before = path;
    if (packed.size() > kFileSetPathBytesMax) return {};
  }
  return packed;
}

absl::StatusOr<std::vector<std::string>> UnpackPaths(std::string_view packed) {
  std::vector<std::string> paths;
  if (packed.size() > kFileSetPathBytesMax) return InvalidArgument("the list of files has {} bytes", packed.size());
  while (!packed.empty()) {
    const size_t end = packed.find('\n');
    const size_t blank = packed.find(' ');
    size_t same = 0;
    const bool has_blank = end != std::string_view::npos && blank < end;
    const auto number = std::from_chars(packed.data(), packed.data() + (has_blank ? blank : 0), same);
    const bool is_line = has_blank && number.ec == std::errc() && number.ptr == packed.data() + blank;
    const size_t known = paths.empty() ? 0 : paths.back().size();
    if (!is_line || same > known || paths.size() == kFileSetFilesMax) {
      return InvalidArgument("line {} of the list of files cannot be read", paths.size() + 1);
    }
    std::string path = (paths.empty() ? std::string() : paths.back().substr(0, same));
    path += packed.substr(blank + 1, end - blank - 1);
    if (path.empty() || path.front() != '/' || path.size() > kPathBytesMax || path.find('\0') != std::string::npos) {
      return InvalidArgument("line {} of the list of files names no file", paths.size() + 1);
    }
    paths.push_back(std::move(path));
    packed.remove_prefix(end + 1);
  }
  return paths;
}

}  // namespace tunefarm
