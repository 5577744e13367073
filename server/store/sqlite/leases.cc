// Named leases, and who drives which job. A lease that has run out keeps its row: its epoch must go on growing.

#include <algorithm>
#include <set>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/sqlite/operations.h"

namespace tunefarm::sqlite {
namespace {

constexpr int kJobsPerAdoptionMax = 1000;
constexpr size_t kJobStatesMax = 10'000;
// Rows of nodes that are gone: every process has a name of its own, so they would pile up.
constexpr int64_t kDeadNodesKeptMs = int64_t{24} * 3600 * 1000;

#define TUNEFARM_LEASE_COLUMNS "name, holder, detail, epoch, until_ms"
LeaseRow ReadLease(const Statement& row, int64_t now_ms) {
  return {row.Bytes(0), row.Bytes(1), row.Bytes(2), row.Int(3), row.Int(4) - now_ms};
}

std::string NodeLease(std::string_view node) { return std::string(kNodeLeasePrefix).append(node); }

}  // namespace

absl::StatusOr<LeaseRow> TakeLease(Database& database, const LeaseRequest& request, int64_t now_ms) {
  if (request.name.empty() || request.holder.empty() || request.lease_ms < 1) {
    return InvalidArgument("a lease needs a name, a holder and a length of at least 1 ms; it has \"{}\", \"{}\", {}",
                           request.name, request.holder, request.lease_ms);
  }
  std::string detail_before;
  {
    Statement before = database.Prepare("SELECT detail FROM lease WHERE name = ?");
    ASSIGN_OR_RETURN(const bool has_row, before.Bind(request.name).Step());
    if (has_row) detail_before = before.Bytes(0);
  }
  RETURN_IF_ERROR(database
                      .Prepare("INSERT INTO lease (" TUNEFARM_LEASE_COLUMNS
                               ") VALUES (?1, ?2, ?3, 1, ?4) ON CONFLICT (name) DO UPDATE SET "
                               "epoch = epoch + (holder <> excluded.holder), holder = excluded.holder, "
                               "detail = excluded.detail, until_ms = excluded.until_ms "
                               "WHERE lease.holder = excluded.holder OR lease.until_ms <= ?5")
                      .Bind(request.name, request.holder, Blob{request.detail}, now_ms + request.lease_ms, now_ms)
                      .Run());
  RETURN_IF_ERROR(database.Prepare("DELETE FROM lease WHERE name GLOB 'node/*' AND until_ms < ?")
                      .Bind(now_ms - kDeadNodesKeptMs)
                      .Run());
  Statement row = database.Prepare("SELECT " TUNEFARM_LEASE_COLUMNS " FROM lease WHERE name = ?");
  RETURN_IF_ERROR(row.Bind(request.name).Step().status());
  LeaseRow lease = ReadLease(row, now_ms);
  lease.detail_before = std::move(detail_before);
  return lease;
}

absl::Status ReleaseLease(Database& database, std::string_view name, std::string_view holder, int64_t now_ms) {
  return database.Prepare("UPDATE lease SET until_ms = min(until_ms, ?) WHERE name = ? AND holder = ?")
      .Bind(now_ms, name, holder)
      .Run();
}

absl::StatusOr<std::vector<LeaseRow>> ListLeases(Database& database, std::string_view prefix, int64_t now_ms) {
  std::vector<LeaseRow> leases;
  Statement rows = database.Prepare("SELECT " TUNEFARM_LEASE_COLUMNS
                                    " FROM lease WHERE substr(name, 1, length(?1)) = ?1 AND until_ms > ?2 "
                                    "ORDER BY name");
  rows.Bind(prefix, now_ms);
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, rows.Step());
    if (!has_row) return leases;
    leases.push_back(ReadLease(rows, now_ms));
  }
}

absl::StatusOr<std::vector<DrivenJob>> AdoptJobs(Database& database, std::string_view node, int jobs_max,
                                                 const std::vector<int64_t>& except, int64_t step, int64_t now_ms) {
  Statement lives = database.Prepare("SELECT 1 FROM lease WHERE name = ?1 AND holder = ?2 AND until_ms > ?3");
  ASSIGN_OR_RETURN(const bool is_alive, lives.Bind(NodeLease(node), node, now_ms).Step());
  if (!is_alive) {
    return WithReason(FailedPrecondition("node {} does not hold its lease: it drives nothing", node), "NODE_LEASE");
  }
  std::vector<DrivenJob> jobs;
  {
    Statement orphans = database.Prepare(
        "SELECT job_id, driver_epoch, state FROM job WHERE state < 5 AND NOT EXISTS (SELECT 1 FROM lease l "
        "WHERE l.name = 'node/' || job.driver AND l.holder = job.driver AND l.until_ms > ?1) ORDER BY job_id");
    orphans.Bind(now_ms);
    const std::set<int64_t> excepted(except.begin(), except.end());
    const auto count_max = static_cast<size_t>(std::clamp(jobs_max, 0, kJobsPerAdoptionMax));
    while (jobs.size() < count_max) {
      ASSIGN_OR_RETURN(const bool has_row, orphans.Step());
      if (!has_row) break;
      if (static_cast<JobState>(orphans.Int(2)) != JobState::kCancelling && excepted.count(orphans.Int(0)) > 0)
        continue;
      jobs.push_back({orphans.Int(0), orphans.Int(1) + step});
    }
  }
  for (const DrivenJob& job : jobs) {
    RETURN_IF_ERROR(database.Prepare("UPDATE job SET driver = ?, driver_epoch = ? WHERE job_id = ?")
                        .Bind(node, job.driver_epoch, job.job_id)
                        .Run());
  }
  return jobs;
}

absl::Status YieldJob(Database& database, int64_t job_id, int64_t driver_epoch) {
  return database.Prepare("UPDATE job SET driver = '' WHERE job_id = ? AND driver_epoch = ?")
      .Bind(job_id, driver_epoch)
      .Run();
}

absl::StatusOr<std::vector<JobStateRow>> JobStates(Database& database, const std::vector<int64_t>& job_ids) {
  if (job_ids.size() > kJobStatesMax) {
    return InvalidArgument("{} jobs were asked for; at most {} are answered at once", job_ids.size(), kJobStatesMax);
  }
  std::vector<int64_t> sorted = job_ids;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<JobStateRow> states;
  for (const int64_t job_id : sorted) {
    // Few units are with agents at any time, while a study may have had any number of them.
    Statement row = database.Prepare(
        "SELECT state, error, driver, driver_epoch, CASE WHEN state = 4 THEN (SELECT count(*) FROM work_unit u INDEXED "
        "BY work_unit_claimed WHERE u.state = 2 AND u.study_id IN (SELECT study_id FROM study s WHERE s.job_id = "
        "job.job_id)) ELSE 0 END FROM job WHERE job_id = ?");
    ASSIGN_OR_RETURN(const bool found, row.Bind(job_id).Step());
    if (!found) continue;
    states.push_back({job_id, static_cast<JobState>(row.Int(0)), row.Bytes(1), row.Bytes(2), row.Int(3), row.Int(4)});
  }
  return states;
}

}  // namespace tunefarm::sqlite
