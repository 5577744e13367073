// Problems that were looked up and had no exact best, as the daemon counts them.

#include "server/base/status_macros.h"
#include "server/store/checks.h"
#include "server/store/miss_store.h"
#include "server/store/postgres/facets.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
namespace {

Digest KeyOf(const MissRow& miss) { return postgres::KeyOf({miss.kernel_name, miss.problem_key, miss.class_id}); }

absl::Status DeleteMisses(Session& session, const std::vector<MissRow>& rows) {
  if (rows.empty()) return absl::OkStatus();
  std::vector<Digest> digests;
  Blobs keys;
  for (const MissRow& row : rows) digests.push_back(KeyOf(row));
  for (const Digest& digest : digests) keys.values.push_back(digest.view());
  return session.Run("DELETE FROM miss WHERE key_sha = ANY($1)", keys).status();
}

absl::Status PutMiss(Session& session, const MissRow& row) {
  const Digest key = KeyOf(row);
  return session
      .Run("INSERT INTO miss (key_sha, " TUNEFARM_MISS_COLUMNS
           ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (key_sha) DO UPDATE SET "
           "class_name = excluded.class_name, program_digest = excluded.program_digest, problem = excluded.problem, "
           "asked = excluded.asked, last_match = excluded.last_match, last_distance = excluded.last_distance, "
           "first_asked_at_ms = excluded.first_asked_at_ms, last_asked_at_ms = excluded.last_asked_at_ms",
           Blob{key.view()}, row.kernel_name, row.problem_key, row.class_id, row.class_name, row.program_digest,
           Blob{row.problem}, row.asked, row.match, row.distance, row.first_asked_at_ms, row.last_asked_at_ms)
      .status();
}

// The later answer stays, the counts add up.
absl::Status AddMiss(Session& session, const MissRow& row) {
  const Digest key = KeyOf(row);
  return session
      .Run("INSERT INTO miss AS m (key_sha, " TUNEFARM_MISS_COLUMNS
           ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (key_sha) DO UPDATE SET "
           "class_name = CASE WHEN excluded.last_asked_at_ms > m.last_asked_at_ms THEN excluded.class_name ELSE "
           "m.class_name END, program_digest = CASE WHEN excluded.last_asked_at_ms > m.last_asked_at_ms THEN "
           "excluded.program_digest ELSE m.program_digest END, problem = CASE WHEN excluded.last_asked_at_ms > "
           "m.last_asked_at_ms THEN excluded.problem ELSE m.problem END, last_match = CASE WHEN "
           "excluded.last_asked_at_ms > m.last_asked_at_ms THEN excluded.last_match ELSE m.last_match END, "
           "last_distance = CASE WHEN excluded.last_asked_at_ms > m.last_asked_at_ms THEN excluded.last_distance ELSE "
           "m.last_distance END, asked = m.asked + excluded.asked, "
           "first_asked_at_ms = least(m.first_asked_at_ms, excluded.first_asked_at_ms), "
           "last_asked_at_ms = greatest(m.last_asked_at_ms, excluded.last_asked_at_ms)",
           Blob{key.view()}, row.kernel_name, row.problem_key, row.class_id, row.class_name, row.program_digest,
           Blob{row.problem}, row.asked, row.match, row.distance, row.first_asked_at_ms, row.last_asked_at_ms)
      .status();
}

class PostgresMisses final : public Facet<MissStore> {
 public:
  using Facet::Facet;

  absl::Status WriteMisses(const MissChanges& changes) override {
    return pool_->Write([&](Session& session) -> absl::Status {
      RETURN_IF_ERROR(CheckMisses(changes));
      RETURN_IF_ERROR(DeleteMisses(session, changes.gone));
      for (const MissRow& row : changes.present) {
        RETURN_IF_ERROR(changes.adds ? AddMiss(session, row) : PutMiss(session, row));
      }
      return absl::OkStatus();
    });
  }

  absl::StatusOr<std::vector<MissRow>> LoadMisses() override {
    return pool_->Call(&Pool::Read, [](Session& session) -> absl::StatusOr<std::vector<MissRow>> {
      ASSIGN_OR_RETURN(const Rows rows, session.Query("SELECT " TUNEFARM_MISS_COLUMNS
                                                      " FROM miss ORDER BY kernel_name, problem_key, class_id"));
      return ReadAll(rows, ReadMiss<Row>);
    });
  }
};

}  // namespace

std::unique_ptr<MissStore> NewMissStore(const Shared& shared) { return std::make_unique<PostgresMisses>(shared); }

}  // namespace tunefarm::postgres
