// Sending a file of recorded results to the daemon.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/connection.h"

namespace tunefarm::cli {

// `about` without content, which goes in pieces. The daemon's errors.
absl::StatusOr<v1::CreateRecordingResponse> UploadRecording(Connection* connection,
                                                            const v1::CreateRecordingRequest& about,
                                                            const std::string& content);

}  // namespace tunefarm::cli
