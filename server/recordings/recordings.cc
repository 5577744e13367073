#include "server/recordings/recordings.h"

#include <algorithm>
#include <charconv>

#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/interchange/gunzip.h"
#include "server/interchange/json_document.h"
#include "server/interchange/recorded_file.h"
#include "server/recordings/recording_columns.h"
#include "server/store/page_token.h"

namespace tunefarm {
namespace {

constexpr std::string_view kPrefix = "recordings/";
constexpr size_t kDisplayNameMax = 128;
constexpr size_t kLabelMax = 256;

std::string NameOf(int64_t recording_id) { return fmt::format("{}{}", kPrefix, recording_id); }

bool IsNameLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

absl::Status CheckDisplayName(std::string_view name) {
  if (name.size() <= kDisplayNameMax && !IsNumber(name) && std::all_of(name.begin(), name.end(), IsNameLetter)) {
    return absl::OkStatus();
  }
  return WithReason(InvalidArgument("a recording's name is 1 to {} of letters, digits, '.', '_' and '-', and no "
                                    "number; '{}' is not",
                                    kDisplayNameMax, name.substr(0, kDisplayNameMax)),
                    "RECORDING_INVALID");
}

// "results" of "results.json.gz"; letters that a name cannot have become '_'.
std::string DisplayNameOf(std::string_view file_name) {
  for (const std::string_view ending : {std::string_view(".gz"), std::string_view(".json")}) {
    if (file_name.size() > ending.size() && file_name.ends_with(ending)) file_name.remove_suffix(ending.size());
  }
  std::string name(file_name.substr(0, kDisplayNameMax - 1));
  for (char& c : name) c = IsNameLetter(c) ? c : '_';
  return IsNumber(name) ? "_" + name : name;
}

absl::Status CheckLabel(std::string_view what, std::string_view text) {
  if (text.size() <= kLabelMax) return absl::OkStatus();
  return WithReason(InvalidArgument("the {} has {} bytes; at most {} are taken", what, text.size(), kLabelMax),
                    "RECORDING_INVALID");
}

// The first message without its content, complete and within limits.
absl::StatusOr<v1::CreateRecordingRequest> CheckAbout(const v1::CreateRecordingRequest& asked) {
  v1::CreateRecordingRequest about = asked;
  about.clear_content();
  std::string_view file_name = about.file_name();
  file_name = file_name.substr(file_name.find_last_of('/') + 1);
  if (file_name.empty()) {
    return WithReason(InvalidArgument("file_name: the first message names the file"), "RECORDING_INVALID");
  }
  RETURN_IF_ERROR(CheckLabel("file's name", file_name));
  about.set_file_name(std::string(file_name));
  if (about.display_name().empty()) about.set_display_name(DisplayNameOf(about.file_name()));
  RETURN_IF_ERROR(CheckDisplayName(about.display_name()));
  RETURN_IF_ERROR(CheckLabel("kernel's name", about.kernel_name()));
  RETURN_IF_ERROR(CheckLabel("problem", about.problem()));
  RETURN_IF_ERROR(CheckLabel("device's name", about.device_name()));
  return about;
}

absl::Status CheckFormat(v1::RecordingFormat asked, v1::RecordingFormat found, std::string_view file_name) {
  if (asked == v1::RECORDING_FORMAT_UNSPECIFIED || asked == found) return absl::OkStatus();
  const bool is_t4 = found == v1::RECORDING_FORMAT_T4;
  return WithReason(
      InvalidArgument("{}:1:1: this is {}, not {}", file_name, is_t4 ? "a T4 file" : "a cache file of Kernel Tuner",
                      is_t4 ? "a cache file of Kernel Tuner" : "a T4 file"),
      interchange::kBadField);
}

RecordingRow RowOf(const v1::Recording& recording, int64_t now_ms) {
  RecordingRow row;
  row.display_name = recording.display_name();
  row.content_digest = recording.content_digest();
  row.kernel_name = recording.kernel_name();
  row.problem = recording.problem();
  row.device_name = recording.device_name();
  row.file_name = recording.file_name();
  row.result_count = recording.result_count();
  row.valid_count = recording.valid_count();
  row.imported_at_ms = now_ms;
  v1::Recording parameters;
  *parameters.mutable_parameters() = recording.parameters();
  row.parameters = parameters.SerializeAsString();
  v1::Recording detail = recording;
  detail.clear_parameters();
  row.detail = detail.SerializeAsString();
  return row;
}

absl::StatusOr<v1::Recording> FromRow(const RecordingRow& row) {
  v1::Recording recording;
  // One message after another: the second adds the parameters.
  if (!recording.ParseFromString(row.detail) || !recording.MergeFromString(row.parameters)) {
    return DataLoss("recording {} cannot be read", row.recording_id);
  }
  recording.set_name(NameOf(row.recording_id));
  recording.set_stored_bytes(row.stored_bytes);
  recording.set_imported_at_ms(row.imported_at_ms);
  return recording;
}

absl::Status WithNotFound(const absl::Status& status) {
  return absl::IsNotFound(status) ? WithReason(status, "RECORDING_NOT_FOUND") : status;
}

}  // namespace

RecordingLimits LimitsOfDatabase(int64_t database_bytes_max) {
  RecordingLimits limits;
  if (database_bytes_max > 0) limits.stored_bytes_max = std::min(limits.stored_bytes_max, database_bytes_max / 8);
  return limits;
}

Recordings::Recordings(RecordingStore* store, Clock* clock, std::function<absl::Status()> check_space,
                       const RecordingLimits& limits)
    : store_(store), clock_(clock), check_space_(std::move(check_space)), limits_(limits) {}

absl::StatusOr<v1::CreateRecordingResponse> Recordings::Create(const v1::CreateRecordingRequest& asked,
                                                               std::string content,
                                                               const std::function<bool()>& is_gone) {
  ASSIGN_OR_RETURN(const v1::CreateRecordingRequest about, CheckAbout(asked));
  if (check_space_) RETURN_IF_ERROR(check_space_());
  PutRecordingRequest put;
  {
    const MutexLock lock(&reading_);
    ASSIGN_OR_RETURN(std::string text,
                     interchange::PlainText(std::move(content), about.file_name(), limits_.unpacked_bytes_max));
    const std::string digest = Sha256(text).Hex();
    RecordingColumns columns;
    ASSIGN_OR_RETURN(const interchange::RecordedFile file,
                     interchange::ReadRecordedRows(std::move(text), about.file_name(),
                                                   [&columns](const auto& read, const interchange::RecordedRow& row) {
                                                     return columns.Add(read, row);
                                                   }));
    v1::Recording recording = columns.Describe(file);
    RETURN_IF_ERROR(CheckFormat(about.format(), recording.format(), about.file_name()));
    recording.set_display_name(about.display_name());
    recording.set_file_name(about.file_name());
    recording.set_content_digest(digest);
    if (!about.kernel_name().empty()) recording.set_kernel_name(about.kernel_name());
    if (!about.problem().empty()) recording.set_problem(about.problem());
    if (!about.device_name().empty()) recording.set_device_name(about.device_name());
    put.recording = RowOf(recording, clock_->WallMs());
    if (const size_t bytes = put.recording.parameters.size(); bytes > kRecordedParametersBytesMax) {
      return WithReason(
          InvalidArgument("{}: the different values of the parameters have {} bytes; at most {} are taken",
                          about.file_name(), bytes, kRecordedParametersBytesMax),
          "RECORDING_TOO_LARGE");
    }
    put.parts = columns.TakeParts();
  }
  if (is_gone && is_gone()) return Cancelled("the client cancelled the upload");
  put.recordings_max = limits_.recordings_max;
  put.bytes_max = limits_.stored_bytes_max;
  ASSIGN_OR_RETURN(const PutRecordingResult stored, store_->PutRecording(put));
  v1::CreateRecordingResponse response;
  ASSIGN_OR_RETURN(*response.mutable_recording(), Get(NameOf(stored.recording_id)));
  response.set_already_stored(stored.was_duplicate);
  return response;
}

absl::StatusOr<int64_t> Recordings::IdOf(const std::string& name) {
  std::string_view number = name;
  if (number.starts_with(kPrefix)) number.remove_prefix(kPrefix.size());
  int64_t id = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id);
  if (name.starts_with(kPrefix) && error == std::errc() && end == number.data() + number.size() && id > 0) return id;
  return WithReason(
      InvalidArgument("'{}' is not the name of a recording; one looks like recordings/3", name.substr(0, kLabelMax)),
      "NAME_INVALID");
}

