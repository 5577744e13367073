// ReportSpool: reports that control could not take yet, in one file of the agent's data directory. It outlives the
// agent's process: what is found at the next start is sent under the identity that it was measured under, and control
// decides whether it still counts.
//
// The file: a magic line, then records of {length, XXH3 of the bytes, bytes}, little-endian; the first record is the
// header: the identity under which the agent registered. A record that ends early or does not match its checksum cuts
// the file there: everything before it was whole, everything behind it was never acknowledged.
//
// Not thread-safe. Errors name the file; after a failed write the file is as before, as far as the disk allows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/unique_fd.h"

namespace tunefarm {

class ReportSpool {
 public:
  static constexpr uint32_t kRecordBytesMax = 16 << 20;

  // Opens or creates it, and cuts a torn tail. A file that is no spool at all is moved aside to PATH.damaged.
  static absl::StatusOr<std::unique_ptr<ReportSpool>> Open(const std::string& path, uint64_t bytes_max);

  // Of the agent whose reports these are, or were: empty if none has registered yet.
  const std::string& identity() const { return identity_; }
  // From now on. Only while it holds no reports: FailedPrecondition.
  absl::Status SetIdentity(const std::string& identity);

  // On disk when it returns. ResourceExhausted beyond bytes_max.
  absl::Status Append(std::string_view report);

  bool empty() const { return read_at_ == end_; }
  // Of the reports that have not been taken.
  uint64_t bytes() const { return end_ - read_at_; }
  bool full() const { return end_ >= bytes_max_; }
  // The oldest that have not been taken, at most so many and, but for the first, so many bytes; none when empty. They
  // stay until Pop. DataLoss when the disk gave back something else than was written: the rest is dropped then.
  absl::StatusOr<std::vector<std::string>> Front(size_t reports_max, uint64_t bytes_max);
  // The first `count` of what Front answered last. When nothing is left, the file is cut; a process that dies before
  // that sends them again.
  absl::Status Pop(size_t count);

 private:
  ReportSpool(std::string path, UniqueFd fd, uint64_t bytes_max)
      : path_(std::move(path)), fd_(std::move(fd)), bytes_max_(bytes_max) {}
  absl::Status Load();
  absl::Status WriteRecord(uint64_t at, std::string_view bytes);
  // The record at an offset and where the next begins; OutOfRange where no whole one is.
  absl::StatusOr<std::string> ReadRecord(uint64_t at, uint64_t size, uint64_t* next) const;
  absl::Status CutAt(uint64_t size);

  const std::string path_;
  const UniqueFd fd_;
  const uint64_t bytes_max_;
  std::string identity_;
  uint64_t begin_ = 0;    // of the first report
  uint64_t read_at_ = 0;  // of the front
  uint64_t end_ = 0;
  std::vector<uint64_t> front_ends_;  // as Front found them
};

}  // namespace tunefarm
