#include "server/store/shared/facets.h"
#include "server/store/store_maintenance.h"

namespace tunefarm {

absl::StatusOr<QueueCounts> CountQueue(Sql& sql) {
  QueueCounts counts;
  const auto read = [](const SqlRow& row) { return std::pair(static_cast<size_t>(row.Int(0)), row.Int(1)); };
  ASSIGN_OR_RETURN(const auto jobs, sql.ReadAll(read, "SELECT state, count(*) FROM job GROUP BY state"));
  for (const auto& [state, count] : jobs) {
    if (state < counts.jobs.size()) counts.jobs[state] = count;
  }
  ASSIGN_OR_RETURN(counts.ready_units, sql.QueryInt("SELECT count(*) FROM work_unit WHERE state = 1"));
  ASSIGN_OR_RETURN(counts.claimed_units, sql.QueryInt("SELECT count(*) FROM work_unit WHERE state = 2"));
  return counts;
}

}  // namespace tunefarm
