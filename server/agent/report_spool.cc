#include "server/agent/report_spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "server/base/check.h"
#include "server/base/failpoint.h"
#include "server/base/file.h"
#include "server/base/hash.h"
#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr std::string_view kMagic = "tunefarm spool 1\n";

struct RecordHead {
  uint32_t bytes = 0;
  uint32_t reserved = 0;
  uint64_t checksum = 0;
};
static_assert(sizeof(RecordHead) == 16);

absl::Status WriteAt(int fd, uint64_t at, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "writing {}", path);
    bytes.remove_prefix(static_cast<size_t>(written));
    at += static_cast<uint64_t>(written);
  }
  return absl::OkStatus();
}

// False: the file ends before.
bool ReadAt(int fd, uint64_t at, char* to, size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = pread(fd, to, bytes, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    at += static_cast<uint64_t>(got);
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

absl::StatusOr<uint64_t> SizeOf(int fd, const std::string& path) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "looking at {}", path);
  return static_cast<uint64_t>(info.st_size);
}

absl::StatusOr<UniqueFd> OpenFile(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus(errno, "opening {}", path);
  RETURN_IF_ERROR(MakePrivate(path));
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReportSpool>> ReportSpool::Open(const std::string& path, uint64_t bytes_max) {
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path));
  ASSIGN_OR_RETURN(const uint64_t size, SizeOf(fd.get(), path));
  std::string magic(kMagic.size(), 0);
  if (size > 0 && (!ReadAt(fd.get(), 0, magic.data(), magic.size()) || magic != kMagic)) {
    // A file shorter than its first line was torn before anything was acknowledged.
    if (size >= kMagic.size()) {
      LogError("agent", "{} is no spool of reports; it is kept as {}.damaged", path, path);
      if (std::rename(path.c_str(), (path + ".damaged").c_str()) != 0) return ErrnoStatus(errno, "renaming {}", path);
    } else if (ftruncate(fd.get(), 0) != 0) {
      return ErrnoStatus(errno, "emptying {}", path);
    }
    ASSIGN_OR_RETURN(fd, OpenFile(path));
  }
  std::unique_ptr<ReportSpool> spool(new ReportSpool(path, std::move(fd), bytes_max));
  RETURN_IF_ERROR(spool->Load());
  return spool;
}

absl::Status ReportSpool::Load() {
  ASSIGN_OR_RETURN(const uint64_t size, SizeOf(fd_.get(), path_));
  if (size == 0) RETURN_IF_ERROR(WriteAt(fd_.get(), 0, kMagic, path_));
  const auto header = ReadRecord(kMagic.size(), size, &begin_);
  if (header.ok()) {
    identity_ = *header;
  } else {
    RETURN_IF_ERROR(CutAt(kMagic.size()));
    RETURN_IF_ERROR(WriteRecord(kMagic.size(), ""));
    begin_ = kMagic.size() + sizeof(RecordHead);
  }
  end_ = read_at_ = begin_;
  uint64_t next = 0;
  while (ReadRecord(end_, size, &next).ok()) end_ = next;
  if (end_ < size && header.ok()) {
    LogWarn("agent", "the last {} bytes of {} are torn and dropped", size - end_, path_);
    RETURN_IF_ERROR(CutAt(end_));
  }
  if (fdatasync(fd_.get()) != 0) return ErrnoStatus(errno, "flushing {}", path_);
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReportSpool::ReadRecord(uint64_t at, uint64_t size, uint64_t* next) const {
  RecordHead head;
  std::string bytes;
  if (at + sizeof(head) > size || !ReadAt(fd_.get(), at, reinterpret_cast<char*>(&head), sizeof(head)) ||
      head.bytes > kRecordBytesMax || at + sizeof(head) + head.bytes > size) {
    return OutOfRange("there is no whole record at byte {} of {}", at, path_);
  }
  bytes.resize(head.bytes);
  if (!ReadAt(fd_.get(), at + sizeof(head), bytes.data(), bytes.size()) || Xxh3(bytes) != head.checksum) {
    return OutOfRange("the record at byte {} of {} is damaged", at, path_);
  }
  *next = at + sizeof(head) + head.bytes;
  return bytes;
}

absl::Status ReportSpool::WriteRecord(uint64_t at, std::string_view bytes) {
  RecordHead head;
  head.bytes = static_cast<uint32_t>(bytes.size());
  head.checksum = Xxh3(bytes);
  std::string record(reinterpret_cast<const char*>(&head), sizeof(head));
  record += bytes;
  RETURN_IF_ERROR(WriteAt(fd_.get(), at, record, path_));
  if (fdatasync(fd_.get()) != 0) return ErrnoStatus(errno, "flushing {}", path_);
  return absl::OkStatus();
}

absl::Status ReportSpool::CutAt(uint64_t size) {
  if (ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) return ErrnoStatus(errno, "cutting {}", path_);
  return absl::OkStatus();
}

absl::Status ReportSpool::SetIdentity(const std::string& identity) {
  if (!empty()) return FailedPrecondition("{} holds reports of agent {}", path_, identity_);
  if (identity == identity_) return absl::OkStatus();
  RETURN_IF_ERROR(CutAt(kMagic.size()));
  RETURN_IF_ERROR(WriteRecord(kMagic.size(), identity));
  identity_ = identity;
  begin_ = read_at_ = end_ = kMagic.size() + sizeof(RecordHead) + identity.size();
  return absl::OkStatus();
}

absl::Status ReportSpool::Append(std::string_view report) {
  if (report.size() > kRecordBytesMax) {
    return InvalidArgument("a report of {} bytes is too large for {}", report.size(), path_);
  }
  if (end_ + sizeof(RecordHead) + report.size() > bytes_max_) {
    return ResourceExhausted("{} is full with {} bytes of reports", path_, end_);
  }
  RETURN_IF_ERROR(Failpoint("agent.spool.before"));
  const absl::Status written = WriteRecord(end_, report);
  if (!written.ok()) {
    CutAt(end_).IgnoreError();  // what was written of it has no end, and is cut at the latest by the next start
    return written;
  }
  PassFailpoint("agent.spool.after");
  end_ += sizeof(RecordHead) + report.size();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ReportSpool::Front(size_t reports_max, uint64_t bytes_max) {
  std::vector<std::string> front;
  front_ends_.clear();
  uint64_t next = read_at_;
  uint64_t bytes = 0;
  while (next < end_ && front.size() < reports_max) {
    absl::StatusOr<std::string> record = ReadRecord(next, end_, &next);
    if (!record.ok() && front.empty()) {
      const uint64_t lost = end_ - read_at_;
      read_at_ = end_ = begin_;
      RETURN_IF_ERROR(CutAt(begin_));
      return DataLoss("{}; {} bytes of reports are dropped, and their trials run again", MessageOf(record.status()),
                      lost);
    }
    if (!record.ok() || (!front.empty() && bytes + record->size() > bytes_max)) break;
    bytes += record->size();
    front.push_back(*std::move(record));
    front_ends_.push_back(next);
  }
  return front;
}

absl::Status ReportSpool::Pop(size_t count) {
  if (count == 0) return absl::OkStatus();
  TUNEFARM_CHECK(count <= front_ends_.size());
  read_at_ = front_ends_[count - 1];
  front_ends_.clear();
  if (!empty()) return absl::OkStatus();
  read_at_ = end_ = begin_;
  return CutAt(begin_);
}

}  // namespace tunefarm
