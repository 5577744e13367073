#include "server/exec/artifact_cache.h"

namespace tunefarm {

std::optional<CompileResult> ArtifactCache::Find(const Digest& key) {
  const auto it = index_.find(key);
  if (it == index_.end()) return std::nullopt;
  const bool is_error = it->second->result.outcome != tunefarm::v1::OUTCOME_OK;
  if (is_error && clock_->Now() - it->second->inserted >= kErrorsKept) {
    Remove(key);
    return std::nullopt;
  }
  entries_.splice(entries_.begin(), entries_, it->second);
  CompileResult result = it->second->result;
  result.from_cache = true;
  return result;
}

void ArtifactCache::Insert(const Digest& key, const CompileResult& result) {
  if (result.outcome != tunefarm::v1::OUTCOME_OK && result.outcome != tunefarm::v1::OUTCOME_COMPILE_ERROR) return;
  if (index_.count(key) != 0) return;
  constexpr uint64_t kOverhead = 1024;
  const uint64_t bytes =
      kOverhead + result.log.size() + (result.artifact != nullptr ? result.artifact->bytes.size() : 0);
  if (bytes > bytes_max_) return;
  entries_.push_front({key, result, bytes, clock_->Now()});
  index_.emplace(key, entries_.begin());
  bytes_ += bytes;
  while (bytes_ > bytes_max_) {
    bytes_ -= entries_.back().bytes;
    index_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

void ArtifactCache::Remove(const Digest& key) {
  const auto it = index_.find(key);
  if (it == index_.end()) return;
  bytes_ -= it->second->bytes;
  entries_.erase(it->second);
  index_.erase(it);
}

void ArtifactCache::Clear() {
  entries_.clear();
  index_.clear();
  bytes_ = 0;
}

}  // namespace tunefarm
