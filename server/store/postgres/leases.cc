// Named leases, and who drives which job. A lease that has run out keeps its row: its epoch must go on growing.

#include <algorithm>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/operations.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
namespace {

constexpr int kJobsPerAdoptionMax = 1000;
constexpr size_t kJobStatesMax = 10'000;

#define TUNEFARM_PG_LEASE_COLUMNS \
  "name, holder, detail, epoch, (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::bigint"
LeaseRow ReadLease(const Row& row) { return {row.Bytes(0), row.Bytes(1), row.Bytes(2), row.Int(3), row.Int(4)}; }

std::string NodeLease(std::string_view node) { return std::string(kNodeLeasePrefix).append(node); }

}  // namespace

absl::StatusOr<LeaseRow> TakeLease(Session& session, const LeaseRequest& request) {
  if (request.name.empty() || request.holder.empty() || request.lease_ms < 1) {
    return InvalidArgument("a lease needs a name, a holder and a length of at least 1 ms; it has \"{}\", \"{}\", {}",
                           request.name, request.holder, request.lease_ms);
  }
  ASSIGN_OR_RETURN(const Rows before,
                   session.Query("SELECT detail FROM named_lease WHERE name = $1 FOR UPDATE", request.name));
  RETURN_IF_ERROR(
      session
          .Run("INSERT INTO named_lease AS l (name, holder, detail, epoch, lease_until) VALUES ($1, $2, $3, 1, "
               "clock_timestamp() + $4 * interval '1 millisecond') ON CONFLICT (name) DO UPDATE SET "
               "epoch = l.epoch + CASE WHEN l.holder <> excluded.holder THEN 1 ELSE 0 END, holder = excluded.holder, "
               "detail = excluded.detail, lease_until = excluded.lease_until "
               "WHERE l.holder = excluded.holder OR l.lease_until <= clock_timestamp()",
               request.name, request.holder, Blob{request.detail}, request.lease_ms)
          .status());
  // Of nodes that are gone: every process has a name of its own, so they would pile up.
  RETURN_IF_ERROR(session
                      .Run("DELETE FROM named_lease WHERE name IN (SELECT n.name FROM named_lease n WHERE n.name LIKE "
                           "'node/%' AND n.lease_until < clock_timestamp() - interval '1 day' FOR UPDATE SKIP LOCKED)")
                      .status());
  ASSIGN_OR_RETURN(
      const Rows rows,
      session.Query("SELECT " TUNEFARM_PG_LEASE_COLUMNS " FROM named_lease WHERE name = $1", request.name));
  if (rows.empty()) return Internal("lease {} is gone", request.name);
  LeaseRow lease = ReadLease(rows[0]);
  if (!before.empty()) lease.detail_before = before[0].Bytes(0);
  return lease;
}

absl::Status ReleaseLease(Session& session, std::string_view name, std::string_view holder) {
  return session
      .Run("UPDATE named_lease SET lease_until = least(lease_until, clock_timestamp()) WHERE name = $1 AND holder = $2",
           name, holder)
      .status();
}

absl::StatusOr<std::vector<LeaseRow>> ListLeases(Session& session, std::string_view prefix) {
  ASSIGN_OR_RETURN(const Rows rows, session.Query("SELECT " TUNEFARM_PG_LEASE_COLUMNS
                                                  " FROM named_lease WHERE starts_with(name, $1) AND lease_until > "
                                                  "clock_timestamp() ORDER BY name",
                                                  prefix));
  return ReadAll(rows, ReadLease);
}

absl::StatusOr<std::vector<DrivenJob>> AdoptJobs(Session& session, std::string_view node, int jobs_max,
                                                 const std::vector<int64_t>& except, int64_t step) {
  // Held until the commit: the node lives as long as it takes to adopt.
  ASSIGN_OR_RETURN(const Rows lives,
                   session.Query("SELECT 1 FROM named_lease WHERE name = $1 AND holder = $2 AND lease_until > "
                                 "clock_timestamp() FOR SHARE",
                                 NodeLease(node), node));
  if (lives.empty()) {
    return WithReason(FailedPrecondition("node {} does not hold its lease: it drives nothing", node), "NODE_LEASE");
  }
  // One that another node adopts just now is not an orphan any more.
  ASSIGN_OR_RETURN(
      const Rows orphans,
      session.Query(
          "UPDATE job SET driver = $1, driver_epoch = driver_epoch + $4 WHERE job_id IN (SELECT j.job_id FROM "
          "job j WHERE j.state < 5 AND (j.state = 4 OR j.job_id <> ALL($3)) AND NOT EXISTS (SELECT 1 FROM named_lease "
          "l WHERE l.name = 'node/' || "
          "j.driver AND l.holder = j.driver AND l.lease_until > clock_timestamp()) ORDER BY j.job_id LIMIT $2 "
          "FOR UPDATE OF j SKIP LOCKED) RETURNING job_id, driver_epoch",
          node, std::clamp(jobs_max, 0, kJobsPerAdoptionMax), except, step));
  std::vector<DrivenJob> jobs;
  for (int i = 0; i < orphans.size(); ++i) jobs.push_back({orphans[i].Int(0), orphans[i].Int(1)});
  std::sort(jobs.begin(), jobs.end(), [](const DrivenJob& a, const DrivenJob& b) { return a.job_id < b.job_id; });
  return jobs;
}

absl::Status YieldJob(Session& session, int64_t job_id, int64_t driver_epoch) {
  return session.Run("UPDATE job SET driver = '' WHERE job_id = $1 AND driver_epoch = $2", job_id, driver_epoch)
      .status();
}

absl::StatusOr<std::vector<JobStateRow>> JobStates(Session& session, const std::vector<int64_t>& job_ids) {
  if (job_ids.size() > kJobStatesMax) {
    return InvalidArgument("{} jobs were asked for; at most {} are answered at once", job_ids.size(), kJobStatesMax);
  }
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT job_id, state, error, driver, driver_epoch, CASE WHEN state = 4 "
                                 "THEN (SELECT count(*) FROM work_unit u WHERE u.state = 2 AND "
                                 "u.study_id IN (SELECT s.study_id FROM study s WHERE s.job_id = "
                                 "job.job_id)) ELSE 0 END FROM job WHERE job_id = ANY($1) ORDER BY "
                                 "job_id",
                                 job_ids));
  std::vector<JobStateRow> states;
  for (int i = 0; i < rows.size(); ++i) {
    const Row row = rows[i];
    states.push_back(
        {row.Int(0), static_cast<JobState>(row.Int(1)), row.Bytes(2), row.Bytes(3), row.Int(4), row.Int(5)});
  }
  return states;
}

}  // namespace tunefarm::postgres
