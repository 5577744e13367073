#include "server/upkeep/miss_writer.h"

#include "server/base/log.h"
#include "server/base/status.h"

namespace tunefarm {

void MissWriter::WriteNow() {
  const absl::Status written = write_();
  if (!written.ok() && !has_failed_) {
    LogWarn("jobs", "misses cannot be stored yet, and are lost if the daemon ends: {}", MessageOf(written));
  }
  if (written.ok() && has_failed_) LogInfo("jobs", "misses are stored again");
  has_failed_ = !written.ok();
}

void MissWriter::WriteLater() {
  MutexLock lock(&mutex_);
  if (is_stopped_) return;
  timer_ = executor_->PostAfter(kInterval, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->WriteNow();
    self->WriteLater();
  });
}

void MissWriter::Stop() {
  MutexLock lock(&mutex_);
  is_stopped_ = true;
  executor_->Cancel(timer_);
}

}  // namespace tunefarm
