#include "server/exec/binary_cache.h"

#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"

namespace tunefarm {

BinaryCache::BinaryCache(Executor* loop, BinaryCacheOptions options, EvaluatorStats* stats)
    : loop_(loop),
      stats_(stats),
      headers_(options.headers),
      unwritten_bytes_max_(options.unwritten_bytes_max),
      memory_(options.memory_bytes_max, options.disk.clock),
      reader_(std::make_unique<ThreadExecutor>("cache-read", options.disk.clock)) {
  if (options.disk.path.empty() || options.disk.bytes_max == 0) return;
  stats->cache_bytes_max = static_cast<int64_t>(options.disk.bytes_max);
  options.disk.stats = stats;
  Clock* const clock = options.disk.clock;
  disk_ = std::make_unique<BinaryDirectory>(std::move(options.disk));
  writer_ = std::make_unique<ThreadExecutor>("cache-write", clock);
  reader_->Post([disk = disk_.get()] {
    const absl::Status opened = disk->Open();
    if (!opened.ok()) LogWarn("exec", "compiled binaries are kept in memory only: {}", MessageOf(opened));
  });
}

void BinaryCache::Find(const Digest& key, std::function<void(std::optional<CompileResult>)> done) {
  std::optional<CompileResult> cached = memory_.Find(key);
  const bool is_to_check = cached.has_value() && cached->inputs != nullptr;
  if ((!is_to_check && (cached.has_value() || disk_ == nullptr)) || reader_ == nullptr) {
    ++(cached.has_value() ? stats_->cache_hits : stats_->cache_misses);
    done(std::move(cached));
    return;
  }
  reader_->Post([this, alive = alive_, key, found = std::move(cached), done = std::move(done)]() mutable {
    const bool was_in_memory = found.has_value();
    if (!was_in_memory) found = disk_->Find(key);
    const bool is_stale = found.has_value() && found->inputs != nullptr && !IsUnchanged(*found->inputs);
    if (is_stale) {
      found.reset();
      if (disk_ != nullptr) disk_->Remove(key);
    }
    if (headers_ != nullptr && found.has_value() && found->inputs != nullptr) headers_->Note(*found->inputs);
    ++(found.has_value() ? stats_->cache_hits : stats_->cache_misses);
    loop_->Post([this, alive = std::move(alive), key, was_in_memory, is_stale, found = std::move(found),
                 done = std::move(done)]() mutable {
      if (!*alive) return;
      if (is_stale) memory_.Remove(key);
      if (found.has_value() && !was_in_memory) memory_.Insert(key, *found);
      done(std::move(found));
    });
  });
}

void BinaryCache::Insert(const Digest& key, const CompileResult& result) {
  memory_.Insert(key, result);
  if (headers_ != nullptr && reader_ != nullptr && result.inputs != nullptr) {
    reader_->Post([this, inputs = result.inputs] { headers_->Note(*inputs); });
  }
  if (writer_ == nullptr || result.outcome != tunefarm::v1::OUTCOME_OK || result.artifact == nullptr) return;
  const uint64_t bytes = result.artifact->bytes.size() + result.log.size();
  if (unwritten_bytes_ + bytes > unwritten_bytes_max_) return;
  unwritten_bytes_ += bytes;
  writer_->Post([this, key, result, bytes] {
    disk_->Insert(key, result);
    unwritten_bytes_ -= bytes;
  });
}

void BinaryCache::Stop() {
  *alive_ = false;
  reader_.reset();
  writer_.reset();
}

}  // namespace tunefarm
