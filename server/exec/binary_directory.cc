#include "server/exec/binary_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "server/base/file.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/unique_fd.h"

namespace tunefarm {
namespace {

constexpr std::string_view kSuffix = ".bin";
constexpr std::string_view kTemporary = ".tmp-";
constexpr uint64_t kBlock = 4096;
constexpr uint64_t kFileBytesMax = uint64_t{1} << 30;

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

uint64_t OnDisk(uint64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

int64_t ModifiedMs(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000;
}

// Why a file is none of ours; empty if it is.
std::string WhyForeign(const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return "it is no regular file";
  if (info.st_uid != geteuid()) return fmt::format("it belongs to user {}", info.st_uid);
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "others may write to it";
  return {};
}

std::optional<Digest> KeyOfName(std::string_view name) {
  if (name.size() <= kSuffix.size() || name.substr(name.size() - kSuffix.size()) != kSuffix) return std::nullopt;
  const auto key = Digest::FromHex(name.substr(0, name.size() - kSuffix.size()));
  if (!key.ok()) return std::nullopt;
  return *key;
}

}  // namespace

std::string BinaryDirectory::PathOf(const Digest& key) const {
  return fmt::format("{}/{}{}", options_.path, key.Hex(), kSuffix);
}

absl::Status BinaryDirectory::Open() {
  RETURN_IF_ERROR(MakeOwnDirectory(options_.path));
  ASSIGN_OR_RETURN(std::list<Entry> stock, TakeStock());
  // The oldest first, so that the newest ends in front.
  stock.sort([](const Entry& a, const Entry& b) { return a.touched_ms < b.touched_ms; });
  MutexLock lock(&mutex_);
  for (const Entry& entry : stock) Remember(entry);
  open_ = true;
  MakeRoom(0, 0);
  LogDebug("exec", "{} holds {} binaries of {} bytes", options_.path, entries_.size(), bytes_);
  return absl::OkStatus();
}

absl::StatusOr<std::list<BinaryDirectory::Entry>> BinaryDirectory::TakeStock() const {
  const std::unique_ptr<DIR, CloseDirectory> directory(opendir(options_.path.c_str()));
  if (directory == nullptr) return ErrnoStatus(errno, "cannot list {}", options_.path);
  std::list<Entry> stock;
  std::vector<std::string> doomed;
  while (const dirent* listed = readdir(directory.get())) {
    const std::string name = listed->d_name;
    if (name.find(kTemporary) != std::string::npos) {
      doomed.push_back(name);
      continue;
    }
    const std::optional<Digest> key = KeyOfName(name);
    struct stat info;
    if (!key.has_value() || fstatat(dirfd(directory.get()), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!WhyForeign(info).empty()) {
      doomed.push_back(name);
      continue;
    }
    stock.push_back({*key, OnDisk(static_cast<uint64_t>(info.st_size)), ModifiedMs(info)});
  }
  for (const std::string& name : doomed) (void)unlinkat(dirfd(directory.get()), name.c_str(), 0);
  if (!doomed.empty()) LogInfo("exec", "{}: files that no one can use are removed: {}", options_.path, doomed.size());
  return stock;
}

absl::StatusOr<BinaryDirectory::Found> BinaryDirectory::Read(const Digest& key) const {
  const std::string path = PathOf(key);
  // Not to wait for a FIFO that somebody put there.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd && errno == ENOENT) return NotFound("{} is missing", path);
  if (!fd && errno == ELOOP) return DataLoss("it is a symbolic link");
  if (!fd) return ErrnoStatus(errno, "cannot open {}", path);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "cannot look at {}", path);
  if (const std::string why = WhyForeign(info); !why.empty()) return DataLoss("{}", why);
  if (static_cast<uint64_t>(info.st_size) > kFileBytesMax) return DataLoss("it has {} bytes", info.st_size);
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = pread(fd.get(), bytes.data() + filled, bytes.size() - filled, static_cast<off_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "cannot read {}", path);
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  bytes.resize(filled);
  Found found;
  ASSIGN_OR_RETURN(found.result, DecodeBinaryFile(key, bytes));
  found.bytes = OnDisk(filled);
  found.touched_ms = ModifiedMs(info);
  const int64_t now_ms = options_.clock->WallMs();
  if (now_ms - found.touched_ms >= options_.touch_interval / std::chrono::milliseconds(1)) {
    const timespec now = {now_ms / 1000, now_ms % 1000 * 1'000'000};
    const timespec times[2] = {now, now};
    if (futimens(fd.get(), times) == 0) found.touched_ms = now_ms;
  }
  return found;
}

std::optional<CompileResult> BinaryDirectory::Find(const Digest& key) {
  {
    MutexLock lock(&mutex_);
    if (!open_) return std::nullopt;
  }
  absl::StatusOr<Found> found = Read(key);
  MutexLock lock(&mutex_);
  if (found.ok()) {
    Remember({key, found->bytes, found->touched_ms});
    return std::move(found->result);
  }
  const bool missing = found.status().code() == absl::StatusCode::kNotFound;
  // Written by another thread meanwhile: it will be remembered, or is already.
  if (missing && access(PathOf(key).c_str(), F_OK) == 0) return std::nullopt;
  Forget(key);
  if (found.status().code() == absl::StatusCode::kDataLoss) {
    LogWarn("exec", "{} is removed, and its source compiled again: {}", PathOf(key), MessageOf(found.status()));
    (void)unlink(PathOf(key).c_str());
    if (options_.stats != nullptr) ++options_.stats->cache_corrupt;
  } else if (!missing) {
    LogWarn("exec", "{}", MessageOf(found.status()));
  }
  return std::nullopt;
}

void BinaryDirectory::Remove(const Digest& key) {
  MutexLock lock(&mutex_);
  if (!open_) return;
  (void)unlink(PathOf(key).c_str());
  Forget(key);
}

void BinaryDirectory::Insert(const Digest& key, const CompileResult& result) {
  if (result.outcome != tunefarm::v1::OUTCOME_OK || result.artifact == nullptr) return;
  const std::string content = EncodeBinaryFile(key, result);
  const uint64_t bytes = OnDisk(content.size());
  {
    MutexLock lock(&mutex_);
    if (!open_ || index_.count(key) != 0 || bytes > options_.bytes_max || content.size() > kFileBytesMax) return;
    if (!MayWrite(bytes)) return;
    MakeRoom(bytes, 1);
  }
  const absl::Status written = WriteFileAtomically(PathOf(key), content, 0600);
  MutexLock lock(&mutex_);
  if (!written.ok()) {
    Rest(written);
    return;
  }
  warned_ = false;
  Remember({key, bytes, options_.clock->WallMs()});
  MakeRoom(0, 0);
}

bool BinaryDirectory::MayWrite(uint64_t bytes) {
  if (rests_until_.has_value() && options_.clock->Now() < *rests_until_) return false;
  rests_until_.reset();
  if (options_.free_bytes_min == 0) return true;
  const absl::StatusOr<uint64_t> free = FreeBytes(options_.path);
  if (!free.ok() || *free >= options_.free_bytes_min + bytes) return true;
  Rest(ResourceExhausted("only {} bytes are free there, and {} are kept free", *free, options_.free_bytes_min));
  return false;
}

void BinaryDirectory::Rest(const absl::Status& status) {
  rests_until_ = options_.clock->Now() + options_.rest_after_failure;
  if (std::exchange(warned_, true)) return;
  LogWarn("exec", "compiled binaries are not kept in {} for now: {}", options_.path, MessageOf(status));
}

void BinaryDirectory::Remember(const Entry& entry) {
  Forget(entry.key);
  entries_.push_front(entry);
  index_[entry.key] = entries_.begin();
  bytes_ += entry.bytes;
  PublishSize();
}

void BinaryDirectory::Forget(const Digest& key) {
  const auto found = index_.find(key);
  if (found == index_.end()) return;
  bytes_ -= found->second->bytes;
  entries_.erase(found->second);
  index_.erase(found);
  PublishSize();
}

void BinaryDirectory::MakeRoom(uint64_t bytes, size_t files) {
  while (!entries_.empty() && (bytes_ + bytes > options_.bytes_max || entries_.size() + files > options_.files_max)) {
    const Digest oldest = entries_.back().key;
    (void)unlink(PathOf(oldest).c_str());
    Forget(oldest);
    if (options_.stats != nullptr) ++options_.stats->cache_evictions;
  }
}

void BinaryDirectory::PublishSize() {
  if (options_.stats != nullptr) options_.stats->cache_bytes = static_cast<int64_t>(bytes_);
}

uint64_t BinaryDirectory::bytes() const {
  MutexLock lock(&mutex_);
  return bytes_;
}

size_t BinaryDirectory::files() const {
  MutexLock lock(&mutex_);
  return entries_.size();
}

bool BinaryDirectory::writes() const {
  MutexLock lock(&mutex_);
  return open_ && (!rests_until_.has_value() || options_.clock->Now() >= *rests_until_);
}

}  // namespace tunefarm
