#include "server/data_files/data_file_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <utility>
#include <vector>

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
constexpr size_t kOwnerBytesMax = 256;
constexpr int64_t kUploadKeptMs = int64_t{24} * 3600 * 1000;
// An upload to which nothing was added for so long may make way for others.
constexpr int64_t kUploadIdleMs = int64_t{10} * 60 * 1000;
constexpr int64_t kTouchMs = 60'000;
constexpr Duration kKeptFor = std::chrono::minutes(2);
constexpr Duration kTurnMax = std::chrono::seconds(10);
// Written bytes go to the disk meanwhile, so that the last part does not wait for all of them.
constexpr int64_t kSyncBytes = 32 << 20;
constexpr size_t kReadBytes = 1 << 20;

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

absl::Status Invalid(const absl::Status& status) { return WithReason(status, "DATA_FILE_INVALID"); }
absl::Status NoRoom(const absl::Status& status) { return WithReason(status, "DATA_FILE_QUOTA"); }
// A full disk is no other than a full quota to the caller.
absl::Status OfDisk(const absl::Status& status) { return absl::IsResourceExhausted(status) ? NoRoom(status) : status; }
absl::Status Missing(const std::string& digest) {
  return WithReason(NotFound("there is no data file {}", digest.substr(0, 64)), "DATA_FILE_NOT_FOUND");
}

std::string Size(int64_t bytes) { return FormatBytes(static_cast<uint64_t>(std::max<int64_t>(bytes, 0))); }

int64_t ModifiedMs(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000;
}

bool Touch(int fd, int64_t now_ms) {
  const timespec now = {now_ms / 1000, now_ms % 1000 * 1'000'000};
  const timespec times[2] = {now, now};
  return futimens(fd, times) == 0;
}

// Empty where there is none.
std::string AttributeOf(int fd, const char* name) {
  char value[kOwnerBytesMax];
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
  return is_total && total <= DataFileStore::kFileBytesMax ? total : 0;
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

// ---- The folder ----

absl::StatusOr<std::unique_ptr<DataFileStore>> DataFileStore::Open(DataFileStoreOptions options) {
  std::unique_ptr<DataFileStore> store(new DataFileStore(std::move(options)));
  const std::string& path = store->options_.path;
  RETURN_IF_ERROR(MakeDirectories(path, 0700));
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "cannot look at {}", path);
  if (info.st_uid != geteuid() || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return FailedPrecondition("{} must belong to the daemon's user and be writable by nobody else", path);
  }
  RETURN_IF_ERROR(MakePrivate(path));
  RETURN_IF_ERROR(store->TakeStock());
  return store;
}

