// Everything that changes a best, and the record of it. Each change is a row in best_change, in the transaction that
// makes it.

#include <fmt/core.h>

#include <limits>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/best_store.h"
#include "server/store/checks.h"
#include "server/store/page_token.h"
#include "server/store/sqlite/facets.h"
#include "server/store/sqlite/rows.h"

namespace tunefarm::sqlite {
namespace {

absl::StatusOr<int64_t> NextRevision(Database& database) {
  RETURN_IF_ERROR(database.Prepare("UPDATE catalog_rev SET revision = revision + 1").Run());
  return database.QueryInt("SELECT revision FROM catalog_rev");
}

absl::Status Record(Database& database, const BestChangeRow& change) {
  const BestRow& best = change.best;
  RETURN_IF_ERROR(database
                      .Prepare("INSERT INTO best_change (" TUNEFARM_BEST_CHANGE_COLUMNS
                               ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
                      .Bind(best.program_digest, best.problem_key, best.class_id, best.kernel_name, best.kernel_id,
                            best.config, Blob{best.detail}, best.median_ns, best.job_id, best.study_id, best.ordinal,
                            best.revision, best.promoted_at_ms, best.pinned ? 1 : 0, best.note, change.revision,
                            static_cast<int>(change.kind), change.reason, change.changed_at_ms)
                      .Run());
  return database
      .Prepare(
          "DELETE FROM best_change WHERE revision IN (SELECT revision FROM best_change WHERE program_digest = ? AND "
          "problem_key = ? AND class_id = ? ORDER BY revision DESC LIMIT -1 OFFSET ?)")
      .Bind(best.program_digest, best.problem_key, best.class_id, BestStore::kBestChangesKept)
      .Run();
}

absl::Status NoteRemoval(Database& database, const BestRow& best, int64_t revision) {
  return database
      .Prepare(
          "INSERT OR REPLACE INTO best_removal (program_digest, problem_key, class_id, kernel_name, revision) "
          "VALUES (?, ?, ?, ?, ?)")
      .Bind(best.program_digest, best.problem_key, best.class_id, best.kernel_name, revision)
      .Run();
}

// Puts change->best in the place of `current` under a new revision, and records it.
absl::Status File(Database& database, const std::optional<BestRow>& current, BestChangeRow* change) {
  BestRow& best = change->best;
  ASSIGN_OR_RETURN(change->revision, NextRevision(database));
  best.revision = change->revision;
  // A row that is replaced, rather than updated, would lose the copy of its trial.
  RETURN_IF_ERROR(
      database
          .Prepare("INSERT INTO best_config (" TUNEFARM_BEST_COLUMNS
                   ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (program_digest, problem_key, "
                   "class_id) DO UPDATE SET kernel_name = excluded.kernel_name, kernel_id = excluded.kernel_id, "
                   "config = excluded.config, detail = excluded.detail, median_ns = excluded.median_ns, "
                   "job_id = excluded.job_id, study_id = excluded.study_id, ordinal = excluded.ordinal, "
                   "revision = excluded.revision, promoted_at_ms = excluded.promoted_at_ms, pinned = excluded.pinned, "
                   "note = excluded.note")
          .Bind(best.program_digest, best.problem_key, best.class_id, best.kernel_name, best.kernel_id, best.config,
                Blob{best.detail}, best.median_ns, best.job_id, best.study_id, best.ordinal, best.revision,
                best.promoted_at_ms, best.pinned ? 1 : 0, best.note)
          .Run());
  RETURN_IF_ERROR(database
                      .Prepare("DELETE FROM best_trial WHERE program_digest = ? AND problem_key = ? AND class_id = ? "
                               "AND NOT (study_id = ? AND ordinal = ?)")
                      .Bind(best.program_digest, best.problem_key, best.class_id, best.study_id, best.ordinal)
                      .Run());
  RETURN_IF_ERROR(database
                      .Prepare("DELETE FROM best_removal WHERE program_digest = ? AND problem_key = ? AND "
                               "class_id = ? AND kernel_name = ?")
                      .Bind(best.program_digest, best.problem_key, best.class_id, best.kernel_name)
                      .Run());
  if (current.has_value() && current->kernel_name != best.kernel_name) {
    RETURN_IF_ERROR(NoteRemoval(database, *current, change->revision));
  }
  return Record(database, *change);
}

absl::Status Retire(Database& database, BestChangeRow* change) {
  const BestRow& best = change->best;
  ASSIGN_OR_RETURN(change->revision, NextRevision(database));
  RETURN_IF_ERROR(
      database.Prepare("DELETE FROM best_config WHERE program_digest = ? AND problem_key = ? AND class_id = ?")
          .Bind(best.program_digest, best.problem_key, best.class_id)
          .Run());
  RETURN_IF_ERROR(NoteRemoval(database, best, change->revision));
  return Record(database, *change);
}

absl::StatusOr<BestRow> BestOfHistory(Database& database, const BestKey& key, int64_t revision) {
  Statement row = database.Prepare("SELECT " TUNEFARM_BEST_CHANGE_COLUMNS
                                   " FROM best_change WHERE revision = ? AND program_digest = ? AND problem_key = ? "
                                   "AND class_id = ?");
  ASSIGN_OR_RETURN(const bool found, row.Bind(revision, key.program_digest, key.problem_key, key.class_id).Step());
  if (found) return ReadBestChange(row).best;
  return WithReason(NotFound("revision {} is not in the history of the best config for {} on {}; the newest {} changes "
                             "are kept",
                             revision, key.problem_key, key.class_id, BestStore::kBestChangesKept),
                    "REVISION_NOT_FOUND");
}

// The best that is to take the place of `current`, which is none only where it comes from the history.
absl::StatusOr<BestRow> Edited(Database& database, const BestEdit& edit, const std::optional<BestRow>& current) {
  if (edit.kind == BestChangeKind::kPinned && edit.from_revision != 0) {
    ASSIGN_OR_RETURN(BestRow best, BestOfHistory(database, edit.key, edit.from_revision));
    // What was noted since about the same config is still true.
    if (current.has_value() && current->config == best.config) best.note = current->note;
    best.pinned = true;
    return best;
  }
  BestRow best = *current;
  if (edit.kind == BestChangeKind::kPinned) best.pinned = true;
  if (edit.kind == BestChangeKind::kUnpinned) best.pinned = false;
  if (edit.kind == BestChangeKind::kAnnotated) best.note = edit.note;
  return best;
}

absl::StatusOr<std::optional<BestRow>> Find(Database& database, const BestKey& key) {
  Statement row = database.Prepare("SELECT " TUNEFARM_BEST_COLUMNS
                                   " FROM best_config WHERE program_digest = ? AND problem_key = ? AND class_id = ?");
  ASSIGN_OR_RETURN(const bool found, row.Bind(key.program_digest, key.problem_key, key.class_id).Step());
  if (!found) return std::optional<BestRow>();
  return std::optional<BestRow>(ReadBest(row));
}

class SqliteBests final : public Facet<BestStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<std::vector<BestRow>> LoadBests() override { return LoadBestsSince(0); }

  absl::StatusOr<std::vector<BestRow>> LoadBestsSince(int64_t revision) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<std::vector<BestRow>> {
      Statement rows =
          database.Prepare("SELECT " TUNEFARM_BEST_COLUMNS " FROM best_config WHERE revision > ? ORDER BY revision");
      rows.Bind(revision);
      return ReadAll(rows, ReadBest<Statement>);
    });
  }

