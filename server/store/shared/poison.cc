#include "server/store/poison_store.h"
#include "server/store/read_rows.h"
#include "server/store/shared/facets.h"
#include "server/store/shared/key_sha.h"

namespace tunefarm {
namespace {

class Poison final : public SharedFacet<PoisonStore> {
 public:
  using SharedFacet::SharedFacet;

  absl::Status RecordPoison(const PoisonRow& row) override {
    const Digest key = KeySha({row.program_digest, row.class_id, row.config, row.problem_key, row.toolkit});
    return backend_->Write([&](Sql& sql) {
      return sql.Run(
          "INSERT INTO config_poison AS p (key_sha, program_digest, class_id, config, problem_key, toolkit, "
          "outcome, crashes) VALUES ($1, $2, $3, $4, $5, $6, $7, 1) ON CONFLICT (key_sha) DO UPDATE SET outcome = "
          "excluded.outcome, crashes = p.crashes + 1",
          Blob{key.view()}, row.program_digest, row.class_id, row.config, row.problem_key, row.toolkit, row.outcome);
    });
  }

  absl::StatusOr<std::vector<PoisonRow>> LoadPoison(std::string_view program_digest,
                                                    std::string_view class_id) override {
    return backend_->Read([&](Sql& sql) {
      return sql.ReadAll(
          ReadPoison,
          "SELECT " TUNEFARM_POISON_COLUMNS
          " FROM config_poison WHERE program_digest = $1 AND class_id = $2 ORDER BY config, problem_key, toolkit",
          program_digest, class_id);
    });
  }
};

}  // namespace

std::unique_ptr<PoisonStore> NewPoisonStore(SqlBackend* backend) { return std::make_unique<Poison>(backend); }

}  // namespace tunefarm
