#include "client/cli/data/upload.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "server/base/format.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread.h"

namespace tunefarm::cli {
namespace {

using DataFiles = v1::DataFileService::StubInterface;

// Smaller ones are sent before anybody wonders.
constexpr int64_t kToldBytesMin = 8 << 20;
constexpr int64_t kTenthsToldBytesMin = 256 << 20;
// How often an upload may be set back: by a part that others began with other bytes, or by a daemon that needed space.
constexpr int kSetbacksMax = 5;
// A daemon that restarts, or a rate that is used up.
constexpr int kWaitsMax = 30;
constexpr Duration kUploadWait = std::chrono::milliseconds(500);
constexpr Duration kPartPatience = std::chrono::seconds(60);
// The daemon reads and syncs the whole file before it answers.
constexpr Duration kLastPartPatience = std::chrono::minutes(10);

// One upload. Once.
class Uploader {
 public:
  Uploader(Session* session, Connection* connection, const DescribedFile& described)
      : session_(*session), files_(connection->data_files()), file_(described.file), digest_(described.digest) {}

  absl::Status Run() {
    v1::GetDataFileRequest request;
    request.set_digest(digest_);
    ASSIGN_OR_RETURN(const v1::GetDataFileResponse known, Connection::Call(files_, &DataFiles::GetDataFile, request));
    if (known.is_whole()) return absl::OkStatus();
    offset_ = known.received_bytes();
    if (file_.bytes() >= kToldBytesMin) {
      const std::string from =
          offset_ > 0 ? fmt::format(", from {} on", FormatBytes(static_cast<uint64_t>(offset_))) : "";
      session_.Note(
          fmt::format("Uploading {}: {}{}", file_.name(), FormatBytes(static_cast<uint64_t>(file_.bytes())), from));
    }
    while (!is_whole_) RETURN_IF_ERROR(SendPart());
    return absl::OkStatus();
  }

 private:
  absl::Status SendPart() {
    // The last part is what makes a file whole.
    if (offset_ < 0 || offset_ >= file_.bytes()) {
      offset_ = (file_.bytes() - 1) / OpenDataFile::kPartBytes * OpenDataFile::kPartBytes;
    }
    const int64_t sent_from = offset_;
    v1::UploadDataFileRequest request;
    request.set_digest(digest_);
    request.set_total_bytes(file_.bytes());
    request.set_offset(sent_from);
    ASSIGN_OR_RETURN(*request.mutable_part(), file_.Part(sent_from));
    const absl::StatusOr<v1::UploadDataFileResponse> response =
        Connection::Call(files_, &DataFiles::UploadDataFile, request,
                         sent_from + OpenDataFile::kPartBytes < file_.bytes() ? kPartPatience : kLastPartPatience);
    if (!response.ok()) {
      if (MayPass(response.status())) return Wait(response.status());
      const bool is_refused = ReasonOf(response.status()) == "DATA_FILE_INVALID";
      if (!is_refused) return Annotate(response.status(), "{}", file_.name());
      // The daemon has dropped what it had. Unless the file has changed, others had sent other bytes.
      ASSIGN_OR_RETURN(const std::string digest, file_.Digest());
      if (digest != digest_) return file_.Changed();
      offset_ = 0;
    } else {
      waits_ = 0;
      is_whole_ = response->is_whole();
      offset_ = response->received_bytes();
    }
    TellTenth();
    if (is_whole_ || offset_ > sent_from) return absl::OkStatus();
    if (++setbacks_ <= kSetbacksMax) return absl::OkStatus();
    return Aborted("{}: the daemon dropped what was uploaded of it {} times; it may be short of space", file_.name(),
                   setbacks_);
  }

  static bool MayPass(const absl::Status& status) {
    return absl::IsUnavailable(status) || ReasonOf(status) == "RATE_LIMIT";
  }

  absl::Status Wait(const absl::Status& status) {
    if (++waits_ > kWaitsMax) {
      return Annotate(status, "{} is uploaded in part; repeat the command to continue", file_.name());
    }
    Notification().WaitFor(kUploadWait);
    return absl::OkStatus();
  }

  void TellTenth() {
    const int64_t tenth = is_whole_ ? 10 : offset_ * 10 / file_.bytes();
    if (file_.bytes() < kTenthsToldBytesMin || tenth <= tenth_told_) return;
    tenth_told_ = tenth;
    session_.Note(fmt::format("  {} %", tenth * 10));
  }

  const Session& session_;
  DataFiles* const files_;
  const OpenDataFile& file_;
  const std::string& digest_;
  int64_t offset_ = 0;  // of the next part
  bool is_whole_ = false;
  int setbacks_ = 0;
  int waits_ = 0;  // in a row
  int64_t tenth_told_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<DescribedFile>> DescribeData(Session* session, const DataOptions& options,
                                                        KernelArgument* kernel) {
  if (!kernel->definition.has_value()) {
    if (options.empty()) return std::vector<DescribedFile>();
    ASSIGN_OR_RETURN(Connection* const connection, session->connection());
    v1::GetKernelRequest request;
    request.set_name(kernel->name);
    request.set_include_sources(true);
    ASSIGN_OR_RETURN(v1::GetKernelResponse response,
                     Connection::Call(connection->kernels(), &v1::KernelService::StubInterface::GetKernel, request));
    kernel->definition = std::move(*response.mutable_kernel());
    kernel->definition->clear_name();
    kernel->definition->clear_program_digest();
  }
  return DescribeDataFiles(&*kernel->definition, kernel->folder(), options);
}

absl::Status UploadDataFiles(Session* session, const std::vector<DescribedFile>& files) {
  if (files.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  for (const DescribedFile& file : files) RETURN_IF_ERROR(Uploader(session, connection, file).Run());
  return absl::OkStatus();
}

absl::StatusOr<v1::Job> CreateJob(Session* session, const std::vector<DescribedFile>& files,
                                  const v1::CreateJobRequest& request) {
  ASSIGN_OR_RETURN(Connection* const connection, session->connection());
  ASSIGN_OR_RETURN(v1::CreateJobResponse response, CallWithData(session, files, [&] {
                     return Connection::Call(connection->tuning(), &v1::TuningService::StubInterface::CreateJob,
                                             request, Connection::kSpaceTimeout);
                   }));
  return std::move(*response.mutable_job());
}

}  // namespace tunefarm::cli