  absl::StatusOr<std::optional<BestRow>> FindBest(std::string_view program_digest, std::string_view problem_key,
                                                  std::string_view class_id) override {
    return readers_->Read([&](Database& database) {
      return Find(database, {std::string(program_digest), std::string(problem_key), std::string(class_id)});
    });
  }

  absl::StatusOr<int64_t> CatalogRevision() override {
    return readers_->Read([](Database& database) { return database.QueryInt("SELECT revision FROM catalog_rev"); });
  }

  absl::StatusOr<std::vector<BestRemovalRow>> LoadBestRemovals() override {
    return readers_->Read([](Database& database) -> absl::StatusOr<std::vector<BestRemovalRow>> {
      Statement rows = database.Prepare(
          "SELECT program_digest, problem_key, class_id, kernel_name, revision FROM best_removal ORDER BY revision");
      return ReadAll(rows, [](const Statement& row) {
        return BestRemovalRow{{row.Bytes(0), row.Bytes(1), row.Bytes(2)}, row.Bytes(3), row.Int(4)};
      });
    });
  }

  absl::StatusOr<BestRow> PromoteBest(const BestRow& best) override {
    return writer_->Call([&](Database& database) -> absl::StatusOr<BestRow> {
      ASSIGN_OR_RETURN(const std::optional<BestRow> current,
                       Find(database, {best.program_digest, best.problem_key, best.class_id}));
      ASSIGN_OR_RETURN(BestChangeRow change, PromotionOf(best, current));
      RETURN_IF_ERROR(File(database, current, &change));
      return std::move(change.best);
    });
  }

