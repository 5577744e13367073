// DataFileApi: the calls of DataFileService, by which clients upload their own data.
//
// Thread-safe. UploadDataFile blocks on the disk; the last part of a file takes as long as to read and sync it all.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/principal.h"
#include "server/data_files/data_file_store.h"
#include "tunefarm/v1/data_file_service.pb.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm {

class DataFileApi {
 public:
  // `files` outlives it; null: the daemon keeps none, and every call is FailedPrecondition.
  explicit DataFileApi(DataFileStore* files) : files_(files) {}

  // InvalidArgument (DATA_FILE_INVALID) for what is no digest.
  absl::StatusOr<v1::GetDataFileResponse> GetDataFile(const v1::GetDataFileRequest& request);
  // The errors of DataFileStore::Write.
  absl::StatusOr<v1::UploadDataFileResponse> UploadDataFile(const Principal& principal,
                                                            const v1::UploadDataFileRequest& request);

 private:
  DataFileStore* const files_;
};

// Whether all data files of a definition that is about to be stored or run are here, whole. They stay for some minutes,
// until it is stored. InvalidArgument (DATA_FILE_INVALID) for one without a digest or of another size,
// FailedPrecondition (DATA_FILE_NOT_FOUND) for one that is to be uploaded. `files` may be null: there are none.
absl::Status CheckDataFiles(const v1::Kernel& kernel, DataFileStore* files);

}  // namespace tunefarm
