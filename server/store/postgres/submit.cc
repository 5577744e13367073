#include <set>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/operations.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
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
absl::StatusOr<int64_t> FindDuplicate(Session& session, const SubmitRequest& request) {
  RETURN_IF_ERROR(
      session.Run("DELETE FROM request_dedup WHERE created_at_ms <= $1", request.now_ms - kDedupKeptMs).status());
  if (request.request_id.empty()) return 0;
  // The same request may come through two daemons at once: one of them waits.
  RETURN_IF_ERROR(session.Run("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", request.request_id).status());
  ASSIGN_OR_RETURN(
      const Rows earlier,
      session.Query("SELECT body_digest, job_id FROM request_dedup WHERE request_id = $1", request.request_id));
  if (earlier.empty()) return 0;
  if (earlier[0].Bytes(0) != request.body_digest) {
    return WithReason(InvalidArgument("request_id \"{}\" was used for another request (job {}); use a new one",
                                      request.request_id, earlier[0].Int(1)),
                      "REQUEST_ID_REUSED");
  }
  return earlier[0].Int(1);
}

absl::Status InsertStudies(Session& session, int64_t job_id, const std::vector<StudyRow>& studies) {
  std::vector<int64_t> numbers, next_ordinals;
  Texts problem_keys, classes, devices, toolkits;
  Blobs problems, summaries;
  for (const StudyRow& study : studies) {
    numbers.push_back(study.number);
    problem_keys.values.push_back(study.problem_key);
    problems.values.push_back(study.problem);
    classes.values.push_back(study.class_id);
    devices.values.push_back(study.device_uuid);
    summaries.values.push_back(study.space_summary);
    next_ordinals.push_back(study.next_ordinal);
    toolkits.values.push_back(study.toolkit);
  }
  return session
      .Run(
          "INSERT INTO study (job_id, number, problem_key, problem, class_id, device_uuid, space_summary, state, "
          "next_ordinal, toolkit) SELECT $1, n.number, n.problem_key, n.problem, n.class_id, n.device_uuid, n.summary, "
          "1, n.next_ordinal, n.toolkit FROM (SELECT * FROM unnest($2, $3, $4, $5, $6, $7, $8, $9) WITH ORDINALITY AS "
          "s(number, problem_key, problem, class_id, device_uuid, summary, next_ordinal, toolkit, place) ORDER BY "
          "place) n",
          job_id, numbers, problem_keys, problems, classes, devices, summaries, next_ordinals, toolkits)
      .status();
}

}  // namespace

absl::StatusOr<SubmitResult> SubmitJob(Session& session, const SubmitRequest& request) {
  ASSIGN_OR_RETURN(const int64_t earlier, FindDuplicate(session, request));
  if (earlier != 0) return SubmitResult{earlier, true};
  const JobRow& job = request.job;
  RETURN_IF_ERROR(CheckStudies(job.studies));
  if (request.kernel.has_value()) RETURN_IF_ERROR(PutKernel(session, *request.kernel));
  // Asked first for the sake of the message; the foreign key would refuse it too.
  ASSIGN_OR_RETURN(const Rows kernel, session.Query("SELECT 1 FROM kernel WHERE kernel_id = $1", job.kernel_id));
  if (kernel.empty()) return NotFound("no kernel has the id {}", job.kernel_id);
  ASSIGN_OR_RETURN(const int64_t job_id,
                   session.QueryInt("INSERT INTO job (uid, kernel_id, state, priority, error, created_at_ms) VALUES "
                                    "($1, $2, 1, $3, '', $4) RETURNING job_id",
                                    job.uid, job.kernel_id, job.priority,
                                    job.created_at_ms != 0 ? job.created_at_ms : request.now_ms));
  RETURN_IF_ERROR(session.Run("INSERT INTO job_spec (job_id, spec) VALUES ($1, $2)", job_id, Blob{job.spec}).status());
  RETURN_IF_ERROR(InsertStudies(session, job_id, job.studies));
  if (!request.request_id.empty()) {
    RETURN_IF_ERROR(session
                        .Run("INSERT INTO request_dedup (request_id, body_digest, job_id, created_at_ms) VALUES ($1, "
                             "$2, $3, $4)",
                             request.request_id, request.body_digest, job_id, request.now_ms)
                        .status());
  }
  return SubmitResult{job_id, false};
}

absl::Status PutKernel(Session& session, const KernelRow& kernel) {
  // The id covers the whole content: a row with the same id is the same kernel.
  return session
      .Run(
          "INSERT INTO kernel (kernel_id, program_digest, display_name, definition, created_at_ms) VALUES ($1, $2, $3, "
          "$4, $5) ON CONFLICT (kernel_id) DO NOTHING",
          kernel.kernel_id, kernel.program_digest, kernel.display_name, Blob{kernel.definition}, kernel.created_at_ms)
      .status();
}

absl::Status PutDevice(Session& session, const DeviceRow& device, const DeviceClassRow& device_class) {
  if (device.class_id != device_class.class_id) {
    return InvalidArgument("device {} is of class {}, but class {} was given with it", device.uuid, device.class_id,
                           device_class.class_id);
  }
  RETURN_IF_ERROR(session
                      .Run("INSERT INTO device_class (class_id, display_name, properties) VALUES ($1, $2, $3) "
                           "ON CONFLICT (class_id) DO UPDATE SET display_name = excluded.display_name, "
                           "properties = excluded.properties",
                           device_class.class_id, device_class.display_name, Blob{device_class.properties})
                      .status());
  return session
      .Run(
          "INSERT INTO device (uuid, class_id, properties, seen_at_ms) VALUES ($1, $2, $3, $4) "
          "ON CONFLICT (uuid) DO UPDATE SET class_id = excluded.class_id, properties = excluded.properties, "
          "seen_at_ms = excluded.seen_at_ms",
          device.uuid, device.class_id, Blob{device.properties}, device.seen_at_ms)
      .status();
}

}  // namespace tunefarm::postgres
