#include "server/worker/host/host_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "absl/status/statusor.h"
#include "server/base/file.h"

namespace tunefarm {

uint64_t PhysicalMemoryBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && page_bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes) : 0;
}

uint64_t AvailableMemoryBytes() {
  uint64_t available = PhysicalMemoryBytes();
  if (const absl::StatusOr<std::string> text = ReadFile("/proc/meminfo", 1 << 16); text.ok()) {
    constexpr std::string_view kField = "MemAvailable:";
    size_t at = text->find(kField);
    if (at != std::string::npos) {
      at = text->find_first_not_of(' ', at + kField.size());
      uint64_t kibibytes = 0;
      const char* const begin = text->data() + std::min(at, text->size());
      if (std::from_chars(begin, text->data() + text->size(), kibibytes).ec == std::errc()) {
        available = std::min(available, kibibytes * 1024);
      }
    }
  }
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    struct rlimit limit = {};
    if (getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
      available = std::min<uint64_t>(available, limit.rlim_cur);
    }
  }
  return available;
}

}  // namespace tunefarm
