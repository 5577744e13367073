// SpaceFloor: watches how much space is left, on the disk and in the database, and says when it is too little and when
// there is enough again. Enough is a tenth above the floor, so that it does not change its mind with every file.
//
// Threads: Check and the callbacks on the executor's thread; the rest from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/executor.h"
#include "server/base/mutex.h"

namespace tunefarm {

struct SpaceSource {
  std::function<absl::StatusOr<int64_t>()> free_bytes;
  int64_t floor_bytes = 0;  // 0: any amount is enough
  // For users: what is short and what to do about it.
  std::function<std::string(int64_t free_bytes, int64_t floor_bytes)> explain;
};

struct SpaceFloorOptions {
  std::vector<SpaceSource> sources;
  Duration interval = std::chrono::seconds(2);
  std::function<void(const std::string& reason)> low;  // at every check while there is too little
  std::function<void()> enough;                        // at the first check, and once after `low`
  Executor* executor = nullptr;                        // outlives the floor
};

class SpaceFloor : public std::enable_shared_from_this<SpaceFloor> {
 public:
  explicit SpaceFloor(SpaceFloorOptions options) : options_(std::move(options)) {}

  // Checks now, on this thread and before Start, so that nothing begins without space.
  void Check();
  // Checks again and again from now on, until Stop.
  void Start();
  void Stop() LOCKS_EXCLUDED(mutex_);

 private:
  void CheckLater() LOCKS_EXCLUDED(mutex_);
  // Empty: every source has enough. A source that cannot be read is taken to have.
  std::string Shortage();

  const SpaceFloorOptions options_;
  // Of the checks, of which there is one at a time.
  std::vector<bool> is_low_;
  bool was_low_ = true;  // so that the first check tells

  Mutex mutex_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  TimerId timer_ GUARDED_BY(mutex_) = 0;
};

// Free bytes for this user on the file system of the path. ErrnoStatus.
absl::StatusOr<int64_t> FreeDiskBytes(const std::string& path);

}  // namespace tunefarm
