#include "server/daemon/process_stats.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

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

// In pages; proc(5), statm.
struct Memory {
  int64_t size = 0;
  int64_t resident = 0;
  int64_t shared = 0;  // resident pages of files and of shared memory
};

Memory ReadMemory() {
  const absl::StatusOr<std::string> statm = ReadFile("/proc/self/statm", 4096);
  Memory memory;
  if (statm.ok()) std::istringstream(*statm) >> memory.size >> memory.resident >> memory.shared;
  return memory;
}

}  // namespace

int64_t ResidentBytes() { return ReadMemory().resident * sysconf(_SC_PAGESIZE); }

int64_t AnonymousBytes() {
  const Memory memory = ReadMemory();
  return (memory.resident - memory.shared) * sysconf(_SC_PAGESIZE);
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
