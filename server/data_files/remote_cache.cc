// The format of a file:
//
//   8 bytes   "TFRC001\n"
//   8 bytes   XXH3 of all that follows
//   12 bytes  the lengths of owner, cache and key
//   then owner, cache, key, and the data to the end
//
// Numbers are in the machine's byte order: the file never leaves it. Its name is the group and the digest, in
// hexadecimal digits.
#include "server/data_files/remote_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>

#include "server/base/file.h"
#include "server/base/format.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/unique_fd.h"

namespace tunefarm {
namespace {

constexpr char kMagic[8] = {'T', 'F', 'R', 'C', '0', '0', '1', '\n'};
constexpr size_t kHeadBytes = sizeof(kMagic) + sizeof(uint64_t);
// Of owner, cache and key together; CacheApi accepts less.
constexpr size_t kIdBytesMax = 4096;
constexpr size_t kFileBytesMax = kHeadBytes + 3 * sizeof(uint32_t) + kIdBytesMax + RemoteCache::kEntryBytesMax;
constexpr std::string_view kTemporary = "new-";  // the prefix of files that are being written
constexpr size_t kGroupDigits = 16;
constexpr int64_t kBlock = 4096;
constexpr int64_t kTouchMs = 60'000;

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

int64_t OnDisk(size_t bytes) { return (static_cast<int64_t>(bytes) + kBlock - 1) / kBlock * kBlock; }

int64_t Milliseconds(const timespec& time) { return int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000; }

timespec TimeOf(int64_t ms) { return {ms / 1000, ms % 1000 * 1'000'000}; }

std::string Encode(const RemoteCache::Id& id, std::string_view data) {
  std::string file(kHeadBytes, '\0');
  for (const std::string* part : {&id.owner, &id.cache, &id.key}) {
    const auto bytes = static_cast<uint32_t>(part->size());
    file.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
  }
  file.reserve(file.size() + id.owner.size() + id.cache.size() + id.key.size() + data.size());
  file.append(id.owner).append(id.cache).append(id.key).append(data);
  const uint64_t checksum = Xxh3(std::string_view(file).substr(kHeadBytes));
  std::memcpy(file.data(), kMagic, sizeof(kMagic));
  std::memcpy(file.data() + sizeof(kMagic), &checksum, sizeof(checksum));
  return file;
}

// Returns the data and sets the id. DataLoss, which says what is wrong.
absl::StatusOr<std::string> Decode(std::string_view file, RemoteCache::Id* id) {
  if (file.size() < kHeadBytes + 3 * sizeof(uint32_t)) return DataLoss("it has only {} bytes", file.size());
  if (std::memcmp(file.data(), kMagic, sizeof(kMagic)) != 0) return DataLoss("it does not begin as a cache entry");
  uint64_t checksum = 0;
  std::memcpy(&checksum, file.data() + sizeof(kMagic), sizeof(checksum));
  file.remove_prefix(kHeadBytes);
  if (checksum != Xxh3(file)) return DataLoss("its checksum is wrong");
  uint32_t lengths[3];
  std::memcpy(lengths, file.data(), sizeof(lengths));
  file.remove_prefix(sizeof(lengths));
  std::string* const parts[3] = {&id->owner, &id->cache, &id->key};
  for (int i = 0; i < 3; ++i) {
    if (lengths[i] > file.size()) return DataLoss("it ends within its id");
    *parts[i] = file.substr(0, lengths[i]);
    file.remove_prefix(lengths[i]);
  }
  return std::string(file);
}

// The whole file. Does not change the access time where `fd` was opened with O_NOATIME.
absl::StatusOr<std::string> ReadAll(int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "cannot look at it");
  if (!S_ISREG(info.st_mode)) return DataLoss("it is no regular file");
  if (info.st_size > static_cast<off_t>(kFileBytesMax)) return DataLoss("it has {} bytes", info.st_size);
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = pread(fd, bytes.data() + filled, bytes.size() - filled, static_cast<off_t>(filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "cannot read it");
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

// Writes a new file with this modification and access time.
absl::Status WriteNew(const std::string& path, std::string_view bytes, int64_t written_ms) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return ErrnoStatus(errno, "cannot make {}", path);
  while (!bytes.empty()) {
    const ssize_t written = write(fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "cannot write {}", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  const timespec times[2] = {TimeOf(written_ms), TimeOf(written_ms)};
  if (futimens(fd.get(), times) != 0) return ErrnoStatus(errno, "cannot set the times of {}", path);
  return absl::OkStatus();
}

}  // namespace

uint64_t RemoteCache::Name::GroupOf(std::string_view owner, std::string_view cache) {
  return Xxh3(fmt::format("{}:{}{}", owner.size(), owner, cache));
}

RemoteCache::Name RemoteCache::Name::Of(const Id& id) {
  return {GroupOf(id.owner, id.cache),
          Sha256(fmt::format("{}:{}{}:{}{}", id.owner.size(), id.owner, id.cache.size(), id.cache, id.key))};
}

std::optional<RemoteCache::Name> RemoteCache::Name::Parse(std::string_view text) {
  if (text.size() <= kGroupDigits) return std::nullopt;
  Name name;
  const char* const end = text.data() + kGroupDigits;
  const auto [at, error] = std::from_chars(text.data(), end, name.group, 16);
  const auto digest = Digest::FromHex(text.substr(kGroupDigits));
  if (error != std::errc() || at != end || !digest.ok()) return std::nullopt;
  name.digest = *digest;
  return name.Text() == text ? std::make_optional(name) : std::nullopt;
}

std::string RemoteCache::Name::Text() const { return fmt::format("{:016x}{}", group, digest.Hex()); }

int64_t RemoteCache::Name::Tie() const {
  int64_t tie = 0;
  std::memcpy(&tie, digest.bytes.data(), sizeof(tie));
  return tie;
}

absl::StatusOr<std::unique_ptr<RemoteCache>> RemoteCache::Open(RemoteCacheOptions options) {
  RETURN_IF_ERROR(MakeOwnDirectory(options.path));
  std::unique_ptr<RemoteCache> cache(new RemoteCache(std::move(options)));
  ASSIGN_OR_RETURN(std::list<File> stock, cache->TakeStock());
  // The one that was used longest ago first, so that the newest ends in front.
  stock.sort([](const File& a, const File& b) { return a.touched_ms < b.touched_ms; });
  MutexLock lock(&cache->mutex_);
  for (const File& file : stock) cache->Remember(file);
  cache->MakeRoom(0, 0);  // where the limits are lower than before
  return cache;
}

absl::StatusOr<std::list<RemoteCache::File>> RemoteCache::TakeStock() const {
  const std::unique_ptr<DIR, CloseDirectory> directory(opendir(options_.path.c_str()));
  if (directory == nullptr) return ErrnoStatus(errno, "cannot list {}", options_.path);
  std::list<File> stock;
  std::vector<std::string> unfinished;
  while (const dirent* listed = readdir(directory.get())) {
    const std::string_view text = listed->d_name;
    const std::optional<Name> name = Name::Parse(text);
    struct stat info;
    if (text.substr(0, kTemporary.size()) == kTemporary) {
      unfinished.emplace_back(text);
    } else if (name.has_value() && fstatat(dirfd(directory.get()), listed->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
               S_ISREG(info.st_mode)) {
      const int64_t written_ms = Milliseconds(info.st_mtim);
      stock.push_back({*name, OnDisk(static_cast<size_t>(info.st_size)), written_ms,
                       std::max(written_ms, Milliseconds(info.st_atim)), 0});
    }
  }
  for (const std::string& text : unfinished) (void)unlinkat(dirfd(directory.get()), text.c_str(), 0);
  return stock;
}

std::string RemoteCache::PathOf(const Name& name) const { return fmt::format("{}/{}", options_.path, name.Text()); }

std::optional<RemoteCache::Entry> RemoteCache::Find(const std::vector<std::string>& owners, const std::string& cache,
                                                    const std::string& key) {
  std::optional<Entry> entry;
  for (const std::string& owner : owners) {
    entry = Use(Name::Of({owner, cache, key}));
    if (entry.has_value()) break;
  }
  MutexLock lock(&mutex_);
  ++(entry.has_value() ? hits_ : misses_);
  return entry;
}

std::optional<RemoteCache::Entry> RemoteCache::Use(const Name& name) {
  File file;
  {
    MutexLock lock(&mutex_);
    const auto found = index_.find(name.digest);
    if (found == index_.end()) return std::nullopt;
    files_.splice(files_.begin(), files_, found->second);
    file = *found->second;
  }
  Id of_file;
  return Read(file, &of_file, true);
}

std::optional<RemoteCache::Entry> RemoteCache::Read(const File& file, Id* id, bool is_use) {
  const std::string path = PathOf(file.name);
  // O_NONBLOCK does not wait for the writer of a FIFO. O_NOATIME: the access time is that of the last use.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOATIME));
  const absl::StatusOr<std::string> content = fd ? ReadAll(fd.get()) : ErrnoStatus(errno, "cannot open it");
  absl::StatusOr<std::string> data = content.ok() ? Decode(*content, id) : content.status();
  if (data.ok() && Name::Of(*id).digest != file.name.digest) data = DataLoss("it holds the entry of another key");
  if (!data.ok()) {
    // Where the process has no descriptor left, nothing is known of the file.
    if (!absl::IsResourceExhausted(data.status())) RemoveDamaged(file, data.status());
    return std::nullopt;
  }
  const int64_t now_ms = options_.clock->WallMs();
  const timespec times[2] = {TimeOf(now_ms), {0, UTIME_OMIT}};
  if (is_use && now_ms - file.touched_ms >= kTouchMs && futimens(fd.get(), times) == 0) {
    MutexLock lock(&mutex_);
    if (const auto found = index_.find(file.name.digest); found != index_.end()) found->second->touched_ms = now_ms;
  }
  return Entry{std::move(id->key), *std::move(data), file.written_ms};
}

void RemoteCache::RemoveDamaged(const File& file, const absl::Status& why) {
  MutexLock lock(&mutex_);
  const auto found = index_.find(file.name.digest);
  // A later Put replaced it, or it was removed to make room.
  if (found == index_.end() || found->second->serial != file.serial) return;
  LogWarn("data", "the cache entry {} is removed: {}", PathOf(file.name), MessageOf(why));
  (void)unlink(PathOf(file.name).c_str());
  Forget(file.name.digest);
  ++damaged_;
}

absl::Status RemoteCache::Put(const Id& id, std::string_view data) {
  if (data.size() > kEntryBytesMax) {
    return InvalidArgument("the entry has {} bytes; one has at most {}", data.size(), kEntryBytesMax);
  }
  if (const size_t bytes = id.owner.size() + id.cache.size() + id.key.size(); bytes > kIdBytesMax) {
    return InvalidArgument("the entry's owner, cache and key have {} bytes together; at most {} are allowed", bytes,
                           kIdBytesMax);
  }
  const std::string content = Encode(id, data);
  File file;
  file.name = Name::Of(id);
  file.bytes = OnDisk(content.size());
  file.written_ms = file.touched_ms = options_.clock->WallMs();
  file.serial = ++last_serial_;
  RETURN_IF_ERROR(CheckRoom(file.bytes));
  const std::string fresh = fmt::format("{}/{}{}", options_.path, kTemporary, file.serial);
  absl::Status written = WriteNew(fresh, content, file.written_ms);
  if (written.ok()) {
    MutexLock lock(&mutex_);
    if (rename(fresh.c_str(), PathOf(file.name).c_str()) == 0) {
      Remember(file);
      MakeRoom(0, 0);  // several were written at once
      return absl::OkStatus();
    }
    written = ErrnoStatus(errno, "cannot rename {}", fresh);
  }
  (void)unlink(fresh.c_str());
  return written;
}

absl::Status RemoteCache::CheckRoom(int64_t bytes) {
  int64_t missing = 0;
  if (options_.free_bytes_min > 0) {
    ASSIGN_OR_RETURN(const uint64_t free, options_.free_bytes(options_.path));
    missing = options_.free_bytes_min + bytes - static_cast<int64_t>(free);
  }
  MutexLock lock(&mutex_);
  if (bytes <= options_.bytes_max && missing <= bytes_) {
    MakeRoom(bytes, missing);
    return absl::OkStatus();
  }
  return ResourceExhausted(
      "there is no room for a cache entry of {}: all entries may have {}, and {} stay free on the disk",
      FormatBytes(static_cast<uint64_t>(bytes)), FormatBytes(static_cast<uint64_t>(options_.bytes_max)),
      FormatBytes(static_cast<uint64_t>(options_.free_bytes_min)));
}

void RemoteCache::MakeRoom(int64_t bytes, int64_t missing) {
  const size_t entries_max = options_.entries_max - (bytes > 0 ? 1 : 0);
  while (!files_.empty() && (bytes_ + bytes > options_.bytes_max || files_.size() > entries_max || missing > 0)) {
    const File oldest = files_.back();
    (void)unlink(PathOf(oldest.name).c_str());
    Forget(oldest.name.digest);
    missing -= oldest.bytes;
    ++removed_;
  }
}

RemoteCache::Page RemoteCache::List(const std::vector<std::string>& owners, std::string_view cache, size_t entries_max,
                                    size_t bytes_max, std::optional<Position> after) {
  std::vector<uint64_t> groups;
  for (const std::string& owner : owners) groups.push_back(Name::GroupOf(owner, cache));
  const auto is_before = [](const File& a, int64_t written_ms, int64_t tie) {
    return a.written_ms != written_ms ? a.written_ms > written_ms : a.name.Tie() < tie;
  };
  std::vector<File> files;
  {
    MutexLock lock(&mutex_);
    for (const File& file : files_) {
      if (std::find(groups.begin(), groups.end(), file.name.group) == groups.end()) continue;
      const bool is_passed =
          after.has_value() && (is_before(file, after->written_ms, after->tie) ||
                                (file.written_ms == after->written_ms && file.name.Tie() == after->tie));
      if (!is_passed) files.push_back(file);
    }
  }
  std::sort(files.begin(), files.end(),
            [&](const File& a, const File& b) { return is_before(a, b.written_ms, b.name.Tie()); });
  Page page;
  size_t bytes = 0;
  for (const File& file : files) {
    if (page.entries.size() == entries_max) return page;
    Id id;
    std::optional<Entry> entry = Read(file, &id, false);
    // Groups are checksums: another cache or owner may have the same one.
    const bool is_meant =
        entry.has_value() && id.cache == cache && std::find(owners.begin(), owners.end(), id.owner) != owners.end();
    if (is_meant && !page.entries.empty() && bytes + entry->data.size() > bytes_max) return page;
    page.last = Position{file.written_ms, file.name.Tie()};
    if (!is_meant) continue;
    bytes += entry->data.size();
    page.entries.push_back(*std::move(entry));
  }
  page.last.reset();
  return page;
}

void RemoteCache::Remember(const File& file) {
  Forget(file.name.digest);
  files_.push_front(file);
  index_[file.name.digest] = files_.begin();
  bytes_ += file.bytes;
}

void RemoteCache::Forget(const Digest& digest) {
  const auto found = index_.find(digest);
  if (found == index_.end()) return;
  bytes_ -= found->second->bytes;
  files_.erase(found->second);
  index_.erase(found);
}

RemoteCache::Counts RemoteCache::counts() const {
  MutexLock lock(&mutex_);
  return {static_cast<int64_t>(files_.size()), bytes_, hits_, misses_, removed_, damaged_};
}

}  // namespace tunefarm
