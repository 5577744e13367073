// Uploads data files to the daemon.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "client/cli/data/definition_data.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/session.h"
#include "server/base/status.h"

namespace tunefarm::cli {

// DescribeDataFiles of what a command names. The definition of a stored kernel is fetched where options change it.
absl::StatusOr<std::vector<DescribedFile>> DescribeData(Session* session, const DataOptions& options,
                                                        KernelArgument* kernel);

// Sends what the daemon lacks of the files, in parts; what an earlier upload of the same content has sent is not sent
// again. Tells the session's user of large ones how far it is. A daemon that is away for a few seconds is waited for.
// InvalidArgument where a file changes meanwhile; ResourceExhausted (DATA_FILE_QUOTA) without space; Unavailable:
// repeating the command continues.
absl::Status UploadDataFiles(Session* session, const std::vector<DescribedFile>& files);

// What `call` answers, which gives the daemon a definition that names the files. Those that the daemon has dropped
// since they were uploaded, because no kernel named them yet, are uploaded once more, and the call is repeated.
template <typename MakeCall>
auto CallWithData(Session* session, const std::vector<DescribedFile>& files, MakeCall call) -> decltype(call()) {
  auto response = call();
  if (response.ok() || files.empty() || ReasonOf(response.status()) != "DATA_FILE_NOT_FOUND") return response;
  if (const absl::Status uploaded = UploadDataFiles(session, files); !uploaded.ok()) return uploaded;
  return call();
}

}  // namespace tunefarm::cli
