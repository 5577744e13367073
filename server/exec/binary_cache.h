// BinaryCache: compiled binaries by what went into them, first in memory, then on disk. A binary that was made of
// headers outside of its definition is found only while these are unchanged. The disk is read and written on threads of
// its own: neither the supervisor's loop nor a lookup waits for a sync.
//
// All methods belong to the thread of `loop`, which outlives the cache; Stop comes before the loop's end.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/base/executor.h"
#include "server/base/file_set.h"
#include "server/exec/artifact_cache.h"
#include "server/exec/binary_directory.h"
#include "server/exec/evaluator_stats.h"

namespace tunefarm {

struct BinaryCacheOptions {
  uint64_t memory_bytes_max = 256ull << 20;
  BinaryDirectoryOptions disk;                  // without a path or with bytes_max 0: memory only
  uint64_t unwritten_bytes_max = 256ull << 20;  // waiting for the disk; what comes beyond is not kept there
  FileSetBook* headers = nullptr;               // takes the headers of what is found or inserted; may be null
};

class BinaryCache {
 public:
  // `stats` and the options' `headers` outlive the cache.
  BinaryCache(Executor* loop, BinaryCacheOptions options, EvaluatorStats* stats);
  ~BinaryCache() { Stop(); }

  // Calls `done` with what memory or disk has: at once where no file must be looked at, else later on the loop. Never
  // after Stop.
  void Find(const Digest& key, std::function<void(std::optional<CompileResult>)> done);
  // Compile errors stay in memory only (see BinaryDirectory).
  void Insert(const Digest& key, const CompileResult& result);

  // Waits for writes under way. Nothing is kept on disk afterwards.
  void Stop();

 private:
  Executor* const loop_;
  EvaluatorStats* const stats_;
  FileSetBook* const headers_;  // may be null
  const uint64_t unwritten_bytes_max_;
  ArtifactCache memory_;
  std::unique_ptr<BinaryDirectory> disk_;  // null: memory only
  std::atomic<uint64_t> unwritten_bytes_{0};
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  // Last: their tasks use what stands above.
  std::unique_ptr<ThreadExecutor> reader_, writer_;
};

}  // namespace tunefarm
