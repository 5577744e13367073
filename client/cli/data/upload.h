// Uploads data files to the daemon.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "client/cli/data/definition_data.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/session.h"

namespace tunefarm::cli {

// DescribeDataFiles of what a command names. The definition of a stored kernel is fetched where options change it.
absl::StatusOr<std::vector<DescribedFile>> DescribeData(Session* session, const DataOptions& options,
                                                        KernelArgument* kernel);

// Sends what the daemon lacks of the files, in parts; what an earlier upload of the same content has sent is not sent
// again. Tells the session's user of large ones how far it is. A daemon that is away for a few seconds is waited for.
// InvalidArgument where a file changes meanwhile; ResourceExhausted (DATA_FILE_QUOTA) without space; Unavailable:
// repeating the command continues.
absl::Status UploadDataFiles(Session* session, const std::vector<DescribedFile>& files);

}  // namespace tunefarm::cli
