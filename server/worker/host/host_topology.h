// What the machine says of its CPU. Reads /proc and /sys; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tunefarm {

// "AMD EPYC 9654 96-Core Processor" from the text of /proc/cpuinfo; "CPU" if it has none.
std::string CpuModelName(std::string_view cpuinfo);

// "32K", "1024K", "32M" as /sys writes cache sizes; 0 for anything else.
int64_t ParseCacheSize(std::string_view text);

struct CpuCaches {
  int64_t l1_data_bytes = 0;  // of one core
  int64_t last_level_bytes = 0;
};

// Of the first CPU under `root` ("/sys/devices/system/cpu/cpu0/cache").
CpuCaches ReadCpuCaches(const std::string& root);
CpuCaches ReadCpuCaches();

// Cores this process may run on.
int UsableCores();

// How much memory a cache flush walks where it does not evict (cache_flush.h): twice the last-level cache, at least 8
// MiB (its size may be unknown) and at most 512 MiB (more costs too much per sample).
int64_t FlushBytes(const CpuCaches& caches);
int64_t FlushBytes();

}  // namespace tunefarm
