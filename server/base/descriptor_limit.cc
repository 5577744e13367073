#include "server/base/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>

namespace tunefarm {
namespace {

// What Linux gives where nothing is set.
constexpr rlim_t kUsual = 1024;
constexpr rlim_t kMost = rlim_t{1} << 30;

std::atomic<int> inherited{0};  // 0: it was not raised

}  // namespace

int DescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = kUsual;
  return static_cast<int>(std::min(limit.rlim_cur, kMost));
}

int InheritedDescriptorLimit() {
  const int before = inherited.load();
  return before != 0 ? before : DescriptorLimit();
}

void RaiseDescriptorLimit() {
  inherited.store(InheritedDescriptorLimit());
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

void LowerDescriptorLimit(int limit) {
  rlimit now = {};
  if (getrlimit(RLIMIT_NOFILE, &now) != 0 || now.rlim_cur <= static_cast<rlim_t>(limit)) return;
  now.rlim_cur = static_cast<rlim_t>(limit);
  (void)setrlimit(RLIMIT_NOFILE, &now);
}

}  // namespace tunefarm
