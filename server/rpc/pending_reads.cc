#include "server/rpc/pending_reads.h"

namespace tunefarm {

PendingReads::PendingReads(Executor* executor, Duration time_max) : executor_(executor), time_max_(time_max) {
  for (Shard& shard : shards_) {
    MutexLock lock(&shard.mutex);
    shard.oldest.next = shard.oldest.previous = &shard.oldest;
  }
  SweepLater();
}

void PendingReads::Add(Entry* entry) {
  entry->since = executor_->clock()->Now();
  entry->shard = next_shard_.fetch_add(1, std::memory_order_relaxed) % shards_.size();
  Shard& shard = shards_[entry->shard];
  MutexLock lock(&shard.mutex);
  entry->next = &shard.oldest;
  entry->previous = shard.oldest.previous;
  entry->previous->next = entry;
  shard.oldest.previous = entry;
}

void PendingReads::Remove(Entry* entry) {
  Shard& shard = shards_[entry->shard];
  MutexLock lock(&shard.mutex);
  entry->previous->next = entry->next;
  entry->next->previous = entry->previous;
}

void PendingReads::SweepLater() {
  executor_->PostAfter(time_max_ / 4, [this] {
    Sweep();
    SweepLater();
  });
}

void PendingReads::Sweep() {
  const MonotonicTime now = executor_->clock()->Now();
  for (Shard& shard : shards_) {
    MutexLock lock(&shard.mutex);
    for (Entry* entry = shard.oldest.next; entry != &shard.oldest && now - entry->since >= time_max_;
         entry = entry->next) {
      if (entry->is_cancelled) continue;
      entry->is_cancelled = true;
      // Under the lock the call is there: it waits for it in Remove. What the cancellation calls comes on other
      // threads.
      entry->context->TryCancel();
    }
  }
}

}  // namespace tunefarm