absl::StatusOr<v1::Recording> Recordings::Get(const std::string& name) {
  absl::StatusOr<RecordingRow> row = absl::UnknownError("not read");
  if (name.starts_with(kPrefix)) {
    ASSIGN_OR_RETURN(const int64_t id, IdOf(name));
    row = store_->GetRecording(id);
  } else {
    row = store_->FindRecording(name);
  }
  if (!row.ok()) return WithNotFound(row.status());
  return FromRow(*row);
}

absl::StatusOr<v1::ListRecordingsResponse> Recordings::List(const v1::ListRecordingsRequest& request) {
  ASSIGN_OR_RETURN(const Page<RecordingRow> page, store_->ListRecordings({request.page_size(), request.page_token()}));
  v1::ListRecordingsResponse response;
  for (const RecordingRow& row : page.rows) {
    ASSIGN_OR_RETURN(*response.add_recordings(), FromRow(row));
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

absl::StatusOr<v1::ListRecordedResultsResponse> Recordings::ListResults(const v1::ListRecordedResultsRequest& request) {
  ASSIGN_OR_RETURN(const int64_t id, IdOf(request.parent()));
  const std::string query = "results of " + NameOf(id);
  ASSIGN_OR_RETURN(const auto after, DecodePageToken(query, request.page_token(), 1));
  absl::StatusOr<RecordingRow> row = store_->GetRecording(id);
  if (!row.ok()) return WithNotFound(row.status());
  ASSIGN_OR_RETURN(const v1::Recording recording, FromRow(*row));
  const int64_t begin = after.has_value() ? (*after)[0] : 0;
  absl::StatusOr<RecordingPart> part = store_->GetRecordingPart(id, begin);
  if (!part.ok()) return WithNotFound(part.status());
  const int first = static_cast<int>(begin - part->first_result);
  int count = part->result_count - first;
  if (request.page_size() > 0) count = std::min(count, request.page_size());
  v1::ListRecordedResultsResponse response;
  ASSIGN_OR_RETURN(*response.mutable_results(), ResultsOfPart(*part, recording.parameters_size(), first, count));
  if (begin + count < row->result_count) response.set_next_page_token(EncodePageToken(query, {begin + count}));
  return response;
}

absl::Status Recordings::Delete(const std::string& name) {
  ASSIGN_OR_RETURN(const int64_t id, IdOf(name));
  return WithNotFound(store_->DeleteRecording(id));
}

RecordingUpload::~RecordingUpload() { recordings_->upload_bytes_.fetch_sub(held_bytes_); }

absl::Status RecordingUpload::Add(v1::CreateRecordingRequest* message) {
  const RecordingLimits& limits = recordings_->limits_;
  const uint64_t bytes = message->content().size();
  if (!has_begun_) {
    ASSIGN_OR_RETURN(about_, CheckAbout(*message));
    has_begun_ = true;
  }
  if (content_.size() + bytes > limits.content_bytes_max) {
    return WithReason(InvalidArgument("{}: more than {} MiB are not taken; gzip the file if it is plain",
                                      about_.file_name(), limits.content_bytes_max >> 20),
                      "RECORDING_TOO_LARGE");
  }
  if (recordings_->upload_bytes_.fetch_add(bytes) + bytes > limits.upload_bytes_max) {
    recordings_->upload_bytes_.fetch_sub(bytes);
    return WithReason(ResourceExhausted("other files are being uploaded; try again when they are through"),
                      "UPLOADS_FULL");
  }
  held_bytes_ += bytes;
  content_ += message->content();
  return absl::OkStatus();
}

absl::StatusOr<v1::CreateRecordingResponse> RecordingUpload::Finish(const std::function<bool()>& is_gone) {
  if (!has_begun_)
    return WithReason(InvalidArgument("file_name: the first message names the file"), "RECORDING_INVALID");
  return recordings_->Create(about_, std::move(content_), is_gone);
}

}  // namespace tunefarm
