#include "server/agent/farm_binaries.h"

#include <string>
#include <utility>

#include "server/base/file_set.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/exec/binary_directory.h"

namespace tunefarm {

void FarmBinaries::Find(const Digest& key, std::function<void(std::optional<CompileResult>)> done) {
  if (offers_ || !link_->has_binaries()) return done(std::nullopt);
  const auto ask = [this, key, done] {
    const absl::StatusOr<std::string> binary = link_->FetchBinary(key.Hex());
    if (!binary.ok() || binary->empty()) return done(std::nullopt);
    absl::StatusOr<CompileResult> result = DecodeBinaryFile(key, *binary);
    if (!result.ok()) {
      LogWarn("agent", "a binary that another agent has offered is not used: {}", MessageOf(result.status()));
      return done(std::nullopt);
    }
    // Made of headers that this machine has not.
    if (result->inputs != nullptr && !IsUnchanged(*result->inputs)) return done(std::nullopt);
    done(*std::move(result));
  };
  {
    MutexLock lock(&mutex_);
    if (!ended_) return calls_->Post(ask);
  }
  done(std::nullopt);
}

void FarmBinaries::Keep(const Digest& key, const CompileResult& result) {
  if (!offers_ || result.outcome != tunefarm::v1::OUTCOME_OK || result.artifact == nullptr) return;
  std::string binary = EncodeBinaryFile(key, result);
  const uint64_t bytes = binary.size();
  MutexLock lock(&mutex_);
  if (ended_ || waiting_bytes_ + bytes > kWaitingBytesMax) return;
  waiting_bytes_ += bytes;
  calls_->Post([this, key, bytes, binary = std::move(binary)]() mutable {
    const absl::Status offered = link_->OfferBinary(key.Hex(), std::move(binary));
    if (!offered.ok()) LogDebug("agent", "a binary is not offered: {}", MessageOf(offered));
    MutexLock inner(&mutex_);
    waiting_bytes_ -= bytes;
  });
}

void FarmBinaries::End() {
  MutexLock lock(&mutex_);
  ended_ = true;
}

}  // namespace tunefarm
