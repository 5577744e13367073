#include "server/base/status_macros.h"
#include "server/store/poison_store.h"
#include "server/store/sqlite/facets.h"
#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {
namespace {

class SqlitePoison final : public Facet<PoisonStore> {
 public:
  using Facet::Facet;

  absl::Status RecordPoison(const PoisonRow& row) override {
    return writer_->Run([&](Database& database) {
      return database
          .Prepare(
              "INSERT INTO config_poison (program_digest, class_id, config, problem_key, toolkit, outcome, crashes) "
              "VALUES (?, ?, ?, ?, ?, ?, 1) ON CONFLICT DO UPDATE SET outcome = excluded.outcome, crashes = crashes + "
              "1")
          .Bind(row.program_digest, row.class_id, row.config, row.problem_key, row.toolkit, row.outcome)
          .Run();
    });
  }

  absl::StatusOr<std::vector<PoisonRow>> LoadPoison(std::string_view program_digest,
                                                    std::string_view class_id) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<std::vector<PoisonRow>> {
      Statement rows = database.Prepare(
          "SELECT " TUNEFARM_POISON_COLUMNS
          " FROM config_poison WHERE program_digest = ? AND class_id = ? ORDER BY config, problem_key, toolkit");
      rows.Bind(program_digest, class_id);
      return ReadAll(rows, ReadPoison<Statement>);
    });
  }
};

}  // namespace

std::unique_ptr<PoisonStore> NewPoisonStore(const Shared& shared) { return std::make_unique<SqlitePoison>(shared); }

}  // namespace tunefarm::sqlite
