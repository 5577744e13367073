#include "server/data_files/data_file_store.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "server/base/format.h"
#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

// An upload to which nothing was added for so long may make way for others.
constexpr int64_t kUploadIdleMs = int64_t{10} * 60 * 1000;
constexpr int64_t kTouchMs = 60'000;
constexpr Duration kKeptFor = std::chrono::minutes(2);
constexpr Duration kTurnMax = std::chrono::seconds(10);

absl::Status Invalid(const absl::Status& status) { return WithReason(status, "DATA_FILE_INVALID"); }
absl::Status NoRoom(const absl::Status& status) { return WithReason(status, "DATA_FILE_QUOTA"); }
absl::Status Missing(const std::string& digest) {
  return WithReason(NotFound("there is no data file {}", digest.substr(0, 64)), "DATA_FILE_NOT_FOUND");
}

std::string Size(int64_t bytes) { return FormatBytes(static_cast<uint64_t>(std::max<int64_t>(bytes, 0))); }

}  // namespace

absl::StatusOr<std::unique_ptr<DataFileStore>> DataFileStore::Open(DataFileStoreOptions options) {
  ASSIGN_OR_RETURN(DataFileFolder folder, DataFileFolder::Open(options.path, options.free_bytes_min, options.clock));
  ASSIGN_OR_RETURN(std::vector<DataFileFolder::Entry> entries, folder.TakeStock());
  std::unique_ptr<DataFileStore> store(new DataFileStore(std::move(options), std::move(folder)));
  MutexLock lock(&store->mutex_);
  for (DataFileFolder::Entry& entry : entries) {
    if (entry.is_upload) {
      store->uploads_[entry.digest] = {entry.total_bytes, entry.bytes, entry.modified_ms, std::move(entry.owner),
                                       false};
    } else {
      store->files_[entry.digest] = {entry.bytes, entry.modified_ms, entry.modified_ms, std::move(entry.owner), {}};
    }
  }
  return store;
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
  absl::StatusOr<UniqueFd> fd = folder_.OpenWhole(digest, bytes);
  if (absl::IsNotFound(fd.status())) {
    MutexLock lock(&mutex_);
    if (files_.erase(digest) > 0) LogWarn("data", "{}", MessageOf(fd.status()));
    return Missing(digest);
  }
  RETURN_IF_ERROR(fd.status());
  const int64_t now_ms = options_.clock->WallMs();
  if (now_ms - touched_ms >= kTouchMs && folder_.Touch(fd->get())) touched_ms = now_ms;
  MutexLock lock(&mutex_);
  if (const auto found = files_.find(digest); found != files_.end()) {
    found->second.used_ms = now_ms;
    found->second.touched_ms = touched_ms;
  }
  return OpenDataFile{std::make_shared<const UniqueFd>(*std::move(fd)), bytes};
}

absl::StatusOr<DataFileStore::Piece> DataFileStore::Read(const std::string& digest, int64_t offset) {
  ASSIGN_OR_RETURN(const OpenDataFile open, OpenFile(digest));
  if (offset < 0 || offset > open.bytes) {
    return Invalid(InvalidArgument("the offset is {}, and the data file has {} bytes", offset, open.bytes));
  }
  const int64_t wanted = std::min(kPartBytesMax, open.bytes - offset);
  ASSIGN_OR_RETURN(std::string bytes, folder_.Read(open.file->get(), offset, static_cast<size_t>(wanted)));
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
  if (part.owner.size() > DataFileFolder::kOwnerBytesMax) {
    return Invalid(InvalidArgument("the owner's name is too long"));
  }
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
  const absl::StatusOr<DataFileProgress> progress = folder_.Append(part, received);
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
    folder_.RemoveUpload(part.digest);
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
    folder_.RemoveUpload(part.digest);
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
  return Annotate(folder_.CheckRoom(bytes), "there is no room for a data file of {}", Size(bytes));
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
  if (const absl::StatusOr<int64_t> to_use = folder_.BytesToUse(); to_use.ok()) {
    Remove(nullptr, named, part.total_bytes - *to_use, 0);
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
    if (candidate.is_upload) {
      folder_.RemoveUpload(candidate.digest);
      uploads_.erase(candidate.digest);
    } else {
      folder_.RemoveWhole(candidate.digest);
      files_.erase(candidate.digest);
    }
    bytes -= candidate.bytes;
    ++removed_;
    LogInfo("data", "data file {} makes room for others", candidate.digest);
  }
}

}  // namespace tunefarm
