// Results: all of a report in one statement, which checks in the same breath that the report is current.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/operations.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
namespace {

constexpr size_t kLogBytesMax = size_t{64} * 1024;

absl::Status CheckTrial(const UnitRow& unit, const TrialRow& trial) {
  if (trial.study_id != 0 && trial.study_id != unit.study_id) {
    return InvalidArgument("trial {} names study {}, but its unit {} is of study {}", trial.ordinal, trial.study_id,
                           unit.unit_id, unit.study_id);
  }
  if (trial.ordinal < unit.first_ordinal || trial.ordinal >= unit.first_ordinal + unit.trial_count) {
    return InvalidArgument("trial {} is not one of unit {}, which has {} to {}", trial.ordinal, unit.unit_id,
                           unit.first_ordinal, unit.first_ordinal + unit.trial_count - 1);
  }
  if (trial.log.size() > kLogBytesMax) {
    return InvalidArgument("the log of trial {} has {} bytes; cut it to {}", trial.ordinal, trial.log.size(),
                           kLogBytesMax);
  }
  if (!std::isfinite(trial.median_ns) || trial.median_ns < 0) {
    return InvalidArgument("the median of trial {} is {} ns; it must be positive, or 0 for none", trial.ordinal,
                           trial.median_ns);
  }
  return absl::OkStatus();
}

// Everything that makes a report current. Parameters $1 to $4. The unit is found by its id: by work_unit_claimed, which
// a plan may prefer while the table is small, all that the agent ever held would be walked over, as long as an old
// snapshot keeps vacuum from removing it. A partial index is of no use to a condition that is written otherwise.
#define TUNEFARM_PG_FENCE                                                                                      \
  "u.unit_id = $1 AND u.token = $2 AND u.agent_id = $3 AND u.agent_epoch = $4 AND u.state + 0 = 2 AND EXISTS " \
  "(SELECT 1 FROM agent a WHERE a.agent_id = u.agent_id AND a.epoch = u.agent_epoch AND a.released_at_ms IS NULL)"
// And that its trials, if any ($5 <= $6), are the unit's. $7: the study that they name; 0: none.
#define TUNEFARM_PG_OWN_TRIALS \
  "($5 > $6 OR (u.first_ordinal <= $5 AND $6 < u.first_ordinal + u.trial_count)) AND $7 IN (0, u.study_id)"

#define TUNEFARM_PG_STORE                                                                                        \
  "stored AS (INSERT INTO trial_result (study_id, ordinal, attempt, outcome, purpose, config, median_ns, "       \
  "device_uuid, ended_at_ms, detail, measured_key) SELECT f.study_id, t.ordinal, t.attempt, t.outcome, "         \
  "t.purpose, t.config, nullif(t.median_ns, 0), t.device_uuid, t.ended_at_ms, t.detail, t.measured_key FROM f, " \
  "unnest($9, $10, $11, $12, $13, $14, $15, $16, $17, $18) AS t(ordinal, attempt, outcome, purpose, config, "    \
  "median_ns, device_uuid, ended_at_ms, detail, measured_key) ON CONFLICT DO NOTHING RETURNING study_id, ordinal)"
// Only of trials that were not stored before: log and samples are the first report's too.
#define TUNEFARM_PG_STORE_DATA                                                                                       \
  ", logs AS (INSERT INTO trial_log (study_id, ordinal, log) SELECT s.study_id, s.ordinal, l.log FROM stored s "     \
  "JOIN unnest($19, $20) AS l(ordinal, log) ON l.ordinal = s.ordinal ON CONFLICT DO NOTHING), "                      \
  "samples AS (INSERT INTO trial_samples (study_id, ordinal, samples) SELECT s.study_id, s.ordinal, l.samples FROM " \
  "stored s JOIN unnest($21, $22) AS l(ordinal, samples) ON l.ordinal = s.ordinal ON CONFLICT DO NOTHING) "
#define TUNEFARM_PG_VERDICT "SELECT (SELECT count(*) FROM f), (SELECT count(*) FROM stored), $8"

#define TUNEFARM_PG_DONE                                                                               \
  "WITH f AS (UPDATE work_unit u SET state = 3, agent_id = NULL, agent_epoch = NULL, done_at_ms = $8 " \
  "WHERE " TUNEFARM_PG_FENCE " AND " TUNEFARM_PG_OWN_TRIALS " RETURNING u.study_id), "
#define TUNEFARM_PG_PARTIAL                                                                                            \
  "WITH f AS MATERIALIZED (SELECT u.study_id FROM work_unit u WHERE " TUNEFARM_PG_FENCE " AND " TUNEFARM_PG_OWN_TRIALS \
  " FOR NO KEY UPDATE), "

constexpr std::string_view kDone = TUNEFARM_PG_DONE TUNEFARM_PG_STORE " " TUNEFARM_PG_VERDICT;
constexpr std::string_view kDoneWithData =
    TUNEFARM_PG_DONE TUNEFARM_PG_STORE TUNEFARM_PG_STORE_DATA TUNEFARM_PG_VERDICT;
constexpr std::string_view kPartial = TUNEFARM_PG_PARTIAL TUNEFARM_PG_STORE " " TUNEFARM_PG_VERDICT;
constexpr std::string_view kPartialWithData =
    TUNEFARM_PG_PARTIAL TUNEFARM_PG_STORE TUNEFARM_PG_STORE_DATA TUNEFARM_PG_VERDICT;

// The trials as columns.
struct Columns {
  std::vector<int64_t> ordinals, attempts, outcomes, purposes, ended;
  std::vector<double> medians;
  Texts configs, devices;
  Blobs details;
  Blobs keys{{}, true};
  std::vector<int64_t> log_ordinals, sample_ordinals;
  Blobs logs, samples;
  int64_t first = 1, last = 0;
  int64_t study_id = 0;  // that they name
};

Columns ToColumns(const ReportRequest& request) {
  Columns c;
  for (const TrialRow& trial : request.trials) {
    c.first = c.ordinals.empty() ? trial.ordinal : std::min(c.first, trial.ordinal);
    c.last = c.ordinals.empty() ? trial.ordinal : std::max(c.last, trial.ordinal);
    if (trial.study_id != 0) c.study_id = trial.study_id;
    c.ordinals.push_back(trial.ordinal);
    c.attempts.push_back(trial.attempt);
    c.outcomes.push_back(trial.outcome);
    c.purposes.push_back(trial.purpose);
    c.ended.push_back(trial.ended_at_ms);
    c.medians.push_back(trial.median_ns);
    c.configs.values.push_back(trial.config);
    c.devices.values.push_back(trial.device_uuid);
    c.details.values.push_back(trial.detail);
    c.keys.values.push_back(trial.measured_key);
    if (!trial.log.empty()) {
      c.log_ordinals.push_back(trial.ordinal);
      c.logs.values.push_back(trial.log);
    }
    if (!trial.samples.empty()) {
      c.sample_ordinals.push_back(trial.ordinal);
      c.samples.values.push_back(trial.samples);
    }
  }
  return c;
}

// Whether the trials name more than one study, or hold what no statement is needed to refuse.
bool IsSuspect(const ReportRequest& request, int64_t study_id) {
  return std::any_of(request.trials.begin(), request.trials.end(), [&](const TrialRow& trial) {
    return (trial.study_id != 0 && trial.study_id != study_id) || trial.log.size() > kLogBytesMax ||
           !std::isfinite(trial.median_ns) || trial.median_ns < 0;
  });
}

// Why nothing was stored.
absl::StatusOr<ReportVerdict> Explain(Session& session, const ReportRequest& request, bool is_repeat) {
  ASSIGN_OR_RETURN(const Rows fence,
                   session.Query("SELECT " TUNEFARM_PG_UNIT_COLUMNS " FROM work_unit u WHERE " TUNEFARM_PG_FENCE,
                                 request.unit_id, request.token, request.agent_id, request.epoch));
  if (!fence.empty()) {
    const UnitRow unit = ReadUnit(fence[0]);
    for (const TrialRow& trial : request.trials) RETURN_IF_ERROR(CheckTrial(unit, trial));
    // Current now, and not a moment ago: nobody else can have made it so.
    return Internal("a report of unit {} found it neither current nor stale", request.unit_id);
  }
  if (is_repeat && request.unit_done) {
    // Nobody else has this token: if the unit is done under it, the first try did that.
    ASSIGN_OR_RETURN(const int64_t is_done,
                     session.QueryInt("SELECT count(*) FROM work_unit WHERE unit_id = $1 AND token = $2 AND state IN "
                                      "(3, 4)",
                                      request.unit_id, request.token));
    if (is_done != 0) return ReportVerdict::kAccepted;
  }
  return ReportVerdict::kStale;
}

absl::StatusOr<ReportVerdict> StoreTrials(Session& session, const ReportRequest& request, bool is_done,
                                          bool is_repeat) {
  const Columns c = ToColumns(request);
  if (IsSuspect(request, c.study_id)) return Explain(session, request, is_repeat);
  const auto verdict = [&](std::string_view sql, const auto&... data) -> absl::StatusOr<ReportVerdict> {
    ASSIGN_OR_RETURN(const Rows rows,
                     session.Query(sql, request.unit_id, request.token, request.agent_id, request.epoch, c.first,
                                   c.last, c.study_id, request.now_ms, c.ordinals, c.attempts, c.outcomes, c.purposes,
                                   c.configs, c.medians, c.devices, c.ended, c.details, c.keys, data...));
    if (rows[0].Int(0) == 0) return Explain(session, request, is_repeat);
    return ReportVerdict::kAccepted;
  };
  if (c.logs.values.empty() && c.samples.values.empty()) return verdict(is_done ? kDone : kPartial);
  return verdict(is_done ? kDoneWithData : kPartialWithData, c.log_ordinals, c.logs, c.sample_ordinals, c.samples);
}

}  // namespace

