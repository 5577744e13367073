#include "server/agent/agent_data_files.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/definition/data_file.h"

namespace tunefarm {

namespace wire = tunefarm::agent::v1;

namespace {

constexpr Duration kCallDeadline = std::chrono::seconds(20);

}  // namespace

void AgentDataFiles::Open(const tunefarm::v1::Kernel& kernel, Done done) {
  std::vector<Wanted> files;
  for (const NamedDataFile& named : DataFilesOf(kernel)) {
    files.push_back({named.file->digest(), named.file->bytes(), NameOf(*named.file)});
  }
  if (controls_ == nullptr) return done(OpenAll(files));
  MutexLock lock(&mutex_);
  if (ended_) return;
  calls_->Post([this, files = std::move(files), done = std::move(done)] { done(OpenAll(files)); });
}

void AgentDataFiles::End() {
  if (controls_ != nullptr) controls_->Cancel();
  MutexLock lock(&mutex_);
  ended_ = true;
}

absl::StatusOr<std::vector<DataFileHandle>> AgentDataFiles::OpenAll(const std::vector<Wanted>& files) {
  std::vector<DataFileHandle> handles;
  for (const Wanted& file : files) {
    ASSIGN_OR_RETURN(const OpenDataFile open, OpenOne(file));
    if (open.bytes != file.bytes) {
      return Internal("the data file '{}' ({}) has {} bytes, and the kernel says {}", file.name, file.digest,
                      open.bytes, file.bytes);
    }
    handles.push_back({file.digest, open.bytes, open.file});
  }
  return handles;
}

absl::StatusOr<OpenDataFile> AgentDataFiles::OpenOne(const Wanted& file) {
  absl::StatusOr<OpenDataFile> open = store_->OpenFile(file.digest);
  if (!absl::IsNotFound(open.status())) return open;
  if (controls_ == nullptr) {
    return NotFound("the data file '{}' ({}) is not on this daemon: upload it here, by submitting the kernel to it",
                    file.name, file.digest);
  }
  RETURN_IF_ERROR(Fetch(file));
  return store_->OpenFile(file.digest);
}

absl::Status AgentDataFiles::Fetch(const Wanted& file) {
  DataFileProgress progress = store_->Find(file.digest);
  while (!progress.is_whole) {
    // All of it may be there, where the process died before it was checked: any part then makes it whole.
    const int64_t offset = std::min(progress.received_bytes, file.bytes - 1);
    ASSIGN_OR_RETURN(const wire::FetchDataFileResponse response, FetchPart(file, offset));
    if (response.total_bytes() != file.bytes || response.part().empty()) {
      return Internal("control answers with {} of {} bytes at {} of the data file '{}' ({}), which has {}",
                      response.part().size(), response.total_bytes(), offset, file.name, file.digest, file.bytes);
    }
    DataFilePart part;
    part.digest = file.digest;
    part.total_bytes = file.bytes;
    part.offset = offset;
    part.bytes = response.part();
    absl::StatusOr<DataFileProgress> written = store_->Write(part);
    if (ReasonOf(written.status()) == "DATA_FILE_INVALID") {
      return Internal(
          "the data file '{}' ({}) is damaged on the control daemon at {}: its content has another digest; delete it "
          "from data_files/ there while that daemon is down, and submit the kernel again",
          file.name, file.digest, controls_->address());
    }
    if (!written.ok()) {
      return Annotate(written.status(), "the data file '{}' ({}) cannot be kept on this machine", file.name,
                      file.digest);
    }
    progress = *written;
  }
  return absl::OkStatus();
}

absl::StatusOr<wire::FetchDataFileResponse> AgentDataFiles::FetchPart(const Wanted& file, int64_t offset) {
  wire::FetchDataFileRequest request;
  request.set_digest(file.digest);
  request.set_offset(offset);
  std::string lacking;  // addresses
  absl::Status away;
  for (size_t i = 0; i < controls_->size(); ++i) {
    absl::StatusOr<wire::FetchDataFileResponse> response =
        controls_->Do([&](ControlChannel& channel) { return channel.FetchDataFile(request, kCallDeadline); });
    if (absl::IsNotFound(response.status())) {
      lacking += (lacking.empty() ? "" : " or at ") + controls_->address();
      controls_->Skip();
    } else if (IsAway(response.status())) {
      away = response.status();
    } else {
      return response;
    }
  }
  if (lacking.empty()) return Unavailable("{}", MessageOf(away));
  return NotFound(
      "the data file '{}' ({}) is not on the control daemon at {}: upload it there, by submitting the kernel to it",
      file.name, file.digest, lacking);
}

}  // namespace tunefarm
