// Everything that changes a best, and the record of it. Each change is a row in best_change, in the transaction that
// makes it.

#include <fmt/core.h>

#include <limits>

#include "server/store/best_store.h"
#include "server/store/checks.h"
#include "server/store/read_rows.h"
#include "server/store/shared/facets.h"
#include "server/store/shared/key_sha.h"

namespace tunefarm {
namespace {

Digest KeyOf(const BestKey& key) { return KeySha({key.program_digest, key.problem_key, key.class_id}); }
Digest KeyOf(const BestRow& best) { return KeySha({best.program_digest, best.problem_key, best.class_id}); }

// Each transaction that changes a best takes this lock before it reads, and holds it until its commit: so revisions
// become visible in ascending order.
absl::Status LockCatalog(Sql& sql) { return sql.Lock("SELECT revision FROM catalog_rev FOR UPDATE"); }

absl::StatusOr<int64_t> NextRevision(Sql& sql) {
  return sql.QueryInt("UPDATE catalog_rev SET revision = revision + 1 RETURNING revision");
}

absl::Status Record(Sql& sql, const BestChangeRow& change) {
  const BestRow& best = change.best;
  const Digest key = KeyOf(best);
  RETURN_IF_ERROR(
      sql.Run("INSERT INTO best_change (key_sha, " TUNEFARM_BEST_CHANGE_COLUMNS
              ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)",
              Blob{key.view()}, best.program_digest, best.problem_key, best.class_id, best.kernel_name, best.kernel_id,
              best.config, Blob{best.detail}, best.median_ns, best.job_id, best.study_id, best.ordinal, best.revision,
              best.promoted_at_ms, best.pinned, best.note, change.revision, static_cast<int>(change.kind),
              change.reason, change.changed_at_ms));
  return sql.Run(
      "DELETE FROM best_change WHERE key_sha = $1 AND revision <= (SELECT c.revision FROM best_change c WHERE "
      "c.key_sha = $1 ORDER BY c.revision DESC LIMIT 1 OFFSET $2)",
      Blob{key.view()}, BestStore::kBestChangesKept);
}

absl::Status NoteRemoval(Sql& sql, const BestRow& best, int64_t revision) {
  const Digest key = KeyOf(best);
  return sql.Run(
      "INSERT INTO best_removal (key_sha, program_digest, problem_key, class_id, kernel_name, revision) VALUES "
      "($1, $2, $3, $4, $5, $6) ON CONFLICT (key_sha, kernel_name) DO UPDATE SET revision = excluded.revision",
      Blob{key.view()}, best.program_digest, best.problem_key, best.class_id, best.kernel_name, revision);
}

// Puts change->best in the place of `current` under a new revision, and records it.
absl::Status File(Sql& sql, const std::optional<BestRow>& current, BestChangeRow* change) {
  BestRow& best = change->best;
  const Digest key = KeyOf(best);
  ASSIGN_OR_RETURN(change->revision, NextRevision(sql));
  best.revision = change->revision;
  // A row that is replaced, rather than updated, would lose the copy of its trial.
  RETURN_IF_ERROR(
      sql.Run("INSERT INTO best_config (key_sha, " TUNEFARM_BEST_COLUMNS
              ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) ON CONFLICT (key_sha) "
              "DO UPDATE SET kernel_name = excluded.kernel_name, kernel_id = excluded.kernel_id, "
              "config = excluded.config, detail = excluded.detail, median_ns = excluded.median_ns, "
              "job_id = excluded.job_id, study_id = excluded.study_id, ordinal = excluded.ordinal, "
              "revision = excluded.revision, promoted_at_ms = excluded.promoted_at_ms, pinned = excluded.pinned, note "
              "= excluded.note",
              Blob{key.view()}, best.program_digest, best.problem_key, best.class_id, best.kernel_name, best.kernel_id,
              best.config, Blob{best.detail}, best.median_ns, best.job_id, best.study_id, best.ordinal, best.revision,
              best.promoted_at_ms, best.pinned, best.note));
  RETURN_IF_ERROR(sql.Run("DELETE FROM best_trial WHERE key_sha = $1 AND NOT (study_id = $2 AND ordinal = $3)",
                          Blob{key.view()}, best.study_id, best.ordinal));
  RETURN_IF_ERROR(
      sql.Run("DELETE FROM best_removal WHERE key_sha = $1 AND kernel_name = $2", Blob{key.view()}, best.kernel_name));
  if (current.has_value() && current->kernel_name != best.kernel_name) {
    RETURN_IF_ERROR(NoteRemoval(sql, *current, change->revision));
  }
  return Record(sql, *change);
}

