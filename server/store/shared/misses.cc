// Problems that were looked up and had no exact best, as the daemon counts them.

#include "server/store/checks.h"
#include "server/store/miss_store.h"
#include "server/store/read_rows.h"
#include "server/store/shared/facets.h"
#include "server/store/shared/key_sha.h"

namespace tunefarm {
namespace {

Digest KeyOf(const MissRow& miss) { return KeySha({miss.kernel_name, miss.problem_key, miss.class_id}); }

// `statement`: kReplace or kAdd.
absl::Status Put(Sql& sql, std::string_view statement, const MissRow& row) {
  const Digest key = KeyOf(row);
  return sql.Run(statement, Blob{key.view()}, row.kernel_name, row.problem_key, row.class_id, row.class_name,
                 row.program_digest, Blob{row.problem}, row.asked, row.match, row.distance, row.first_asked_at_ms,
                 row.last_asked_at_ms);
}

#define TUNEFARM_INSERT_MISS                               \
  "INSERT INTO miss AS m (key_sha, " TUNEFARM_MISS_COLUMNS \
  ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (key_sha) DO UPDATE SET "
constexpr std::string_view kReplace = TUNEFARM_INSERT_MISS
    "class_name = excluded.class_name, program_digest = excluded.program_digest, problem = excluded.problem, "
    "asked = excluded.asked, last_match = excluded.last_match, last_distance = excluded.last_distance, "
    "first_asked_at_ms = excluded.first_asked_at_ms, last_asked_at_ms = excluded.last_asked_at_ms";
// The later answer stays, the counts add up.
#define TUNEFARM_LATER(column)                                            \
  column                                                                  \
      " = CASE WHEN m.last_asked_at_ms < excluded.last_asked_at_ms THEN " \
      "excluded." column " ELSE m." column " END, "
constexpr std::string_view kAdd = TUNEFARM_INSERT_MISS TUNEFARM_LATER("class_name") TUNEFARM_LATER("program_digest")
    TUNEFARM_LATER("problem") TUNEFARM_LATER("last_match") TUNEFARM_LATER("last_distance")
        TUNEFARM_LATER("last_asked_at_ms")
    "first_asked_at_ms = CASE WHEN excluded.first_asked_at_ms < m.first_asked_at_ms THEN excluded.first_asked_at_ms "
    "ELSE m.first_asked_at_ms END, asked = m.asked + excluded.asked";

class Misses final : public SharedFacet<MissStore> {
 public:
  using SharedFacet::SharedFacet;

  absl::Status WriteMisses(const MissChanges& changes) override {
    RETURN_IF_ERROR(CheckMisses(changes));
    return backend_->Write([&](Sql& sql) -> absl::Status {
      for (const MissRow& row : changes.gone) {
        const Digest key = KeyOf(row);
        RETURN_IF_ERROR(sql.Run("DELETE FROM miss WHERE key_sha = $1", Blob{key.view()}));
      }
      for (const MissRow& row : changes.present) RETURN_IF_ERROR(Put(sql, changes.adds ? kAdd : kReplace, row));
      return absl::OkStatus();
    });
  }

  absl::StatusOr<std::vector<MissRow>> LoadMisses() override {
    return backend_->Read([](Sql& sql) {
      return sql.ReadAll(ReadMiss,
                         "SELECT " TUNEFARM_MISS_COLUMNS " FROM miss ORDER BY kernel_name, problem_key, class_id");
    });
  }
};

}  // namespace

std::unique_ptr<MissStore> NewMissStore(SqlBackend* backend) { return std::make_unique<Misses>(backend); }

}  // namespace tunefarm
