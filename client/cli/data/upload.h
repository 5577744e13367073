// Uploads data files to the daemon, for the calls that name them.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/data/definition_data.h"
#include "client/cli/options/kernel_argument.h"
#include "client/cli/session.h"
#include "server/base/status.h"
#include "tunefarm/v1/tuning_service.pb.h"

namespace tunefarm::cli {

// DescribeDataFiles of what a command names. The definition of a stored kernel is fetched where options change it.
absl::StatusOr<std::vector<DescribedFile>> DescribeData(Session* session, const DataOptions& options,
                                                        KernelArgument* kernel);

// Sends what the daemon lacks of the files, in parts; what an earlier upload of the same content has sent is not sent
// again. Tells the session's user of large ones how far it is. A daemon that is away for a few seconds is waited for.
// InvalidArgument where a file changes meanwhile; ResourceExhausted (DATA_FILE_QUOTA) without space; Unavailable:
// repeating the command continues.
absl::Status UploadDataFiles(Session* session, const std::vector<DescribedFile>& files);

// What `call` answers, which gives the daemon a definition that names the files: they are uploaded before it. Those
// that the daemon drops in between, because no kernel names them yet, are uploaded once more, and the call is repeated.
// Errors of UploadDataFiles too.
template <typename MakeCall>
auto CallWithData(Session* session, const std::vector<DescribedFile>& files, MakeCall call) -> decltype(call()) {
  if (const absl::Status uploaded = UploadDataFiles(session, files); !uploaded.ok()) return uploaded;
  auto response = call();
  if (response.ok() || files.empty() || ReasonOf(response.status()) != "DATA_FILE_NOT_FOUND") return response;
  if (const absl::Status uploaded = UploadDataFiles(session, files); !uploaded.ok()) return uploaded;
  return call();
}

// CreateJob of a request whose definition, if it has one, names the files.
absl::StatusOr<v1::Job> CreateJob(Session* session, const std::vector<DescribedFile>& files,
                                  const v1::CreateJobRequest& request);

}  // namespace tunefarm::cli
