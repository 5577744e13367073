#include "server/upkeep/space_floor.h"

#include <sys/statvfs.h>

#include <cerrno>

#include "server/base/log.h"
#include "server/base/status.h"

namespace tunefarm {
namespace {

constexpr int64_t kHysteresisShare = 10;  // a tenth of the floor

}  // namespace

std::string SpaceFloor::Shortage() {
  std::string reason;
  is_low_.resize(options_.sources.size(), false);
  for (size_t i = 0; i < options_.sources.size(); ++i) {
    const SpaceSource& source = options_.sources[i];
    if (source.floor_bytes <= 0) continue;
    const absl::StatusOr<int64_t> free = source.free_bytes();
    if (!free.ok()) {
      LogWarn("jobs", "free space is not known: {}", MessageOf(free.status()));
      continue;
    }
    const int64_t wanted = source.floor_bytes + (is_low_[i] ? source.floor_bytes / kHysteresisShare : 0);
    is_low_[i] = *free < wanted;
    if (is_low_[i] && reason.empty()) reason = source.explain(*free, source.floor_bytes);
  }
  return reason;
}

void SpaceFloor::Check() {
  const std::string reason = Shortage();
  if (!reason.empty()) {
    options_.low(reason);
  } else if (was_low_) {
    options_.enough();
  }
  was_low_ = !reason.empty();
}

void SpaceFloor::Start() { CheckLater(); }

void SpaceFloor::CheckLater() {
  MutexLock lock(&mutex_);
  if (stopped_) return;
  timer_ = options_.executor->PostAfter(options_.interval, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->Check();
    self->CheckLater();
  });
}

void SpaceFloor::Stop() {
  MutexLock lock(&mutex_);
  stopped_ = true;
  options_.executor->Cancel(timer_);
}

absl::StatusOr<int64_t> FreeDiskBytes(const std::string& path) {
  struct statvfs info = {};
  if (statvfs(path.c_str(), &info) != 0) return ErrnoStatus(errno, "asking for the free space of {}", path);
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

}  // namespace tunefarm