absl::Status DataFileStore::TakeStock() {
  const std::unique_ptr<DIR, CloseDirectory> directory(opendir(options_.path.c_str()));
  if (directory == nullptr) return ErrnoStatus(errno, "cannot list {}", options_.path);
  const int64_t now_ms = options_.clock->WallMs();
  std::vector<std::string> gone;
  int old = 0, left_out = 0;
  MutexLock lock(&mutex_);
  while (const dirent* listed = readdir(directory.get())) {
    std::string name = listed->d_name;
    const bool is_part = name.size() > kPartSuffix.size() &&
                         name.compare(name.size() - kPartSuffix.size(), kPartSuffix.size(), kPartSuffix) == 0;
    const std::string digest = is_part ? name.substr(0, name.size() - kPartSuffix.size()) : name;
    if (!Digest::FromHex(digest).ok()) continue;
    // Not to wait for a FIFO that somebody put there.
    const UniqueFd fd(openat(dirfd(directory.get()), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat info;
    if (!fd || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid()) {
      ++left_out;
      continue;
    }
    const int64_t modified_ms = ModifiedMs(info);
    if (is_part && now_ms - modified_ms > kUploadKeptMs) {
      ++old;
      gone.push_back(std::move(name));
    } else if (is_part) {
      uploads_[digest] = {TotalOf(fd.get()), int64_t{info.st_size}, modified_ms, OwnerOf(fd.get()), false};
      (void)fchmod(fd.get(), 0600);
    } else if (const int64_t bytes = TotalOf(fd.get()); bytes != 0 && bytes != info.st_size) {
      LogWarn("data", "data file {} has {} of {} bytes and is removed", digest, info.st_size, bytes);
      gone.push_back(std::move(name));
    } else {
      files_[digest] = {int64_t{info.st_size}, modified_ms, modified_ms, OwnerOf(fd.get()), {}};
    }
  }
  for (const std::string& name : gone) (void)unlinkat(dirfd(directory.get()), name.c_str(), 0);
  if (old > 0) LogInfo("data", "{} uploads that nobody went on with are removed", old);
  if (left_out > 0) {
    LogWarn("data", "{} data files in {} are not used: they are no regular files of the daemon's user", left_out,
            options_.path);
  }
  return absl::OkStatus();
}

// ---- Questions ----

DataFileProgress DataFileStore::Find(const std::string& digest) {
  MutexLock lock(&mutex_);
  if (const auto whole = files_.find(digest); whole != files_.end()) {
    whole->second.used_ms = options_.clock->WallMs();
    return {true, whole->second.bytes};
  }
  const auto upload = uploads_.find(digest);
  return {false, upload == uploads_.end() ? 0 : upload->second.received};
}

std::optional<int64_t> DataFileStore::Keep(const std::string& digest) {
  MutexLock lock(&mutex_);
  const auto found = files_.find(digest);
  if (found == files_.end()) return std::nullopt;
  found->second.kept_until = options_.clock->Now() + kKeptFor;
  found->second.used_ms = options_.clock->WallMs();
  return found->second.bytes;
}

DataFileStore::Counts DataFileStore::counts() const {
  MutexLock lock(&mutex_);
  Counts counts;
  counts.files = static_cast<int64_t>(files_.size());
  for (const auto& [digest, file] : files_) counts.bytes += file.bytes;
  counts.uploads = static_cast<int64_t>(uploads_.size());
  counts.removed = removed_;
  return counts;
}

absl::StatusOr<OpenDataFile> DataFileStore::OpenFile(const std::string& digest) {
  int64_t bytes = 0;
  int64_t touched_ms = 0;
  {
    MutexLock lock(&mutex_);
    const auto found = files_.find(digest);
    if (found == files_.end()) return Missing(digest);
    bytes = found->second.bytes;
    touched_ms = found->second.touched_ms;
  }
  const std::string path = PathOf(digest);
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info;
  if (!fd && errno != ENOENT && errno != ELOOP) return ErrnoStatus(errno, "cannot open {}", path);
  if (!fd || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size != bytes) {
    MutexLock lock(&mutex_);
    if (files_.erase(digest) > 0) LogWarn("data", "{} is gone, or has not {} bytes any more", path, bytes);
    if (fd) (void)unlink(path.c_str());
    return Missing(digest);
  }
  const int64_t now_ms = options_.clock->WallMs();
  if (now_ms - touched_ms >= kTouchMs && Touch(fd.get(), now_ms)) touched_ms = now_ms;
  MutexLock lock(&mutex_);
  if (const auto found = files_.find(digest); found != files_.end()) {
    found->second.used_ms = now_ms;
    found->second.touched_ms = touched_ms;
  }
  return OpenDataFile{std::make_shared<const UniqueFd>(std::move(fd)), bytes};
}

absl::StatusOr<DataFileStore::Piece> DataFileStore::Read(const std::string& digest, int64_t offset) {
  ASSIGN_OR_RETURN(const OpenDataFile open, OpenFile(digest));
  if (offset < 0 || offset > open.bytes) {
    return Invalid(InvalidArgument("the offset is {}, and the data file has {} bytes", offset, open.bytes));
  }
  const int64_t wanted = std::min(kPartBytesMax, open.bytes - offset);
  ASSIGN_OR_RETURN(std::string bytes, ReadAt(open.file->get(), offset, static_cast<size_t>(wanted), PathOf(digest)));
  if (static_cast<int64_t>(bytes.size()) != wanted) return Missing(digest);
  return Piece{std::move(bytes), open.bytes};
}

// ---- Uploads ----

absl::Status DataFileStore::CheckPart(const DataFilePart& part) const {
  if (!Digest::FromHex(part.digest).ok()) {
    return Invalid(
        InvalidArgument("'{}' is no SHA-256; it has 64 lower-case hexadecimal digits", part.digest.substr(0, 80)));
  }
  if (part.total_bytes < 1 || part.total_bytes > kFileBytesMax) {
    return Invalid(InvalidArgument("the data file has {} bytes; 1 to {} are taken", part.total_bytes, kFileBytesMax));
  }
  const auto size = static_cast<int64_t>(part.bytes.size());
  if (size > kPartBytesMax) {
    return Invalid(InvalidArgument("the part has {} bytes; at most {} are taken", size, kPartBytesMax));
  }
  if (part.offset < 0 || part.offset > part.total_bytes - size) {
    return Invalid(InvalidArgument("a part of {} bytes at {} does not fit into a data file of {} bytes", size,
                                   part.offset, part.total_bytes));
  }
  if (part.owner.size() > kOwnerBytesMax) return Invalid(InvalidArgument("the owner's name is too long"));
  const int64_t own_max = options_.owner_bytes_max;
  const int64_t most = own_max > 0 ? std::min(own_max, options_.bytes_max) : options_.bytes_max;
  if (part.total_bytes <= most) return absl::OkStatus();
  return NoRoom(
      ResourceExhausted("the data file has {}, and the data files of one caller may have {} here "
                        "(max_data_file_bytes)",
                        Size(part.total_bytes), Size(most)));
}

absl::StatusOr<DataFileProgress> DataFileStore::Write(const DataFilePart& part) {
  RETURN_IF_ERROR(CheckPart(part));
  ASSIGN_OR_RETURN(const std::optional<DataFileProgress> known, Claim(part));
  if (known.has_value()) return *known;
  int64_t received = 0;
  {
    MutexLock lock(&mutex_);
    received = uploads_[part.digest].received;
  }
  const absl::StatusOr<DataFileProgress> progress = Append(part, received);
  const int64_t now_ms = options_.clock->WallMs();
  MutexLock lock(&mutex_);
  Upload& upload = uploads_[part.digest];
  upload.busy = false;
  upload.used_ms = now_ms;
  turn_.NotifyAll();
  if (progress.ok() && progress->is_whole) {
    files_[part.digest] = {part.total_bytes, now_ms, now_ms, upload.owner, {}};
    uploads_.erase(part.digest);
    LogInfo("data", "data file {} is whole: {}", part.digest, Size(part.total_bytes));
  } else if (progress.ok()) {
    upload.received = progress->received_bytes;
  } else if (received == 0 || ReasonOf(progress.status()) == "DATA_FILE_INVALID") {
    (void)unlink(PartOf(part.digest).c_str());
    uploads_.erase(part.digest);
  }
  return progress;
}

absl::Status DataFileStore::WaitForTurn(const std::string& digest) {
  // Other uploads wake it, too.
  const MonotonicTime last = Clock::Real()->Now() + kTurnMax;
  do {
    const auto upload = uploads_.find(digest);
    if (upload == uploads_.end() || !upload->second.busy) return absl::OkStatus();
    turn_.WaitFor(&mutex_, std::chrono::seconds(1));
  } while (Clock::Real()->Now() < last);
  return Unavailable("another call is writing the data file {}; repeat this one", digest);
}

absl::StatusOr<std::optional<DataFileProgress>> DataFileStore::TryClaim(const DataFilePart& part) {
  RETURN_IF_ERROR(WaitForTurn(part.digest));
  if (const auto whole = files_.find(part.digest); whole != files_.end()) {
    if (whole->second.bytes != part.total_bytes) {
      return Invalid(
          InvalidArgument("the data file {} has {} bytes, not {}", part.digest, whole->second.bytes, part.total_bytes));
    }
    whole->second.used_ms = options_.clock->WallMs();
    return std::make_optional(DataFileProgress{true, whole->second.bytes});
  }
  const auto found = uploads_.find(part.digest);
  if (found == uploads_.end()) return std::make_optional(DataFileProgress{false, 0});
  Upload& upload = found->second;
  if (upload.total == 0) upload.total = part.total_bytes;
  if (upload.total != part.total_bytes || upload.received > upload.total) {
    (void)unlink(PartOf(part.digest).c_str());
    uploads_.erase(found);
    return std::make_optional(DataFileProgress{false, 0});
  }
  const int64_t end = part.offset + static_cast<int64_t>(part.bytes.size());
  // All of it may be there, where the process died before it was checked: any part then makes it whole.
  const bool is_known = end <= upload.received && upload.received < upload.total;
  if (part.offset > upload.received || is_known) return std::make_optional(DataFileProgress{false, upload.received});
  upload.busy = true;
  return std::optional<DataFileProgress>();
}

absl::StatusOr<std::optional<DataFileProgress>> DataFileStore::Claim(const DataFilePart& part) {
  for (bool has_begun = false;; has_begun = true) {
    {
      MutexLock lock(&mutex_);
      ASSIGN_OR_RETURN(const std::optional<DataFileProgress> progress, TryClaim(part));
      const bool is_new = progress.has_value() && !progress->is_whole && progress->received_bytes == 0 &&
                          part.offset == 0 && !part.bytes.empty();
      if (!is_new || has_begun) return progress;
      if (CheckOwner(part).ok() && CheckRoom(part).ok()) {
        uploads_[part.digest] = {part.total_bytes, 0, options_.clock->WallMs(), std::string(part.owner), true};
        return std::optional<DataFileProgress>();
      }
    }
    RETURN_IF_ERROR(MakeRoom(part));
  }
}

int64_t DataFileStore::BytesOfAll() const {
  int64_t bytes = 0;
  for (const auto& [digest, file] : files_) bytes += Counted(file.bytes);
  for (const auto& [digest, upload] : uploads_) bytes += Counted(std::max(upload.total, upload.received));
  return bytes;
}

int64_t DataFileStore::BytesOfOwner(std::string_view owner) const {
  int64_t bytes = 0;
  for (const auto& [digest, file] : files_) {
    if (file.owner == owner) bytes += Counted(file.bytes);
  }
  for (const auto& [digest, upload] : uploads_) {
    if (upload.owner == owner) bytes += Counted(std::max(upload.total, upload.received));
  }
  return bytes;
}

absl::Status DataFileStore::CheckOwner(const DataFilePart& part) const {
  if (options_.owner_bytes_max <= 0) return absl::OkStatus();
  const int64_t own = BytesOfOwner(part.owner);
  if (own + Counted(part.total_bytes) <= options_.owner_bytes_max) return absl::OkStatus();
  return NoRoom(ResourceExhausted(
      "there is no room for a data file of {}: this caller's have {}, with those that stored kernels name and uploads; "
      "they may have {} (half of max_data_file_bytes); delete kernels that are not needed, or try again in some "
      "minutes",
      Size(part.total_bytes), Size(own), Size(options_.owner_bytes_max)));
}

absl::Status DataFileStore::CheckRoom(const DataFilePart& part) const {
  const int64_t bytes = part.total_bytes;
  if (const int64_t all = BytesOfAll(); all + Counted(bytes) > options_.bytes_max) {
    return NoRoom(ResourceExhausted(
        "there is no room for a data file of {}: {} of {} are used, by files that stored kernels name and by uploads; "
        "delete kernels that are not needed",
        Size(bytes), Size(all), Size(options_.bytes_max)));
  }
  ASSIGN_OR_RETURN(const uint64_t free, FreeBytes(options_.path));
  if (static_cast<int64_t>(free) - options_.free_bytes_min >= bytes) return absl::OkStatus();
  return NoRoom(
      ResourceExhausted("there is no room for a data file of {}: {} are free on the disk of {}, and {} stay "
                        "free",
                        Size(bytes), Size(static_cast<int64_t>(free)), options_.path, Size(options_.free_bytes_min)));
}

absl::Status DataFileStore::MakeRoom(const DataFilePart& part) {
  std::unordered_set<std::string> named;
  if (options_.named) {
    ASSIGN_OR_RETURN(named, options_.named());
  }
  MutexLock lock(&mutex_);
  if (uploads_.count(part.digest) > 0 || files_.count(part.digest) > 0) return absl::OkStatus();
  const std::string owner(part.owner);
  if (options_.owner_bytes_max > 0) {
    const int64_t over = BytesOfOwner(owner) + Counted(part.total_bytes) - options_.owner_bytes_max;
    Remove(&owner, named, over, CountedMin());
  }
  RETURN_IF_ERROR(CheckOwner(part));
  Remove(nullptr, named, BytesOfAll() + Counted(part.total_bytes) - options_.bytes_max, CountedMin());
  if (const absl::StatusOr<uint64_t> free = FreeBytes(options_.path); free.ok()) {
    Remove(nullptr, named, part.total_bytes + options_.free_bytes_min - static_cast<int64_t>(*free), 0);
  }
  RETURN_IF_ERROR(CheckRoom(part));
  uploads_[part.digest] = {part.total_bytes, 0, options_.clock->WallMs(), owner, false};
  return absl::OkStatus();
}

void DataFileStore::Remove(const std::string* owner, const std::unordered_set<std::string>& named, int64_t bytes,
                           int64_t bytes_min) {
  if (bytes <= 0) return;
  struct Candidate {
    int64_t used_ms = 0;
    int64_t bytes = 0;
    std::string digest;
    bool is_upload = false;
  };
  std::vector<Candidate> candidates;
  const MonotonicTime now = options_.clock->Now();
  const int64_t now_ms = options_.clock->WallMs();
  for (const auto& [digest, file] : files_) {
    if ((owner != nullptr && file.owner != *owner) || named.count(digest) > 0 || file.kept_until > now) continue;
    candidates.push_back({file.used_ms, std::max(file.bytes, bytes_min), digest, false});
  }
  for (const auto& [digest, upload] : uploads_) {
    if ((owner != nullptr && upload.owner != *owner) || upload.busy || now_ms - upload.used_ms < kUploadIdleMs)
      continue;
    const int64_t size = std::max(upload.total, upload.received);
    candidates.push_back({upload.used_ms, std::max(size, bytes_min), digest, true});
  }
  int64_t removable = 0;
  for (const Candidate& candidate : candidates) removable += candidate.bytes;
  if (removable < bytes) return;
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.used_ms < b.used_ms; });
  for (const Candidate& candidate : candidates) {
    if (bytes <= 0) return;
    const std::string path = candidate.is_upload ? PartOf(candidate.digest) : PathOf(candidate.digest);
    (void)unlink(path.c_str());
    if (candidate.is_upload) {
      uploads_.erase(candidate.digest);
    } else {
      files_.erase(candidate.digest);
    }
    bytes -= candidate.bytes;
    ++removed_;
    LogInfo("data", "data file {} makes room for others", candidate.digest);
  }
}

