// EvaluatorStats: what an evaluator counts since it started, for the metrics. Written where things happen, read by
// anyone.
//
// Thread-safe; the numbers are not of one moment.
#pragma once

#include <atomic>
#include <cstdint>

namespace tunefarm {

struct EvaluatorStats {
  // Run workers.
  std::atomic<int64_t> runners_started{0};
  std::atomic<int64_t> spares_prepared{0};       // that had prepared ahead for the problem at work
  std::atomic<int64_t> runner_crashes{0};        // ended by a signal, an exit, a damaged context or our kill
  std::atomic<int64_t> binaries_from_others{0};  // of the farm, found instead of compiled
  std::atomic<int64_t> takeovers{0};             // a standby went on in a crashed runner's place
  std::atomic<int64_t> last_takeover_us{0};      // from the news of the crash to the next trial's first launch
  std::atomic<int64_t> devices_quarantined{0};
  // Compiles, without those answered from a cache.
  std::atomic<int64_t> compiles_ok{0};
  std::atomic<int64_t> compiles_failed{0};
  std::atomic<int64_t> compile_us{0};  // time of compile workers, in microseconds
  // Binary cache.
  std::atomic<int64_t> cache_hits{0};
  std::atomic<int64_t> cache_misses{0};
  std::atomic<int64_t> cache_evictions{0};
  std::atomic<int64_t> cache_corrupt{0};
  std::atomic<int64_t> cache_bytes{0};
  std::atomic<int64_t> cache_bytes_max{0};
};

}  // namespace tunefarm