  absl::StatusOr<BestChangeRow> EditBest(const BestEdit& edit) override {
    return writer_->Call([&](Database& database) -> absl::StatusOr<BestChangeRow> {
      ASSIGN_OR_RETURN(const std::optional<BestRow> current, Find(database, edit.key));
      ASSIGN_OR_RETURN(BestChangeRow change, ChangeOf(edit, current));
      if (edit.kind == BestChangeKind::kRetired) {
        change.best = *current;
        RETURN_IF_ERROR(Retire(database, &change));
        return change;
      }
      ASSIGN_OR_RETURN(change.best, Edited(database, edit, current));
      if (current.has_value() && IsSame(*current, change.best)) {
        change.best = *current;
        return change;
      }
      RETURN_IF_ERROR(File(database, current, &change));
      return change;
    });
  }

  absl::StatusOr<Page<BestChangeRow>> ListBestChanges(const BestChangeQuery& query) override {
    return readers_->Read([&](Database& database) -> absl::StatusOr<Page<BestChangeRow>> {
      std::string identity = fmt::format("best changes\x1f{}", query.kernel_name);
      std::string sql = "SELECT " TUNEFARM_BEST_CHANGE_COLUMNS " FROM best_change WHERE revision < ?";
      if (query.key.has_value()) {
        identity +=
            fmt::format("\x1f{}\x1f{}\x1f{}", query.key->program_digest, query.key->problem_key, query.key->class_id);
        sql += " AND program_digest = ? AND problem_key = ? AND class_id = ? AND (?5 = '' OR kernel_name = ?5)";
      } else if (!query.kernel_name.empty()) {
        sql += " AND kernel_name = ?";
      }
      sql += " ORDER BY revision DESC";  // read no further than the page
      ASSIGN_OR_RETURN(const auto after, DecodePageToken(identity, query.page.page_token, 1));
      const int64_t before = after.has_value() ? (*after)[0] : std::numeric_limits<int64_t>::max();
      const auto size = static_cast<size_t>(EffectivePageSize(query.page.page_size));
      Statement rows = database.Prepare(sql);
      if (query.key.has_value()) {
        rows.Bind(before, query.key->program_digest, query.key->problem_key, query.key->class_id, query.kernel_name);
      } else if (!query.kernel_name.empty()) {
        rows.Bind(before, query.kernel_name);
      } else {
        rows.Bind(before);
      }
      Page<BestChangeRow> result;
      while (true) {
        ASSIGN_OR_RETURN(const bool has_row, rows.Step());
        if (!has_row) return result;
        // One row more than asked for tells whether there is a next page.
        if (result.rows.size() == size) {
          result.next_page_token = EncodePageToken(identity, {result.rows.back().revision});
          return result;
        }
        result.rows.push_back(ReadBestChange(rows));
      }
    });
  }
};

}  // namespace

std::unique_ptr<BestStore> NewBestStore(const Shared& shared) { return std::make_unique<SqliteBests>(shared); }

}  // namespace tunefarm::sqlite
