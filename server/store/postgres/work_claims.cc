#include "server/store/postgres/work_claims.h"

#include <fmt/core.h>

#include <cstddef>
#include <set>
#include <string_view>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/read_rows.h"

namespace tunefarm::postgres {
namespace {

// Whether a claim w of a work is not void.
#define TUNEFARM_PG_CLAIM_HOLDS                                                                                   \
  "EXISTS (SELECT 1 FROM work_unit h JOIN agent g ON g.agent_id = h.agent_id AND g.epoch = h.agent_epoch WHERE "  \
  "h.unit_id = w.unit_id AND h.token = w.token AND h.state + 0 = 2 AND g.released_at_ms IS NULL) AND NOT EXISTS " \
  "(SELECT 1 FROM trial_result t WHERE t.study_id = w.study_id AND t.ordinal = w.ordinal)"

// $1 agent, $2 epoch; the claims as columns: $3 studies, $4 works, $5 units, $6 tokens, $7 ordinals. What is left of
// claims is not void. A verdict that is stored after the snapshot stays.
constexpr std::string_view kClaimWorks =
    "WITH known AS MATERIALIZED (SELECT c.place, c.study_id, c.work, c.unit_id, c.token, c.ordinal, (SELECT "
    "min(w.ordinal) FROM study_work w WHERE w.study_id = c.study_id AND w.work = c.work AND w.unit_id IS NULL) AS "
    "measured, EXISTS (SELECT 1 FROM study_work w JOIN work_unit h ON h.unit_id = w.unit_id WHERE w.study_id = "
    "c.study_id AND w.work = c.work AND h.agent_id <> $1) AS is_elsewhere FROM unnest($3, $4, $5, $6, $7) WITH "
    "ORDINALITY AS c(study_id, work, unit_id, token, ordinal, place) JOIN work_unit u ON u.unit_id = c.unit_id WHERE "
    "c.work <> 0 AND u.token = c.token AND u.study_id = c.study_id AND u.agent_id = $1 AND u.agent_epoch = $2 AND "
    "u.state + 0 = 2 AND c.ordinal >= u.first_ordinal AND c.ordinal < u.first_ordinal + u.trial_count AND EXISTS "
    "(SELECT 1 FROM agent a WHERE a.agent_id = $1 AND a.epoch = $2 AND a.released_at_ms IS NULL) AND NOT EXISTS "
    "(SELECT 1 FROM trial_result t WHERE t.study_id = c.study_id AND t.ordinal = c.ordinal)), "
    "claimed AS (INSERT INTO study_work (study_id, ordinal, work, unit_id, token) SELECT DISTINCT ON (k.study_id, "
    "k.ordinal) k.study_id, k.ordinal, k.work, k.unit_id, k.token FROM known k WHERE k.measured IS NULL AND NOT "
    "k.is_elsewhere ON CONFLICT (study_id, ordinal) DO UPDATE SET work = excluded.work, unit_id = excluded.unit_id, "
    "token = excluded.token WHERE study_work.unit_id IS NOT NULL) SELECT " TUNEFARM_TRIAL_COLUMNS
    ", k.place, k.is_elsewhere FROM known k LEFT JOIN trial_result t ON t.study_id = k.study_id AND t.ordinal = "
    "k.measured";

// How long a daemon that hangs in the middle of a claim keeps the locks of its studies: the server then ends its
// session, and the daemon repeats the claim when it continues. Less than agents wait for an answer.
constexpr Duration kHungAfter = std::chrono::seconds(3);

int64_t Milliseconds(Duration time) { return std::chrono::duration_cast<std::chrono::milliseconds>(time).count(); }

// The locks of the studies, in ascending order, until the transaction's end.
absl::Status LockStudies(Session& session, const std::set<int64_t>& studies) {
  RETURN_IF_ERROR(
      session.Script(fmt::format("SET LOCAL lock_timeout = {}; SET LOCAL "
                                 "idle_in_transaction_session_timeout = {}",
                                 Milliseconds(kWorkLockMax), Milliseconds(kHungAfter))));
  const absl::Status locked =
      session.Run("SELECT pg_advisory_xact_lock(hashtextextended(s::text, 3)) FROM unnest($1) AS s",
                  std::vector<int64_t>(studies.begin(), studies.end()));
  if (locked.ok() || session.last_failure() != Failure::kLockTimeout) return locked;
  return Unavailable("{}: another claim of works of the same study has not ended for {} s; try again", session.server(),
                     kWorkLockMax / std::chrono::seconds(1));
}

}  // namespace

// One agent after another claims works of a study, each under a snapshot that has the claims of those before it.
absl::StatusOr<std::vector<WorkAnswer>> StoreWorkClaims(Session& session, const WorkClaimRequest& request) {
  std::set<int64_t> distinct;
  std::vector<int64_t> studies, works, units, tokens, ordinals;
  for (const WorkClaim& claim : request.claims) {
    if (claim.work != 0) distinct.insert(claim.study_id);
    studies.push_back(claim.study_id);
    works.push_back(claim.work);
    units.push_back(claim.unit_id);
    tokens.push_back(claim.token);
    ordinals.push_back(claim.ordinal);
  }
  RETURN_IF_ERROR(LockStudies(session, distinct));
  RETURN_IF_ERROR(session.Run(
      "DELETE FROM study_work w USING unnest($1, $2) AS c(study_id, work) WHERE w.study_id = c.study_id AND "
      "w.work = c.work AND w.unit_id IS NOT NULL AND NOT (" TUNEFARM_PG_CLAIM_HOLDS ")",
      studies, works));
  ASSIGN_OR_RETURN(const Rows rows, session.Query(kClaimWorks, request.agent_id, request.epoch, studies, works, units,
                                                  tokens, ordinals));
  std::vector<WorkAnswer> answers(request.claims.size());
  for (int i = 0; i < rows.size(); ++i) {
    const Row row = rows[i];
    WorkAnswer& answer = answers[static_cast<size_t>(row.Int(kTrialColumns) - 1)];
    if (!row.IsNull(0)) {
      answer.measured = ReadTrial(row);
    } else {
      answer.is_elsewhere = row.Int(kTrialColumns + 1) != 0;
    }
  }
  return answers;
}

absl::StatusOr<bool> HasWorksOf(Session& session, int64_t study_id) {
  return session.Exists("SELECT 1 FROM study_work WHERE study_id = $1 LIMIT 1", study_id);
}

}  // namespace tunefarm::postgres
