// DataFileFolder: data files and uploads as files of one folder: their names, attributes and bytes. Which there are,
// who may have how much, and whose turn it is to write is DataFileStore's.
//
// A file arrives in parts, in order, as DIGEST.part. With the last part its digest is checked; then it is synced, made
// read-only and renamed to DIGEST: a file of that name is whole, whatever dies when. Uploads to which nothing was added
// for a day go at a start. The owner of a file and its size when it is whole are kept in the attributes
// user.tunefarm.owner and user.tunefarm.bytes, on file systems that have such.
//
// Thread-safe, as long as one call at a time changes a file. Errors: the file system's; ResourceExhausted
// (DATA_FILE_QUOTA) where the disk is full, or as full as it may be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/base/unique_fd.h"

namespace tunefarm {

struct DataFilePart {
  std::string_view owner;  // whose file it is if it is new; empty: nobody's in particular
  std::string digest;      // of the whole, 64 lower-case hexadecimal digits
  int64_t total_bytes = 0;
  int64_t offset = 0;
  std::string_view bytes;
};

struct DataFileProgress {
  bool is_whole = false;
  int64_t received_bytes = 0;  // from the start on
};

class DataFileFolder {
 public:
  static constexpr int64_t kFileBytesMax = int64_t{2} << 30;
  static constexpr size_t kOwnerBytesMax = 256;

  struct Entry {
    std::string digest;
    bool is_upload = false;
    int64_t bytes = 0;        // on the disk
    int64_t total_bytes = 0;  // 0: not known, on a file system without attributes
    int64_t modified_ms = 0;  // wall clock
    std::string owner;
  };

  // Made if missing. So much of its file system stays free. FailedPrecondition where it is another user's or others may
  // write to it. The clock outlives it.
  static absl::StatusOr<DataFileFolder> Open(std::string path, int64_t free_bytes_min, Clock* clock);

  // All there is, once uploads that nobody goes on with and files that were cut are removed.
  absl::StatusOr<std::vector<Entry>> TakeStock() const;
  // To be read. NotFound where there is none of so many bytes; another one is removed.
  absl::StatusOr<UniqueFd> OpenWhole(const std::string& digest, int64_t bytes) const;
  // Fewer bytes than asked for: the file ends.
  absl::StatusOr<std::string> Read(int fd, int64_t offset, size_t bytes_max) const;
  // It is used now. False: that cannot be written down.
  bool Touch(int fd) const;
  // Adds what is not there yet to the upload that has `received` bytes: how much of it there is now. InvalidArgument
  // (DATA_FILE_INVALID): all is there, and has another digest.
  absl::StatusOr<DataFileProgress> Append(const DataFilePart& part, int64_t received) const;
  void RemoveWhole(const std::string& digest) const;
  void RemoveUpload(const std::string& digest) const;

  // How much may be written; negative where less is free than is to stay.
  absl::StatusOr<int64_t> BytesToUse() const;
  absl::Status CheckRoom(int64_t bytes) const;

 private:
  DataFileFolder(std::string path, int64_t free_bytes_min, Clock* clock)
      : path_(std::move(path)), free_bytes_min_(free_bytes_min), clock_(clock) {}

  std::string PathOf(const std::string& digest) const { return path_ + "/" + digest; }
  std::string UploadOf(const std::string& digest) const { return PathOf(digest) + ".part"; }
  // An upload becomes a whole file.
  absl::Status Complete(const DataFilePart& part, int fd) const;

  std::string path_;
  int64_t free_bytes_min_;
  Clock* clock_;
};

}  // namespace tunefarm
