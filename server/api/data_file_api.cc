#include "server/api/data_file_api.h"

#include <fmt/core.h>

#include <optional>

#include "server/api/kernel_api.h"
#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/data_file.h"

namespace tunefarm {
namespace {

absl::Status KeepsNone() {
  return WithReason(FailedPrecondition("this daemon keeps no data files"), "DATA_FILE_NOT_FOUND");
}

}  // namespace

absl::StatusOr<v1::GetDataFileResponse> DataFileApi::GetDataFile(const v1::GetDataFileRequest& request) {
  if (files_ == nullptr) return KeepsNone();
  if (!Digest::FromHex(request.digest()).ok()) {
    return WithReason(
        InvalidArgument("'{}' is no SHA-256; it has 64 lower-case hexadecimal digits", request.digest().substr(0, 80)),
        "DATA_FILE_INVALID");
  }
  const DataFileProgress progress = files_->Find(request.digest());
  v1::GetDataFileResponse response;
  response.set_is_whole(progress.is_whole);
  response.set_received_bytes(progress.received_bytes);
  return response;
}

absl::StatusOr<v1::UploadDataFileResponse> DataFileApi::UploadDataFile(const Principal& principal,
                                                                       const v1::UploadDataFileRequest& request) {
  if (files_ == nullptr) return KeepsNone();
  const std::string owner = KernelOwner(principal);
  DataFilePart part;
  part.owner = owner;
  part.digest = request.digest();
  part.total_bytes = request.total_bytes();
  part.offset = request.offset();
  part.bytes = request.part();
  ASSIGN_OR_RETURN(const DataFileProgress progress, files_->Write(part));
  v1::UploadDataFileResponse response;
  response.set_is_whole(progress.is_whole);
  response.set_received_bytes(progress.received_bytes);
  return response;
}

absl::Status CheckDataFiles(const v1::Kernel& kernel, DataFileStore* files) {
  for (const NamedDataFile& named : DataFilesOf(kernel)) {
    const v1::DataFile& file = *named.file;
    if (file.digest().empty()) {
      return WithReason(InvalidArgument("{}: the file '{}' has no digest: the client that reads the definition uploads "
                                        "the file, and writes its digest into the definition that it sends",
                                        named.field, file.path()),
                        "DATA_FILE_INVALID");
    }
    if (files == nullptr) return Annotate(KeepsNone(), "{}", named.field);
    const std::optional<int64_t> bytes = files->Keep(file.digest());
    if (!bytes.has_value()) {
      const std::string path = file.path().empty() ? "" : fmt::format("'{}' ", file.path());
      return WithReason(
          FailedPrecondition("{}: the data file {}with the digest {} is not on this daemon; name it by its "
                             "path alone (file: \"x.npy\"), so that the client uploads it, or upload it "
                             "(UploadDataFile)",
                             named.field, path, file.digest()),
          "DATA_FILE_NOT_FOUND");
    }
    if (*bytes != file.bytes()) {
      return WithReason(InvalidArgument("{}: the data file '{}' has {} bytes, and the definition says {}", named.field,
                                        NameOf(file), *bytes, file.bytes()),
                        "DATA_FILE_INVALID");
    }
  }
  return absl::OkStatus();
}

}  // namespace tunefarm
