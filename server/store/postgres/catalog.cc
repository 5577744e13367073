// Bests as they are, misses, poison, settings.

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/postgres/operations.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
namespace {

constexpr size_t kMissesAtOnceMax = 1000;

Digest KeyOf(const MissRow& miss) { return postgres::KeyOf({miss.kernel_name, miss.problem_key, miss.class_id}); }

#define TUNEFARM_PG_MISS_COLUMNS                                                                 \
  "kernel_name, problem_key, class_id, class_name, program_digest, problem, asked, last_match, " \
  "last_distance, first_asked_at_ms, last_asked_at_ms"

MissRow ReadMiss(const Row& row) {
  MissRow miss;
  miss.kernel_name = row.Bytes(0);
  miss.problem_key = row.Bytes(1);
  miss.class_id = row.Bytes(2);
  miss.class_name = row.Bytes(3);
  miss.program_digest = row.Bytes(4);
  miss.problem = row.Bytes(5);
  miss.asked = row.Int(6);
  miss.match = static_cast<int>(row.Int(7));
  miss.distance = row.Real(8);
  miss.first_asked_at_ms = row.Int(9);
  miss.last_asked_at_ms = row.Int(10);
  return miss;
}

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
      .Run("INSERT INTO miss (key_sha, " TUNEFARM_PG_MISS_COLUMNS
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
      .Run("INSERT INTO miss AS m (key_sha, " TUNEFARM_PG_MISS_COLUMNS
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

PoisonRow ReadPoison(const Row& row) {
  PoisonRow poison;
  poison.program_digest = row.Bytes(0);
  poison.class_id = row.Bytes(1);
  poison.config = row.Bytes(2);
  poison.problem_key = row.Bytes(3);
  poison.toolkit = row.Bytes(4);
  poison.outcome = static_cast<int>(row.Int(5));
  poison.crashes = static_cast<int>(row.Int(6));
  return poison;
}

}  // namespace

absl::StatusOr<std::vector<BestRow>> LoadBests(Session& session, int64_t after_revision) {
  ASSIGN_OR_RETURN(const Rows rows, session.Query("SELECT " TUNEFARM_PG_BEST_COLUMNS
                                                  " FROM best_config WHERE revision > $1 ORDER BY revision",
                                                  after_revision));
  return ReadAll(rows, ReadBest);
}

absl::StatusOr<std::optional<BestRow>> FindBest(Session& session, const BestKey& key) {
  const Digest digest = postgres::KeyOf(key);
  ASSIGN_OR_RETURN(
      const Rows rows,
      session.Query("SELECT " TUNEFARM_PG_BEST_COLUMNS " FROM best_config WHERE key_sha = $1", Blob{digest.view()}));
  if (rows.empty()) return std::optional<BestRow>();
  return std::optional<BestRow>(ReadBest(rows[0]));
}

absl::Status WriteMisses(Session& session, const MissChanges& changes) {
  if (changes.gone.size() + changes.present.size() > kMissesAtOnceMax) {
    return InvalidArgument("{} misses are too many for one write; at most {} are written at once",
                           changes.gone.size() + changes.present.size(), kMissesAtOnceMax);
  }
  RETURN_IF_ERROR(DeleteMisses(session, changes.gone));
  for (const MissRow& row : changes.present) {
    RETURN_IF_ERROR(changes.adds ? AddMiss(session, row) : PutMiss(session, row));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MissRow>> LoadMisses(Session& session) {
  ASSIGN_OR_RETURN(const Rows rows, session.Query("SELECT " TUNEFARM_PG_MISS_COLUMNS
                                                  " FROM miss ORDER BY kernel_name, problem_key, class_id"));
  return ReadAll(rows, ReadMiss);
}

absl::Status RecordPoison(Session& session, const PoisonRow& row) {
  const Digest key = postgres::KeyOf({row.program_digest, row.class_id, row.config, row.problem_key, row.toolkit});
  return session
      .Run(
          "INSERT INTO config_poison AS p (key_sha, program_digest, class_id, config, problem_key, toolkit, outcome, "
          "crashes) VALUES ($1, $2, $3, $4, $5, $6, $7, 1) ON CONFLICT (key_sha) DO UPDATE SET outcome = "
          "excluded.outcome, crashes = p.crashes + 1",
          Blob{key.view()}, row.program_digest, row.class_id, row.config, row.problem_key, row.toolkit, row.outcome)
      .status();
}

absl::StatusOr<std::vector<PoisonRow>> LoadPoison(Session& session, std::string_view program_digest,
                                                  std::string_view class_id) {
  ASSIGN_OR_RETURN(const Rows rows,
                   session.Query("SELECT program_digest, class_id, config, problem_key, toolkit, outcome, crashes FROM "
                                 "config_poison WHERE program_digest = $1 AND class_id = $2 ORDER BY config, "
                                 "problem_key, toolkit COLLATE \"C\"",
                                 program_digest, class_id));
  return ReadAll(rows, ReadPoison);
}

absl::StatusOr<std::optional<std::string>> FindSetting(Session& session, std::string_view name) {
  ASSIGN_OR_RETURN(const Rows rows, session.Query("SELECT value FROM setting WHERE name = $1", name));
  return rows.empty() ? std::nullopt : std::optional<std::string>(rows[0].Bytes(0));
}

absl::Status PutSetting(Session& session, std::string_view name, std::string_view value) {
  return session
      .Run("INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
           name, value)
      .status();
}

absl::StatusOr<std::string> GetOrPutSetting(Session& session, std::string_view name, std::string_view value_if_absent) {
  RETURN_IF_ERROR(
      session.Run("INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING", name, value_if_absent)
          .status());
  ASSIGN_OR_RETURN(std::optional<std::string> value, FindSetting(session, name));
  if (!value.has_value()) return Internal("setting {} is gone", name);
  return *std::move(value);
}

}  // namespace tunefarm::postgres
