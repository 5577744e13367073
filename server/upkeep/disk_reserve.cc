#include "server/upkeep/disk_reserve.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/base/file.h"
#include "server/base/log.h"
#include "server/base/unique_fd.h"

namespace tunefarm {
namespace {

// An index of 32 KiB and a log of 4 MiB, at which SQLite begins to reuse it, and some small files.
constexpr uint64_t kReserveBytes = uint64_t{6} << 20;

std::string PathIn(const std::string& data_directory) { return data_directory + "/disk.reserve"; }

}  // namespace

void UseDiskReserve(const std::string& data_directory) {
  const absl::StatusOr<uint64_t> free = FreeBytes(data_directory);
  if (!free.ok() || *free >= kReserveBytes) return;
  if (unlink(PathIn(data_directory).c_str()) != 0) return;
  LogWarn("daemon", "the disk of {} is full; the room that was reserved for a start is used", data_directory);
}

void KeepDiskReserve(const std::string& data_directory) {
  const std::string path = PathIn(data_directory);
  const absl::StatusOr<uint64_t> free = FreeBytes(data_directory);
  if (!free.ok() || *free < 4 * kReserveBytes || access(path.c_str(), F_OK) == 0) return;
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file.valid()) return;
  if (fallocate(file.get(), 0, 0, static_cast<off_t>(kReserveBytes)) == 0) return;
  unlink(path.c_str());
  LogInfo("daemon", "the file system of {} sets no room aside: a start on a full disk may fail", data_directory);
}

}  // namespace tunefarm
