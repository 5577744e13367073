#include "server/catalog/best_changes.h"

#include <algorithm>
#include <utility>

#include "server/base/log.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/catalog/best_row.h"
#include "server/records/resource_names.h"

namespace tunefarm {
namespace {

constexpr size_t kTextBytesMax = 4096;

absl::StatusOr<BestKey> KeyOf(const tunefarm::v1::BestConfigKey& key) {
  // The problem of a kernel without dims has an empty key.
  if (key.program_digest().empty() || key.device_class_id().empty()) {
    return WithReason(InvalidArgument("the key of a best config needs a program_digest, a device_class_id and, where "
                                      "its kernel has dims, a problem_key, as a listed best config has them"),
                      "BEST_KEY_INVALID");
  }
  return BestKey{key.program_digest(), key.problem_key(), key.device_class_id()};
}

absl::Status CheckText(std::string_view what, const std::string& text) {
  if (text.size() <= kTextBytesMax) return absl::OkStatus();
  return WithReason(InvalidArgument("the {} has {} bytes, at most {} are allowed", what, text.size(), kTextBytesMax),
                    "TEXT_TOO_LONG");
}

std::string_view VerbOf(BestChangeKind kind) {
  switch (kind) {
    case BestChangeKind::kPromoted:
      return "promoted";
    case BestChangeKind::kPinned:
      return "pinned";
    case BestChangeKind::kUnpinned:
      return "unpinned";
    case BestChangeKind::kRetired:
      return "retired";
    case BestChangeKind::kAnnotated:
      return "annotated";
  }
  return "changed";
}

}  // namespace

BestChanges::BestChanges(Store* store, Catalog* catalog, MissTable* misses, CatalogWatch* watch, Clock* clock)
    : store_(store), catalog_(catalog), misses_(misses), watch_(watch), clock_(clock) {}

absl::Status BestChanges::Follow() {
  MutexLock lock(&mutex_);
  return CatchUp();
}

void BestChanges::Forget() {
  MutexLock lock(&mutex_);
  followed_ = 0;
}

absl::Status BestChanges::CatchUp() {
  ASSIGN_OR_RETURN(const int64_t revision, store_->bests()->CatalogRevision());
  const int64_t known = std::max(followed_, catalog_->revision());
  if (revision < known) {
    followed_ = 0;
    return WithReason(FailedPrecondition("the catalog in the store is at revision {}, behind {}", revision, known),
                      "CATALOG_REPLACED");
  }
  if (revision == known) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<BestRow> bests, store_->bests()->LoadBestsSince(known));
  ASSIGN_OR_RETURN(const std::vector<BestRemovalRow> removals, store_->bests()->LoadBestRemovals());
  // What came after the revision was read may be here in part only, and is left for the next time; what it replaced is
  // skipped. Both are by revision.
  auto best = bests.begin();
  auto removal = removals.begin();
  while (best != bests.end() || removal != removals.end()) {
    const bool is_removal = best == bests.end() || (removal != removals.end() && removal->revision < best->revision);
    const int64_t next = is_removal ? removal->revision : best->revision;
    if (next > revision) break;
    if (!is_removal) {
      RETURN_IF_ERROR(File(*best));
    } else if (next > known) {
      // Under another name the key's best goes on, and has replaced this one.
      const auto filed = catalog_->Find(removal->key.program_digest, removal->key.problem_key, removal->key.class_id);
      if (filed != nullptr && filed->kernel_name() == removal->kernel_name) catalog_->Remove(removal->key, next);
    }
    is_removal ? static_cast<void>(++removal) : static_cast<void>(++best);
  }
  followed_ = revision;
  watch_->Changed();
  return absl::OkStatus();
}

void BestChanges::Changed() {
  const absl::Status followed = CatchUp();
  // It is stored, and the next change or Follow brings it.
  if (!followed.ok()) LogWarn("jobs", "the catalog in memory is behind the store: {}", MessageOf(followed));
}

absl::StatusOr<PromotionVerdict> BestChanges::Promote(const BestRow& row) {
  const auto is_same = [&](const BestRow& other) {
    return other.study_id == row.study_id && other.ordinal == row.ordinal;
  };
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(const std::optional<BestRow> current,
                   store_->bests()->FindBest(row.program_digest, row.problem_key, row.class_id));
  if (current.has_value() && is_same(*current)) return PromotionVerdict::kFiled;
  BestChangeQuery query;
  query.key = BestKey{row.program_digest, row.problem_key, row.class_id};
  query.page.page_size = BestStore::kBestChangesKept;
  ASSIGN_OR_RETURN(const Page<BestChangeRow> history, store_->bests()->ListBestChanges(query));
  const bool was_filed = std::any_of(history.rows.begin(), history.rows.end(), [&](const BestChangeRow& change) {
    return change.kind == BestChangeKind::kPromoted && is_same(change.best);
  });
  if (was_filed) return PromotionVerdict::kFiledBefore;
  const absl::StatusOr<BestRow> filed = store_->bests()->PromoteBest(row);
  if (ReasonOf(filed.status()) == "BEST_PINNED") return PromotionVerdict::kKeptPinned;
  if (ReasonOf(filed.status()) == "BEST_CHANGED") RETURN_IF_ERROR(CatchUp());
  RETURN_IF_ERROR(filed.status());
  Changed();
  return PromotionVerdict::kFiled;
}