absl::StatusOr<ReportVerdict> ReportTrials(Session& session, const ReportRequest& request, bool is_repeat) {
  ASSIGN_OR_RETURN(const ReportVerdict verdict, StoreTrials(session, request, request.unit_done, is_repeat));
  if (verdict == ReportVerdict::kAccepted) {
    LogDebug("store", "accepted unit={} token={} epoch={}", request.unit_id, request.token, request.epoch);
  }
  return verdict;
}

absl::StatusOr<ReportVerdict> ReportAndReturn(Session& session, const ReportRequest& request) {
  // The study before its unit: it must not end while one comes back to it.
  ASSIGN_OR_RETURN(const Rows study,
                   session.Query("SELECT s.state FROM study s WHERE s.study_id = (SELECT w.study_id FROM work_unit w "
                                 "WHERE w.unit_id = $1) FOR SHARE",
                                 request.unit_id));
  ASSIGN_OR_RETURN(const ReportVerdict verdict, StoreTrials(session, request, false, false));
  if (verdict == ReportVerdict::kStale) return verdict;
  const bool has_ended = study.empty() || study[0].Int(0) == static_cast<int>(StudyState::kEnded);
  RETURN_IF_ERROR(session
                      .Run(has_ended ? "DELETE FROM work_unit u WHERE " TUNEFARM_PG_FENCE
                                     : "UPDATE work_unit u SET state = 1, claim_seq = nextval('claim_seq'), agent_id = "
                                       "NULL, agent_epoch = NULL, claimed_at_ms = NULL WHERE " TUNEFARM_PG_FENCE,
                           request.unit_id, request.token, request.agent_id, request.epoch)
                      .status());
  return verdict;
}

}  // namespace tunefarm::postgres
