#include "client/cli/data/open_data_file.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <string_view>
#include <utility>

#include "client/cli/data/npy_header.h"
#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm::cli {
namespace {

constexpr int64_t kDataFileBytesAllowed = int64_t{2} << 30;

bool HasEnding(std::string name, std::string_view ending) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  return name.size() >= ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
}

// Up to `bytes` from `offset` on; fewer where the file ends.
absl::StatusOr<std::string> ReadAt(int fd, int64_t offset, int64_t bytes, const std::string& name) {
  std::string text(static_cast<size_t>(bytes), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = pread(fd, text.data() + done, text.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "cannot read {}", name);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

}  // namespace

OpenDataFile::OpenDataFile(UniqueFd fd, std::string name, const struct stat& info)
    : fd_(std::move(fd)), name_(std::move(name)), info_(info), bytes_(info.st_size) {}

absl::StatusOr<OpenDataFile> OpenDataFile::Examine(UniqueFd fd, std::string name) {
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "cannot examine {}", name);
  OpenDataFile file(std::move(fd), std::move(name), info);
  const int64_t start_bytes = std::min<int64_t>(info.st_size, kNpyStartBytesMax);
  ASSIGN_OR_RETURN(const std::string start, ReadAt(file.fd_.get(), 0, start_bytes, file.name_));
  if (HasEnding(file.name_, ".npy")) {
    ASSIGN_OR_RETURN(const NpyHeader header, ParseNpyHeader(start, info.st_size, file.name_));
    file.offset_ = header.data_offset;
    file.bytes_ = header.data_bytes;
    file.data_type_ = header.data_type;
    file.element_bytes_ = header.element_bytes;
    file.dtype_ = header.dtype;
  } else if (HasEnding(file.name_, ".npz")) {
    return InvalidArgument("{} is an archive of arrays; write one of them to a .npy file by numpy.save", file.name_);
  } else if (start.compare(0, kNpyMagic.size(), kNpyMagic) == 0) {
    return InvalidArgument("{} is a .npy file by its content; give it a name that ends in .npy", file.name_);
  }
  if (file.bytes_ == 0) return InvalidArgument("{} holds no elements", file.name_);
  if (file.bytes_ > kDataFileBytesAllowed) {
    return InvalidArgument("{} holds {} bytes; a data file has at most {} (2 GiB)", file.name_, file.bytes_,
                           kDataFileBytesAllowed);
  }
  return file;
}

absl::StatusOr<std::string> OpenDataFile::Digest() const {
  Sha256Stream hash;
  for (int64_t offset = 0; offset < bytes_; offset += kPartBytes) {
    ASSIGN_OR_RETURN(const std::string part, Part(offset));
    hash.Update(part);
  }
  return hash.Finish().Hex();
}

absl::StatusOr<std::string> OpenDataFile::Part(int64_t offset) const {
  const int64_t wanted = std::min(kPartBytes, bytes_ - offset);
  ASSIGN_OR_RETURN(std::string part, ReadAt(fd_.get(), offset_ + offset, wanted, name_));
  struct stat now;
  if (fstat(fd_.get(), &now) != 0) return ErrnoStatus(errno, "cannot examine {}", name_);
  const bool is_same = now.st_size == info_.st_size && now.st_mtim.tv_sec == info_.st_mtim.tv_sec &&
                       now.st_mtim.tv_nsec == info_.st_mtim.tv_nsec;
  if (!is_same || static_cast<int64_t>(part.size()) != wanted) return Changed();
  return part;
}

absl::Status OpenDataFile::Changed() const {
  return InvalidArgument("{} changed while it was read; repeat the command when nothing writes it", name_);
}

}  // namespace tunefarm::cli
