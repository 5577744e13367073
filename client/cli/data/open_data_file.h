// A file with elements of a buffer, open: a .npy file, or under any other name the bare elements. It is read twice, for
// its digest and to be uploaded, and must not change in between.
//
// Any thread, one at a time. Memory does not grow with the file.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/unique_fd.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::cli {

class OpenDataFile {
 public:
  // Bytes of a part: what one call of UploadDataFile carries.
  static constexpr int64_t kPartBytes = 1 << 20;

  // `fd`: a regular file, open for reading; `name`: its path as the user wrote it. InvalidArgument for a damaged .npy
  // file (ParseNpyHeader), an archive (.npz), no elements, and more than 2 GiB.
  static absl::StatusOr<OpenDataFile> Examine(UniqueFd fd, std::string name);

  const std::string& name() const { return name_; }
  int64_t bytes() const { return bytes_; }                  // of the elements
  v1::DataType data_type() const { return data_type_; }     // unspecified: the file does not say
  int64_t element_bytes() const { return element_bytes_; }  // 0: the file does not say
  std::string_view dtype() const { return dtype_; }         // of the .npy header, "f4"; empty: it has none

  // SHA-256 of the elements' bytes, as hexadecimal digits. Reads the whole file; errors as Part's.
  absl::StatusOr<std::string> Digest() const;
  // The elements' bytes from `offset` on, at most kPartBytes; `offset` is below bytes(). InvalidArgument where the file
  // is shorter than it was, or was written since it was opened.
  absl::StatusOr<std::string> Part(int64_t offset) const;
  // What Part says of a file that was written.
  absl::Status Changed() const;

 private:
  OpenDataFile(UniqueFd fd, std::string name, const struct stat& info);

  UniqueFd fd_;
  std::string name_;
  struct stat info_;  // when it was opened
  int64_t offset_ = 0;
  int64_t bytes_ = 0;
  v1::DataType data_type_ = v1::DATA_TYPE_UNSPECIFIED;
  int64_t element_bytes_ = 0;
  std::string_view dtype_;
};

}  // namespace tunefarm::cli
