#include "server/base/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

}  // namespace

absl::StatusOr<UniqueFd> CreateSealedMemfd(std::string_view name, std::string_view bytes) {
  constexpr size_t kNameBytesMax = 249;  // The kernel refuses longer ones.
  const std::string short_name(name.substr(0, kNameBytesMax));
  UniqueFd fd(memfd_create(short_name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return ErrnoStatus(errno, "cannot create the memory file {}", short_name);
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return ErrnoStatus(errno, "cannot write {} bytes to the memory file {}", bytes.size(), short_name);
    done += static_cast<size_t>(wrote);
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return ErrnoStatus(errno, "cannot seal the memory file {}", short_name);
  return fd;
}

absl::StatusOr<uint64_t> SizeOfSealedMemfd(int fd, uint64_t bytes_max) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 && errno != EINVAL) return ErrnoStatus(errno, "cannot read the seals of descriptor {}", fd);
  if (seals < 0) return InvalidArgument("descriptor {} is not a memory file", fd);
  if ((seals & kSeals) != kSeals) {
    return InvalidArgument("memory file is not sealed (seals {:#x}, needed {:#x})", seals, kSeals);
  }
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "cannot stat descriptor {}", fd);
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size > bytes_max) return ResourceExhausted("memory file has {} bytes, the limit is {}", size, bytes_max);
  return size;
}

absl::StatusOr<std::string> ReadSealedMemfd(int fd, uint64_t bytes_max) {
  ASSIGN_OR_RETURN(const uint64_t size, SizeOfSealedMemfd(fd, bytes_max));
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "cannot read descriptor {}", fd);
    if (got == 0) return Internal("sealed memory file ends at {} of {} bytes", done, bytes.size());
    done += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace tunefarm
