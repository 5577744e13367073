#include "server/data_files/data_file_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <utility>

#include "server/base/file.h"
#include "server/base/format.h"
#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr std::string_view kPartSuffix = ".part";
constexpr const char* kOwnerAttribute = "user.tunefarm.owner";
constexpr const char* kTotalAttribute = "user.tunefarm.bytes";
constexpr int64_t kUploadKeptMs = int64_t{24} * 3600 * 1000;
// Written bytes go to the disk meanwhile, so that the last part does not wait for all of them.
constexpr int64_t kSyncBytes = 32 << 20;
constexpr size_t kReadBytes = 1 << 20;

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

// A full disk is no other than a full quota to the caller.
absl::Status OfDisk(const absl::Status& status) {
  return absl::IsResourceExhausted(status) ? WithReason(status, "DATA_FILE_QUOTA") : status;
}

int64_t ModifiedMs(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000;
}

// Empty where there is none.
std::string AttributeOf(int fd, const char* name) {
  char value[DataFileFolder::kOwnerBytesMax];
  const ssize_t bytes = fgetxattr(fd, name, value, sizeof(value));
  return bytes <= 0 ? "" : std::string(value, static_cast<size_t>(bytes));
}

// Without attributes owners and sizes are forgotten at the next start.
void SetAttribute(int fd, const char* name, std::string_view value) {
  if (!value.empty()) (void)fsetxattr(fd, name, value.data(), value.size(), 0);
}

std::string OwnerOf(int fd) { return AttributeOf(fd, kOwnerAttribute); }

// Of a whole file or upload, all bytes; 0 where it is not known.
int64_t TotalOf(int fd) {
  const std::string text = AttributeOf(fd, kTotalAttribute);
  int64_t total = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), total);
  const bool is_total = error == std::errc() && end == text.data() + text.size() && total > 0;
  return is_total && total <= DataFileFolder::kFileBytesMax ? total : 0;
}

absl::Status WriteAll(int fd, std::string_view bytes, int64_t offset, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "cannot write {}", path);
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
  return absl::OkStatus();
}

