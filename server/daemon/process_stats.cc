#include "server/daemon/process_stats.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "server/base/file.h"

namespace tunefarm {
namespace {

namespace fs = std::filesystem;

// Entries of a folder under /proc; 0 when it cannot be read.
int CountEntries(const char* path) {
  int count = 0;
  DIR* const directory = opendir(path);
  if (directory == nullptr) return 0;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(directory);
  return count;
}

}  // namespace

int64_t ResidentBytes() {
  const absl::StatusOr<std::string> statm = ReadFile("/proc/self/statm", 4096);
  if (!statm.ok()) return 0;
  const size_t space = statm->find(' ');
  return space == std::string::npos ? 0 : std::atoll(statm->c_str() + space) * sysconf(_SC_PAGESIZE);
}

int CountChildren() {
  int count = 0;
  std::error_code error;
  for (fs::directory_iterator it("/proc/self/task", error), end; !error && it != end; it.increment(error)) {
    const absl::StatusOr<std::string> children = ReadFile(it->path().string() + "/children", 1 << 16);
    if (!children.ok()) continue;
    for (const char c : *children) count += c == ' ' ? 1 : 0;
  }
  return count;
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

int OpenFiles() { return CountEntries("/proc/self/fd"); }

}  // namespace tunefarm