absl::StatusOr<DataFileProgress> DataFileStore::Append(const DataFilePart& part, int64_t received) const {
  const std::string path = PartOf(part.digest);
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
  ASSIGN_OR_RETURN(const uint64_t free, FreeBytes(options_.path));
  if (static_cast<int64_t>(free) - options_.free_bytes_min < size) {
    return NoRoom(ResourceExhausted("{} are free on the disk of {}, and {} stay free: the upload cannot go on",
                                    Size(static_cast<int64_t>(free)), options_.path, Size(options_.free_bytes_min)));
  }
  // What was written before an error is cut off by the next part.
  if (const absl::Status written = WriteAll(fd.get(), bytes, received, path); !written.ok()) return OfDisk(written);
  (void)Touch(fd.get(), options_.clock->WallMs());
  const int64_t end = received + size;
  if (end == part.total_bytes) {
    RETURN_IF_ERROR(Complete(part, fd.get()));
    return DataFileProgress{true, end};
  }
  if (end / kSyncBytes != received / kSyncBytes && fdatasync(fd.get()) != 0) return LostOnDisk(fd.get(), path);
  return DataFileProgress{false, end};
}

absl::Status DataFileStore::Complete(const DataFilePart& part, int fd) const {
  const std::string path = PartOf(part.digest);
  ASSIGN_OR_RETURN(const Digest digest, DigestOf(fd, path));
  if (digest.Hex() != part.digest) {
    return Invalid(
        InvalidArgument("what was uploaded as {} has the digest {}; upload it from the start, and check "
                        "that the file does not change meanwhile",
                        part.digest, digest.Hex()));
  }
  if (fsync(fd) != 0) return LostOnDisk(fd, path);
  if (fchmod(fd, 0400) != 0 || rename(path.c_str(), PathOf(part.digest).c_str()) != 0) {
    const absl::Status failed = OfDisk(ErrnoStatus(errno, "cannot rename {}", path));
    (void)unlink(path.c_str());
    return failed;
  }
  return SyncDirectory(options_.path);
}

}  // namespace tunefarm
