// Everything that changes a best, and the record of it. Each change is a row in best_change, in the transaction that
// makes it.

#include <fmt/core.h>

#include <limits>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/best_store.h"
#include "server/store/checks.h"
#include "server/store/page_token.h"
#include "server/store/postgres/facets.h"
#include "server/store/postgres/rows.h"

namespace tunefarm::postgres {
namespace {

// Held by whoever changes a best, from before it looks until its commit: so the revisions become visible in their
// order.
absl::Status LockCatalog(Session& session) {
  return session.Run("SELECT revision FROM catalog_rev FOR UPDATE").status();
}

absl::StatusOr<int64_t> NextRevision(Session& session) {
  return session.QueryInt("UPDATE catalog_rev SET revision = revision + 1 RETURNING revision");
}

absl::Status Record(Session& session, const BestChangeRow& change) {
  const BestRow& best = change.best;
  const Digest key = KeyOf(best);
  RETURN_IF_ERROR(session
                      .Run("INSERT INTO best_change (key_sha, " TUNEFARM_BEST_CHANGE_COLUMNS
                           ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, "
                           "$19, $20)",
                           Blob{key.view()}, best.program_digest, best.problem_key, best.class_id, best.kernel_name,
                           best.kernel_id, best.config, Blob{best.detail}, best.median_ns, best.job_id, best.study_id,
                           best.ordinal, best.revision, best.promoted_at_ms, best.pinned, best.note, change.revision,
                           static_cast<int>(change.kind), change.reason, change.changed_at_ms)
                      .status());
  return session
      .Run(
          "DELETE FROM best_change WHERE revision IN (SELECT c.revision FROM best_change c WHERE c.key_sha = $1 ORDER "
          "BY c.revision DESC OFFSET $2)",
          Blob{key.view()}, BestStore::kBestChangesKept)
      .status();
}

absl::Status NoteRemoval(Session& session, const BestRow& best, int64_t revision) {
  const Digest key = KeyOf(best);
  return session
      .Run(
          "INSERT INTO best_removal (key_sha, program_digest, problem_key, class_id, kernel_name, revision) VALUES "
          "($1, $2, $3, $4, $5, $6) ON CONFLICT (key_sha, kernel_name) DO UPDATE SET revision = excluded.revision",
          Blob{key.view()}, best.program_digest, best.problem_key, best.class_id, best.kernel_name, revision)
      .status();
}

// Puts change->best in the place of `current` under a new revision, and records it.
absl::Status File(Session& session, const std::optional<BestRow>& current, BestChangeRow* change) {
  BestRow& best = change->best;
  const Digest key = KeyOf(best);
  ASSIGN_OR_RETURN(change->revision, NextRevision(session));
  best.revision = change->revision;
  // A row that is replaced, rather than updated, would lose the copy of its trial.
  RETURN_IF_ERROR(
      session
          .Run("INSERT INTO best_config (key_sha, " TUNEFARM_BEST_COLUMNS
               ") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) ON CONFLICT (key_sha) "
               "DO UPDATE SET kernel_name = excluded.kernel_name, kernel_id = excluded.kernel_id, "
               "config = excluded.config, detail = excluded.detail, median_ns = excluded.median_ns, "
               "job_id = excluded.job_id, study_id = excluded.study_id, ordinal = excluded.ordinal, "
               "revision = excluded.revision, promoted_at_ms = excluded.promoted_at_ms, pinned = excluded.pinned, "
               "note = excluded.note",
               Blob{key.view()}, best.program_digest, best.problem_key, best.class_id, best.kernel_name, best.kernel_id,
               best.config, Blob{best.detail}, best.median_ns, best.job_id, best.study_id, best.ordinal, best.revision,
               best.promoted_at_ms, best.pinned, best.note)
          .status());
  RETURN_IF_ERROR(session
                      .Run("DELETE FROM best_trial WHERE key_sha = $1 AND NOT (study_id = $2 AND ordinal = $3)",
                           Blob{key.view()}, best.study_id, best.ordinal)
                      .status());
  RETURN_IF_ERROR(
      session
          .Run("DELETE FROM best_removal WHERE key_sha = $1 AND kernel_name = $2", Blob{key.view()}, best.kernel_name)
          .status());
  if (current.has_value() && current->kernel_name != best.kernel_name) {
    RETURN_IF_ERROR(NoteRemoval(session, *current, change->revision));
  }
  return Record(session, *change);
}

absl::Status Retire(Session& session, BestChangeRow* change) {
  const BestRow& best = change->best;
  const Digest key = KeyOf(best);
  ASSIGN_OR_RETURN(change->revision, NextRevision(session));
  RETURN_IF_ERROR(session.Run("DELETE FROM best_config WHERE key_sha = $1", Blob{key.view()}).status());
  RETURN_IF_ERROR(NoteRemoval(session, best, change->revision));
  return Record(session, *change);
}

absl::StatusOr<BestRow> BestOfHistory(Session& session, const BestKey& key, int64_t revision) {
  const Digest digest = KeyOf(key);
  ASSIGN_OR_RETURN(const Rows rows, session.Query("SELECT " TUNEFARM_BEST_CHANGE_COLUMNS
                                                  " FROM best_change WHERE revision = $1 AND key_sha = $2",
                                                  revision, Blob{digest.view()}));
  if (!rows.empty()) return ReadBestChange(rows[0]).best;
  return WithReason(NotFound("revision {} is not in the history of the best config for {} on {}; the newest {} changes "
                             "are kept",
                             revision, key.problem_key, key.class_id, BestStore::kBestChangesKept),
                    "REVISION_NOT_FOUND");
}

// The best that is to take the place of `current`, which is none only where it comes from the history.
absl::StatusOr<BestRow> Edited(Session& session, const BestEdit& edit, const std::optional<BestRow>& current) {
  if (edit.kind == BestChangeKind::kPinned && edit.from_revision != 0) {
    ASSIGN_OR_RETURN(BestRow best, BestOfHistory(session, edit.key, edit.from_revision));
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

absl::StatusOr<std::optional<BestRow>> Find(Session& session, const BestKey& key) {
  const Digest digest = KeyOf(key);
  ASSIGN_OR_RETURN(
      const Rows rows,
      session.Query("SELECT " TUNEFARM_BEST_COLUMNS " FROM best_config WHERE key_sha = $1", Blob{digest.view()}));
  if (rows.empty()) return std::optional<BestRow>();
  return std::optional<BestRow>(ReadBest(rows[0]));
}

class PostgresBests final : public Facet<BestStore> {
 public:
  using Facet::Facet;

  absl::StatusOr<std::vector<BestRow>> LoadBests() override { return LoadBestsSince(0); }

  absl::StatusOr<std::vector<BestRow>> LoadBestsSince(int64_t revision) override {
    return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<std::vector<BestRow>> {
      ASSIGN_OR_RETURN(const Rows rows, session.Query("SELECT " TUNEFARM_BEST_COLUMNS
                                                      " FROM best_config WHERE revision > $1 ORDER BY revision",
                                                      revision));
      return ReadAll(rows, ReadBest<Row>);
    });
  }

  absl::StatusOr<std::optional<BestRow>> FindBest(std::string_view program_digest, std::string_view problem_key,
                                                  std::string_view class_id) override {
    return pool_->Call(&Pool::Read, [&](Session& session) {
      return Find(session, {std::string(program_digest), std::string(problem_key), std::string(class_id)});
    });
  }

  absl::StatusOr<int64_t> CatalogRevision() override {
    return pool_->Call(&Pool::Read,
                       [](Session& session) { return session.QueryInt("SELECT revision FROM catalog_rev"); });
  }

  absl::StatusOr<std::vector<BestRemovalRow>> LoadBestRemovals() override {
    return pool_->Call(&Pool::Read, [](Session& session) -> absl::StatusOr<std::vector<BestRemovalRow>> {
      ASSIGN_OR_RETURN(const Rows rows, session.Query("SELECT program_digest, problem_key, class_id, kernel_name, "
                                                      "revision FROM best_removal ORDER BY revision"));
      std::vector<BestRemovalRow> removals;
      for (int i = 0; i < rows.size(); ++i) {
        const Row row = rows[i];
        removals.push_back({{row.Bytes(0), row.Bytes(1), row.Bytes(2)}, row.Bytes(3), row.Int(4)});
      }
      return removals;
    });
  }

  absl::StatusOr<BestRow> PromoteBest(const BestRow& best) override {
    return pool_->Call(&Pool::Write, [&](Session& session) -> absl::StatusOr<BestRow> {
      RETURN_IF_ERROR(LockCatalog(session));
      ASSIGN_OR_RETURN(const std::optional<BestRow> current,
                       Find(session, {best.program_digest, best.problem_key, best.class_id}));
      ASSIGN_OR_RETURN(BestChangeRow change, PromotionOf(best, current));
      RETURN_IF_ERROR(File(session, current, &change));
      return std::move(change.best);
    });
  }

  absl::StatusOr<BestChangeRow> EditBest(const BestEdit& edit) override {
    return pool_->Call(&Pool::Write, [&](Session& session) -> absl::StatusOr<BestChangeRow> {
      RETURN_IF_ERROR(LockCatalog(session));
      ASSIGN_OR_RETURN(const std::optional<BestRow> current, Find(session, edit.key));
      ASSIGN_OR_RETURN(BestChangeRow change, ChangeOf(edit, current));
      if (edit.kind == BestChangeKind::kRetired) {
        change.best = *current;
        RETURN_IF_ERROR(Retire(session, &change));
        return change;
      }
      ASSIGN_OR_RETURN(change.best, Edited(session, edit, current));
      if (current.has_value() && IsSame(*current, change.best)) {
        change.best = *current;
        return change;
      }
      RETURN_IF_ERROR(File(session, current, &change));
      return change;
    });
  }

  absl::StatusOr<Page<BestChangeRow>> ListBestChanges(const BestChangeQuery& query) override {
    return pool_->Call(&Pool::Read, [&](Session& session) -> absl::StatusOr<Page<BestChangeRow>> {
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
      // One row more than asked for tells whether there is a next page.
#define TUNEFARM_PG_CHANGES "SELECT " TUNEFARM_BEST_CHANGE_COLUMNS " FROM best_change WHERE revision < $1 "
#define TUNEFARM_PG_NEWEST "ORDER BY revision DESC LIMIT $2"
      absl::StatusOr<Rows> rows =
          query.key.has_value()
              ? session.Query(TUNEFARM_PG_CHANGES
                              "AND key_sha = $3 AND ($4 = '' OR kernel_name = $4) " TUNEFARM_PG_NEWEST,
                              before, size + 1, Blob{key.view()}, query.kernel_name)
          : !query.kernel_name.empty() ? session.Query(TUNEFARM_PG_CHANGES "AND kernel_name = $3 " TUNEFARM_PG_NEWEST,
                                                       before, size + 1, query.kernel_name)
                                       : session.Query(TUNEFARM_PG_CHANGES TUNEFARM_PG_NEWEST, before, size + 1);
      RETURN_IF_ERROR(rows.status());
      Page<BestChangeRow> result;
      for (int i = 0; i < rows->size() && i < size; ++i) result.rows.push_back(ReadBestChange((*rows)[i]));
      if (rows->size() > size) result.next_page_token = EncodePageToken(identity, {result.rows.back().revision});
      return result;
    });
  }
};

}  // namespace

std::unique_ptr<BestStore> NewBestStore(const Shared& shared) { return std::make_unique<PostgresBests>(shared); }

}  // namespace tunefarm::postgres
