#include "server/base/status_macros.h"
#include "server/store/poison_store.h"
#include "server/store/postgres/facets.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
namespace {

class PostgresPoison final : public Facet<PoisonStore> {
 public:
  using Facet::Facet;

  absl::Status RecordPoison(const PoisonRow& row) override {
    return pool_->Write([&](Session& session) {
      const Digest key = KeyOf({row.program_digest, row.class_id, row.config, row.problem_key, row.toolkit});
      return session
          .Run(
              "INSERT INTO config_poison AS p (key_sha, program_digest, class_id, config, problem_key, toolkit, "
              "outcome, crashes) VALUES ($1, $2, $3, $4, $5, $6, $7, 1) ON CONFLICT (key_sha) DO UPDATE SET outcome = "
              "excluded.outcome, crashes = p.crashes + 1",
              Blob{key.view()}, row.program_digest, row.class_id, row.config, row.problem_key, row.toolkit, row.outcome)
          .status();
    });
  }

  absl::StatusOr<std::vector<PoisonRow>> LoadPoison(std::string_view program_digest,
                                                    std::string_view class_id) override {
    return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<std::vector<PoisonRow>> {
      ASSIGN_OR_RETURN(const Rows rows, session.Query("SELECT " TUNEFARM_POISON_COLUMNS
                                                      " FROM config_poison WHERE program_digest = $1 AND class_id = $2 "
                                                      "ORDER BY config, problem_key, toolkit COLLATE \"C\"",
                                                      program_digest, class_id));
      return ReadAll(rows, ReadPoison<Row>);
    });
  }
};

}  // namespace

std::unique_ptr<PoisonStore> NewPoisonStore(const Shared& shared) { return std::make_unique<PostgresPoison>(shared); }

}  // namespace tunefarm::postgres