absl::Status BestChanges::File(const BestRow& row) {
  RETURN_IF_ERROR(catalog_->Update(row));
  misses_->Tuned(row.program_digest, row.problem_key, row.class_id);
  return absl::OkStatus();
}

absl::StatusOr<BestChangeRow> BestChanges::Edit(BestEdit edit, const tunefarm::v1::BestConfigKey& key) {
  ASSIGN_OR_RETURN(edit.key, KeyOf(key));
  RETURN_IF_ERROR(CheckText("reason", edit.reason));
  RETURN_IF_ERROR(CheckText("note", edit.note));
  if (edit.from_revision < 0) {
    return WithReason(InvalidArgument("from_revision {} is negative; 0 means the current best", edit.from_revision),
                      "REVISION_INVALID");
  }
  edit.now_ms = clock_->WallMs();
  MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(BestChangeRow change, store_->bests()->EditBest(edit));
  if (change.revision == 0) return change;
  Changed();
  LogInfo("jobs", "the best of {} for {} on {} was {}, revision {}", change.best.kernel_name, edit.key.problem_key,
          edit.key.class_id, VerbOf(edit.kind), change.revision);
  return change;
}

absl::StatusOr<tunefarm::v1::BestConfig> BestChanges::EditedBest(BestEdit edit,
                                                                 const tunefarm::v1::BestConfigKey& key) {
  ASSIGN_OR_RETURN(const BestChangeRow change, Edit(std::move(edit), key));
  return BestOfRow(change.best);
}

absl::StatusOr<tunefarm::v1::BestConfig> BestChanges::Pin(const tunefarm::v1::PinBestConfigRequest& request) {
  BestEdit edit;
  edit.kind = BestChangeKind::kPinned;
  edit.reason = request.reason();
  edit.from_revision = request.from_revision();
  return EditedBest(std::move(edit), request.key());
}

absl::StatusOr<tunefarm::v1::BestConfig> BestChanges::Unpin(const tunefarm::v1::UnpinBestConfigRequest& request) {
  BestEdit edit;
  edit.kind = BestChangeKind::kUnpinned;
  edit.reason = request.reason();
  return EditedBest(std::move(edit), request.key());
}

absl::StatusOr<tunefarm::v1::BestConfig> BestChanges::Annotate(const tunefarm::v1::AnnotateBestConfigRequest& request) {
  BestEdit edit;
  edit.kind = BestChangeKind::kAnnotated;
  edit.note = request.note();
  return EditedBest(std::move(edit), request.key());
}

absl::StatusOr<int64_t> BestChanges::Retire(const tunefarm::v1::RetireBestConfigRequest& request) {
  BestEdit edit;
  edit.kind = BestChangeKind::kRetired;
  edit.reason = request.reason();
  ASSIGN_OR_RETURN(const BestChangeRow change, Edit(std::move(edit), request.key()));
  return change.revision;
}

absl::StatusOr<tunefarm::v1::ListBestConfigChangesResponse> BestChanges::List(
    const tunefarm::v1::ListBestConfigChangesRequest& request) {
  BestChangeQuery query;
  query.kernel_name = request.kernel();
  if (request.has_key()) {
    ASSIGN_OR_RETURN(query.key, KeyOf(request.key()));
  }
  ASSIGN_OR_RETURN(query.page.page_size, PageSize(request.page_size()));
  query.page.page_token = request.page_token();
  ASSIGN_OR_RETURN(const Page<BestChangeRow> page, store_->bests()->ListBestChanges(query));
  tunefarm::v1::ListBestConfigChangesResponse response;
  for (const BestChangeRow& row : page.rows) {
    tunefarm::v1::BestConfigChange* const change = response.add_changes();
    change->set_revision(row.revision);
    change->set_kind(static_cast<tunefarm::v1::BestConfigChangeKind>(row.kind));
    ASSIGN_OR_RETURN(*change->mutable_best(), BestOfRow(row.best));
    change->set_reason(row.reason);
    change->set_changed_at_ms(row.changed_at_ms);
  }
  response.set_next_page_token(page.next_page_token);
  return response;
}

}  // namespace tunefarm
