#include <set>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/sqlite/operations.h"

namespace tunefarm::sqlite {
namespace {

constexpr int64_t kDedupKeptMs = int64_t{7} * 24 * 60 * 60 * 1000;
constexpr size_t kStudiesMax = 4096;

absl::Status CheckStudies(const std::vector<StudyRow>& studies) {
  if (studies.empty() || studies.size() > kStudiesMax) {
    return InvalidArgument("a job has {} studies; it needs 1 to {}", studies.size(), kStudiesMax);
  }
  std::set<int> numbers;
  for (const StudyRow& study : studies) {
    if (!numbers.insert(study.number).second) return InvalidArgument("study number {} is given twice", study.number);
  }
  return absl::OkStatus();
}

// The job of an earlier submit with this request_id; 0: none.
absl::StatusOr<int64_t> FindDuplicate(Database& database, const SubmitRequest& request) {
  RETURN_IF_ERROR(
      database.Prepare("DELETE FROM request_dedup WHERE created_at_ms <= ?").Bind(request.now_ms - kDedupKeptMs).Run());
  if (request.request_id.empty()) return 0;
  Statement earlier = database.Prepare("SELECT body_digest, job_id FROM request_dedup WHERE request_id = ?");
  ASSIGN_OR_RETURN(const bool found, earlier.Bind(request.request_id).Step());
  if (!found) return 0;
  if (earlier.Bytes(0) != request.body_digest) {
    return WithReason(InvalidArgument("request_id \"{}\" was used for another request (job {}); use a new one",
                                      request.request_id, earlier.Int(1)),
                      "REQUEST_ID_REUSED");
  }
  return earlier.Int(1);
}

absl::Status InsertStudy(Database& database, int64_t job_id, const StudyRow& study) {
  return database
      .Prepare(
          "INSERT INTO study (job_id, number, problem_key, problem, class_id, device_uuid, space_summary, state, "
          "next_ordinal, toolkit) "
          "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .Bind(job_id, study.number, study.problem_key, Blob{study.problem}, study.class_id, study.device_uuid,
            Blob{study.space_summary}, static_cast<int>(StudyState::kSearching), study.next_ordinal, study.toolkit)
      .Run();
}

}  // namespace

absl::StatusOr<SubmitResult> SubmitJob(Database& database, const SubmitRequest& request) {
  ASSIGN_OR_RETURN(const int64_t earlier, FindDuplicate(database, request));
  if (earlier != 0) return SubmitResult{earlier, true};
  const JobRow& job = request.job;
  RETURN_IF_ERROR(CheckStudies(job.studies));
  if (request.kernel.has_value()) RETURN_IF_ERROR(PutKernel(database, *request.kernel));
  // Asked first for the sake of the message; the foreign key would refuse it too.
  RETURN_IF_ERROR(GetKernel(database, job.kernel_id).status());
  RETURN_IF_ERROR(database
                      .Prepare("INSERT INTO job (uid, kernel_id, state, priority, error, created_at_ms) "
                               "VALUES (?, ?, ?, ?, '', ?)")
                      .Bind(job.uid, job.kernel_id, static_cast<int>(JobState::kQueued), job.priority,
                            job.created_at_ms != 0 ? job.created_at_ms : request.now_ms)
                      .Run());
  const int64_t job_id = database.LastInsertId();
  RETURN_IF_ERROR(
      database.Prepare("INSERT INTO job_spec (job_id, spec) VALUES (?, ?)").Bind(job_id, Blob{job.spec}).Run());
  for (const StudyRow& study : job.studies) RETURN_IF_ERROR(InsertStudy(database, job_id, study));
  if (!request.request_id.empty()) {
    RETURN_IF_ERROR(
        database
            .Prepare("INSERT INTO request_dedup (request_id, body_digest, job_id, created_at_ms) VALUES (?, ?, ?, ?)")
            .Bind(request.request_id, request.body_digest, job_id, request.now_ms)
            .Run());
  }
  return SubmitResult{job_id, false};
}

absl::Status PutKernel(Database& database, const KernelRow& kernel) {
  // The id covers the whole content: a row with the same id is the same kernel.
  return database
      .Prepare(
          "INSERT INTO kernel (kernel_id, program_digest, display_name, definition, created_at_ms) "
          "VALUES (?, ?, ?, ?, ?) ON CONFLICT (kernel_id) DO NOTHING")
      .Bind(kernel.kernel_id, kernel.program_digest, kernel.display_name, Blob{kernel.definition}, kernel.created_at_ms)
      .Run();
}

absl::Status PutDevice(Database& database, const DeviceRow& device, const DeviceClassRow& device_class) {
  if (device.class_id != device_class.class_id) {
    return InvalidArgument("device {} is of class {}, but class {} was given with it", device.uuid, device.class_id,
                           device_class.class_id);
  }
  RETURN_IF_ERROR(database
                      .Prepare("INSERT INTO device_class (class_id, display_name, properties) VALUES (?, ?, ?) "
                               "ON CONFLICT (class_id) DO UPDATE SET display_name = excluded.display_name, "
                               "properties = excluded.properties")
                      .Bind(device_class.class_id, device_class.display_name, Blob{device_class.properties})
                      .Run());
  return database
      .Prepare(
          "INSERT INTO device (uuid, class_id, properties, seen_at_ms) VALUES (?, ?, ?, ?) "
          "ON CONFLICT (uuid) DO UPDATE SET class_id = excluded.class_id, properties = excluded.properties, "
          "seen_at_ms = excluded.seen_at_ms")
      .Bind(device.uuid, device.class_id, Blob{device.properties}, device.seen_at_ms)
      .Run();
}

}  // namespace tunefarm::sqlite
