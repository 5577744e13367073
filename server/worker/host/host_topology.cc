#include "server/worker/host/host_topology.h"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "absl/status/statusor.h"
#include "server/base/file.h"

namespace tunefarm {
namespace {

constexpr char kCacheRoot[] = "/sys/devices/system/cpu/cpu0/cache";
constexpr int kCacheIndexesMax = 16;
constexpr size_t kNameBytesMax = 128;

std::string ReadLine(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, 4096);
  return text.ok() ? text->substr(0, text->find('\n')) : "";
}

}  // namespace

std::string CpuModelName(std::string_view cpuinfo) {
  for (const std::string_view field : {"model name", "Model", "Hardware"}) {
    size_t begin = 0;
    while (begin < cpuinfo.size()) {
      const size_t end = std::min(cpuinfo.find('\n', begin), cpuinfo.size());
      const std::string_view line = cpuinfo.substr(begin, end - begin);
      const size_t colon = line.find(':');
      if (line.substr(0, field.size()) == field && colon != std::string_view::npos) {
        const size_t value = line.find_first_not_of(" \t", colon + 1);
        if (value != std::string_view::npos) return std::string(line.substr(value, kNameBytesMax));
      }
      begin = end + 1;
    }
  }
  return "CPU";
}

int64_t ParseCacheSize(std::string_view text) {
  int64_t size = 0;
  const std::from_chars_result read = std::from_chars(text.data(), text.data() + text.size(), size);
  if (read.ec != std::errc() || size < 0 || size > (int64_t{1} << 30)) return 0;
  const std::string_view unit(read.ptr, static_cast<size_t>(text.data() + text.size() - read.ptr));
  if (unit == "K") return size << 10;
  if (unit == "M") return size << 20;
  return unit.empty() ? size : 0;
}

CpuCaches ReadCpuCaches(const std::string& root) {
  CpuCaches caches;
  int highest = 0;
  for (int index = 0; index < kCacheIndexesMax; ++index) {
    const std::string directory = fmt::format("{}/index{}", root, index);
    const std::string level_text = ReadLine(directory + "/level"), type = ReadLine(directory + "/type");
    int level = 0;
    if (std::from_chars(level_text.data(), level_text.data() + level_text.size(), level).ec != std::errc()) continue;
    if (type == "Instruction") continue;
    const int64_t bytes = ParseCacheSize(ReadLine(directory + "/size"));
    if (level == 1) caches.l1_data_bytes = bytes;
    if (level >= highest) {
      highest = level;
      caches.last_level_bytes = bytes;
    }
  }
  return caches;
}

CpuCaches ReadCpuCaches() { return ReadCpuCaches(kCacheRoot); }

int UsableCores() {
  // Larger than any mask in use: the call fails with EINVAL when the kernel's is larger.
  constexpr int kCpusMax = 8192;
  cpu_set_t* const set = CPU_ALLOC(kCpusMax);
  if (set == nullptr) return 1;
  const size_t bytes = CPU_ALLOC_SIZE(kCpusMax);
  int cores = 1;
  if (sched_getaffinity(0, bytes, set) == 0) cores = std::max(1, CPU_COUNT_S(bytes, set));
  CPU_FREE(set);
  return cores;
}

int64_t FlushBytes(const CpuCaches& caches) {
  constexpr int64_t kLeast = int64_t{8} << 20, kMost = int64_t{512} << 20;
  return std::clamp(2 * caches.last_level_bytes, kLeast, kMost);
}

int64_t FlushBytes() { return FlushBytes(ReadCpuCaches()); }

}  // namespace tunefarm
