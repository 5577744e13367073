#include "server/space/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "server/base/thread.h"

namespace tunefarm::space_internal {
namespace {

// More gain little: what is left is one thread's, and other work wants cores too.
constexpr int kThreadsMax = 8;

}  // namespace

int ThreadCount(int threads) {
  if (threads > 0) return threads;
  static const int cores = [] {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    return sched_getaffinity(0, sizeof(usable), &usable) == 0 ? CPU_COUNT(&usable) : 1;
  }();
  return std::clamp(cores, 1, kThreadsMax);
}

void ForEachPart(int threads, size_t count, const std::function<void(size_t)>& body) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t part = next++; part < count; part = next++) body(part);
  };
  std::vector<Thread> others;
  for (size_t i = 1; i < std::min(static_cast<size_t>(threads), count); ++i) others.emplace_back("space", work);
  work();
  for (Thread& other : others) other.Join();
}

}  // namespace tunefarm::space_internal