absl::Status Retire(Sql& sql, BestChangeRow* change) {
  const BestRow& best = change->best;
  const Digest key = KeyOf(best);
  ASSIGN_OR_RETURN(change->revision, NextRevision(sql));
  RETURN_IF_ERROR(sql.Run("DELETE FROM best_config WHERE key_sha = $1", Blob{key.view()}));
  RETURN_IF_ERROR(NoteRemoval(sql, best, change->revision));
  return Record(sql, *change);
}

absl::StatusOr<BestRow> BestOfHistory(Sql& sql, const BestKey& key, int64_t revision) {
  const Digest digest = KeyOf(key);
  ASSIGN_OR_RETURN(
      std::optional<BestChangeRow> change,
      sql.ReadOne(ReadBestChange,
                  "SELECT " TUNEFARM_BEST_CHANGE_COLUMNS " FROM best_change WHERE revision = $1 AND key_sha = $2",
                  revision, Blob{digest.view()}));
  if (change.has_value()) return std::move(change->best);
  return WithReason(
      NotFound("revision {} is not in the history of the best config for {} on {}; the newest {} changes are kept",
               revision, key.problem_key, key.class_id, BestStore::kBestChangesKept),
      "REVISION_NOT_FOUND");
}

// The best that is to take the place of `current`, which is none only where it comes from the history.
absl::StatusOr<BestRow> Edited(Sql& sql, const BestEdit& edit, const std::optional<BestRow>& current) {
  if (edit.kind == BestChangeKind::kPinned && edit.from_revision != 0) {
    ASSIGN_OR_RETURN(BestRow best, BestOfHistory(sql, edit.key, edit.from_revision));
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

absl::StatusOr<std::optional<BestRow>> Find(Sql& sql, const BestKey& key) {
  const Digest digest = KeyOf(key);
  return sql.ReadOne(ReadBest, "SELECT " TUNEFARM_BEST_COLUMNS " FROM best_config WHERE key_sha = $1",
                     Blob{digest.view()});
}

class Bests final : public SharedFacet<BestStore> {
 public:
  using SharedFacet::SharedFacet;

  absl::StatusOr<std::vector<BestRow>> LoadBests() override { return LoadBestsSince(0); }

  absl::StatusOr<std::vector<BestRow>> LoadBestsSince(int64_t revision) override {
    return backend_->Read([&](Sql& sql) {
      return sql.ReadAll(ReadBest,
                         "SELECT " TUNEFARM_BEST_COLUMNS " FROM best_config WHERE revision > $1 ORDER BY revision",
                         revision);
    });
  }

  absl::StatusOr<std::optional<BestRow>> FindBest(std::string_view program_digest, std::string_view problem_key,
                                                  std::string_view class_id) override {
    return backend_->Read([&](Sql& sql) {
      return Find(sql, {std::string(program_digest), std::string(problem_key), std::string(class_id)});
    });
  }

  absl::StatusOr<int64_t> CatalogRevision() override {
    return backend_->Read([](Sql& sql) { return sql.QueryInt("SELECT revision FROM catalog_rev"); });
  }

  absl::StatusOr<std::vector<BestRemovalRow>> LoadBestRemovals() override {
    const auto read = [](const SqlRow& row) {
      return BestRemovalRow{{row.Bytes(0), row.Bytes(1), row.Bytes(2)}, row.Bytes(3), row.Int(4)};
    };
    return backend_->Read([&](Sql& sql) {
      return sql.ReadAll(
          read,
          "SELECT program_digest, problem_key, class_id, kernel_name, revision FROM best_removal ORDER BY revision");
    });
  }

  absl::StatusOr<BestRow> PromoteBest(const BestRow& best) override {
    return backend_->Write([&](Sql& sql) -> absl::StatusOr<BestRow> {
      RETURN_IF_ERROR(LockCatalog(sql));
      ASSIGN_OR_RETURN(const std::optional<BestRow> current,
                       Find(sql, {best.program_digest, best.problem_key, best.class_id}));
      ASSIGN_OR_RETURN(BestChangeRow change, PromotionOf(best, current));
      RETURN_IF_ERROR(File(sql, current, &change));
      return std::move(change.best);
    });
  }

  absl::StatusOr<BestChangeRow> EditBest(const BestEdit& edit) override {
    return backend_->Write([&](Sql& sql) -> absl::StatusOr<BestChangeRow> {
      RETURN_IF_ERROR(LockCatalog(sql));
      ASSIGN_OR_RETURN(const std::optional<BestRow> current, Find(sql, edit.key));
      ASSIGN_OR_RETURN(BestChangeRow change, ChangeOf(edit, current));
      if (edit.kind == BestChangeKind::kRetired) {
        change.best = *current;
        RETURN_IF_ERROR(Retire(sql, &change));
        return change;
      }
      ASSIGN_OR_RETURN(change.best, Edited(sql, edit, current));
      if (current.has_value() && IsSame(*current, change.best)) {
        change.best = *current;
        return change;
      }
      RETURN_IF_ERROR(File(sql, current, &change));
      return change;
    });
  }

  absl::StatusOr<Page<BestChangeRow>> ListBestChanges(const BestChangeQuery& query) override {
    std::string identity = fmt::format("best changes\x1f{}", query.kernel_name);
    Digest key;
    if (query.key.has_value()) {
      identity +=
          fmt::format("\x1f{}\x1f{}\x1f{}", query.key->program_digest, query.key->problem_key, query.key->class_id);
      key = KeyOf(*query.key);
    }
    ASSIGN_OR_RETURN(const auto after, DecodePageToken(identity, query.page.page_token, 1));
    const int64_t before = after.has_value() ? (*after)[0] : std::numeric_limits<int64_t>::max();
    const int size = EffectivePageSize(query.page.page_size);
    return backend_->Read([&](Sql& sql) -> absl::StatusOr<Page<BestChangeRow>> {
#define TUNEFARM_CHANGES "SELECT " TUNEFARM_BEST_CHANGE_COLUMNS " FROM best_change WHERE revision < $1 "
#define TUNEFARM_NEWEST "ORDER BY revision DESC LIMIT $2"
      absl::StatusOr<std::vector<BestChangeRow>> rows =
          query.key.has_value()
              ? sql.ReadAll(ReadBestChange,
                            TUNEFARM_CHANGES "AND key_sha = $3 AND ($4 = '' OR kernel_name = $4) " TUNEFARM_NEWEST,
                            before, size + 1, Blob{key.view()}, query.kernel_name)
          : !query.kernel_name.empty()
              ? sql.ReadAll(ReadBestChange, TUNEFARM_CHANGES "AND kernel_name = $3 " TUNEFARM_NEWEST, before, size + 1,
                            query.kernel_name)
              : sql.ReadAll(ReadBestChange, TUNEFARM_CHANGES TUNEFARM_NEWEST, before, size + 1);
      RETURN_IF_ERROR(rows.status());
      Page<BestChangeRow> result{*std::move(rows), ""};
      if (CutToPage(size, &result.rows)) {
        result.next_page_token = EncodePageToken(identity, {result.rows.back().revision});
      }
      return result;
    });
  }
};

}  // namespace

absl::Status KeepBestTrials(Sql& sql, int64_t job_id) {
  return sql.Run(
      "INSERT INTO best_trial (key_sha, job_id, study_id, study_number, ordinal, attempt, outcome, purpose, config, "
      "median_ns, device_uuid, ended_at_ms, detail, log, samples) "
      "SELECT b.key_sha, s.job_id, s.study_id, s.number, t.ordinal, t.attempt, t.outcome, t.purpose, t.config, "
      "t.median_ns, t.device_uuid, t.ended_at_ms, t.detail, l.log, p.samples "
      "FROM study s JOIN best_config b ON b.study_id = s.study_id "
      "JOIN trial_result t ON t.study_id = b.study_id AND t.ordinal = b.ordinal "
      "LEFT JOIN trial_log l ON l.study_id = t.study_id AND l.ordinal = t.ordinal "
      "LEFT JOIN trial_samples p ON p.study_id = t.study_id AND p.ordinal = t.ordinal WHERE s.job_id = $1 "
      "ON CONFLICT (key_sha) DO UPDATE SET job_id = excluded.job_id, study_id = excluded.study_id, study_number = "
      "excluded.study_number, ordinal = excluded.ordinal, attempt = excluded.attempt, outcome = excluded.outcome, "
      "purpose = excluded.purpose, config = excluded.config, median_ns = excluded.median_ns, device_uuid = "
      "excluded.device_uuid, ended_at_ms = excluded.ended_at_ms, detail = excluded.detail, log = excluded.log, samples "
      "= excluded.samples",
      job_id);
}

std::unique_ptr<BestStore> NewBestStore(SqlBackend* backend) { return std::make_unique<Bests>(backend); }

}  // namespace tunefarm
