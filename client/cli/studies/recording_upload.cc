#include "client/cli/studies/recording_upload.h"

namespace tunefarm::cli {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;
// A file of half a gigabyte is read in some ten seconds, and waits for those before it.
constexpr Duration kUploadTimeout = std::chrono::minutes(10);

}  // namespace

absl::StatusOr<v1::CreateRecordingResponse> UploadRecording(Connection* connection,
                                                            const v1::CreateRecordingRequest& about,
                                                            const std::string& content) {
  grpc::ClientContext context;
  context.set_deadline(Connection::Deadline(kUploadTimeout));
  v1::CreateRecordingResponse response;
  const auto writer = connection->recordings()->CreateRecording(&context, &response);
  v1::CreateRecordingRequest message = about;
  size_t at = 0;
  do {
    message.set_content(content.substr(at, kChunkBytes));
    // Refused already: Finish says why.
    if (!writer->Write(message)) break;
    message.Clear();
    at += kChunkBytes;
  } while (at < content.size());
  writer->WritesDone();
  if (const grpc::Status status = writer->Finish(); !status.ok()) return FromGrpc(status);
  return response;
}

}  // namespace tunefarm::cli