// Fewer bytes than asked for: the file ends.
absl::StatusOr<std::string> ReadAt(int fd, int64_t offset, size_t bytes_max, const std::string& path) {
  std::string bytes(bytes_max, '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = pread(fd, bytes.data() + filled, bytes.size() - filled,
                              static_cast<off_t>(offset + static_cast<int64_t>(filled)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "cannot read {}", path);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

absl::StatusOr<Digest> DigestOf(int fd, const std::string& path) {
  Sha256Stream stream;
  for (int64_t offset = 0;;) {
    ASSIGN_OR_RETURN(const std::string bytes, ReadAt(fd, offset, kReadBytes, path));
    if (bytes.empty()) return stream.Finish();
    stream.Update(bytes);
    offset += static_cast<int64_t>(bytes.size());
  }
}

// After a failed sync the page cache may differ from the disk, and the next sync does not report it: the upload begins
// at 0.
absl::Status LostOnDisk(int fd, const std::string& path) {
  const absl::Status status = OfDisk(ErrnoStatus(errno, "cannot write {}", path));
  if (ftruncate(fd, 0) != 0) LogWarn("data", "{}", MessageOf(ErrnoStatus(errno, "cannot cut {}", path)));
  return status;
}

absl::Status SyncDirectory(const std::string& path) {
  const UniqueFd directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory || fsync(directory.get()) != 0) return ErrnoStatus(errno, "cannot sync {}", path);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DataFileFolder> DataFileFolder::Open(std::string path, int64_t free_bytes_min, Clock* clock) {
  RETURN_IF_ERROR(MakeOwnDirectory(path));
  return DataFileFolder(std::move(path), free_bytes_min, clock);
}

absl::StatusOr<std::vector<DataFileFolder::Entry>> DataFileFolder::TakeStock() const {
  const std::unique_ptr<DIR, CloseDirectory> directory(opendir(path_.c_str()));
  if (directory == nullptr) return ErrnoStatus(errno, "cannot list {}", path_);
  const int64_t now_ms = clock_->WallMs();
  std::vector<Entry> entries;
  std::vector<std::string> gone;
  int old = 0, left_out = 0;
  while (const dirent* listed = readdir(directory.get())) {
    std::string name = listed->d_name;
    const bool is_upload = name.size() > kPartSuffix.size() &&
                           name.compare(name.size() - kPartSuffix.size(), kPartSuffix.size(), kPartSuffix) == 0;
    const std::string digest = is_upload ? name.substr(0, name.size() - kPartSuffix.size()) : name;
    if (!Digest::FromHex(digest).ok()) continue;
    // Not to wait for a FIFO that somebody put there.
    const UniqueFd fd(openat(dirfd(directory.get()), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat info;
    if (!fd || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) {
      ++left_out;
      continue;
    }
    const Entry entry{digest, is_upload, int64_t{info.st_size}, TotalOf(fd.get()), ModifiedMs(info), OwnerOf(fd.get())};
    if (is_upload && now_ms - entry.modified_ms > kUploadKeptMs) {
      ++old;
      gone.push_back(std::move(name));
    } else if (!is_upload && entry.total_bytes != 0 && entry.total_bytes != entry.bytes) {
      LogWarn("data", "data file {} has {} of {} bytes and is removed", digest, entry.bytes, entry.total_bytes);
      gone.push_back(std::move(name));
    } else {
      if (is_upload) (void)fchmod(fd.get(), 0600);
      entries.push_back(entry);
    }
  }
  for (const std::string& name : gone) (void)unlinkat(dirfd(directory.get()), name.c_str(), 0);
  if (old > 0) LogInfo("data", "uploads that nobody went on with are removed: {}", old);
  if (left_out > 0) {
    LogWarn("data", "data files in {} that are not used, as they are no regular files of the daemon's user: {}", path_,
            left_out);
  }
  return entries;
}

absl::StatusOr<UniqueFd> DataFileFolder::OpenWhole(const std::string& digest, int64_t bytes) const {
  const std::string path = PathOf(digest);
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info;
  if (!fd && errno != ENOENT && errno != ELOOP) return ErrnoStatus(errno, "cannot open {}", path);
  if (fd && fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size == bytes) return fd;
  if (fd) (void)unlink(path.c_str());
  return NotFound("{} is gone, or has not {} bytes any more", path, bytes);
}

absl::StatusOr<std::string> DataFileFolder::Read(int fd, int64_t offset, size_t bytes_max) const {
  return ReadAt(fd, offset, bytes_max, "a file of " + path_);
}

bool DataFileFolder::Touch(int fd) const {
  const int64_t now_ms = clock_->WallMs();
  const timespec now = {now_ms / 1000, now_ms % 1000 * 1'000'000};
  const timespec times[2] = {now, now};
  return futimens(fd, times) == 0;
}

void DataFileFolder::RemoveWhole(const std::string& digest) const { (void)unlink(PathOf(digest).c_str()); }

void DataFileFolder::RemoveUpload(const std::string& digest) const { (void)unlink(UploadOf(digest).c_str()); }

absl::StatusOr<int64_t> DataFileFolder::BytesToUse() const {
  ASSIGN_OR_RETURN(const uint64_t free, FreeBytes(path_));
  return static_cast<int64_t>(free) - free_bytes_min_;
}

absl::Status DataFileFolder::CheckRoom(int64_t bytes) const {
  ASSIGN_OR_RETURN(const int64_t to_use, BytesToUse());
  if (to_use >= bytes) return absl::OkStatus();
  return OfDisk(ResourceExhausted("{} are free on the disk of {}, and {} stay free",
                                  FormatBytes(static_cast<uint64_t>(to_use + free_bytes_min_)), path_,
                                  FormatBytes(static_cast<uint64_t>(free_bytes_min_))));
}

absl::StatusOr<DataFileProgress> DataFileFolder::Append(const DataFilePart& part, int64_t received) const {
  const std::string path = UploadOf(part.digest);
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!fd) return OfDisk(ErrnoStatus(errno, "cannot open {}", path));
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "cannot look at {}", path);
  if (info.st_size < received) return DataFileProgress{false, 0};  // Somebody removed it: from the start on.
  if (info.st_size > received && ftruncate(fd.get(), static_cast<off_t>(received)) != 0) {
    return ErrnoStatus(errno, "cannot cut {}", path);
  }
  if (received == 0) {
    SetAttribute(fd.get(), kOwnerAttribute, part.owner);
    SetAttribute(fd.get(), kTotalAttribute, std::to_string(part.total_bytes));
  }
  const auto known = static_cast<size_t>(received - part.offset);
  const std::string_view bytes = part.bytes.substr(std::min(known, part.bytes.size()));
  const auto size = static_cast<int64_t>(bytes.size());
  if (absl::Status room = CheckRoom(size); !room.ok()) return Annotate(room, "the upload cannot go on");
  // What was written before an error is cut off by the next part.
  if (const absl::Status written = WriteAll(fd.get(), bytes, received, path); !written.ok()) return OfDisk(written);
  (void)Touch(fd.get());
  const int64_t end = received + size;
  if (end == part.total_bytes) {
    RETURN_IF_ERROR(Complete(part, fd.get()));
    return DataFileProgress{true, end};
  }
  if (end / kSyncBytes != received / kSyncBytes && fdatasync(fd.get()) != 0) return LostOnDisk(fd.get(), path);
  return DataFileProgress{false, end};
}

absl::Status DataFileFolder::Complete(const DataFilePart& part, int fd) const {
  const std::string path = UploadOf(part.digest);
  ASSIGN_OR_RETURN(const Digest digest, DigestOf(fd, path));
  if (digest.Hex() != part.digest) {
    return WithReason(InvalidArgument("what was uploaded as {} has the digest {}; upload it from the start, and check "
                                      "that the file does not change meanwhile",
                                      part.digest, digest.Hex()),
                      "DATA_FILE_INVALID");
  }
  if (fsync(fd) != 0) return LostOnDisk(fd, path);
  if (fchmod(fd, 0400) != 0 || rename(path.c_str(), PathOf(part.digest).c_str()) != 0) {
    const absl::Status failed = OfDisk(ErrnoStatus(errno, "cannot rename {}", path));
    (void)unlink(path.c_str());
    return failed;
  }
  return SyncDirectory(path_);
}

}  // namespace tunefarm
