// Changes of bests: promotions, what people decide, the history of both, and what is left of a best that is gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/status.h"
#include "server/store/best_store.h"
#include "server/store/job_store.h"
#include "server/store/store.h"
#include "server/store/trial_store.h"
#include "server/store/unit_store.h"
#include "tests/store/conformance.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using Kind = BestChangeKind;

const BestKey kKey = {"p", "m=1", "class"};

// A best for the key, of a study of its own.
BestRow Best(const std::string& config, int64_t study_id, const std::string& name = "matmul") {
  BestRow best = MakeBest(kKey.program_digest, kKey.problem_key, 10);
  best.kernel_name = name;
  best.config = config;
  best.detail = "detail of " + config;
  best.job_id = study_id;
  best.study_id = study_id;
  return best;
}

BestEdit Edit(Kind kind, const std::string& reason = "because") {
  BestEdit edit;
  edit.kind = kind;
  edit.key = kKey;
  edit.reason = reason;
  edit.now_ms = kNow + 1;
  return edit;
}

BestEdit Note(const std::string& note) {
  BestEdit edit = Edit(Kind::kAnnotated, "");
  edit.note = note;
  return edit;
}

BestEdit PinFrom(int64_t revision) {
  BestEdit edit = Edit(Kind::kPinned);
  edit.from_revision = revision;
  return edit;
}

// The history of the key, newest first.
std::vector<BestChangeRow> History(Store* store, const BestKey& key = kKey) {
  BestChangeQuery query;
  query.key = key;
  query.page.page_size = 1000;
  const auto page = store->bests()->ListBestChanges(query);
  EXPECT_TRUE(page.ok()) << page.status();
  return page.ok() ? page->rows : std::vector<BestChangeRow>();
}

std::vector<Kind> Kinds(const std::vector<BestChangeRow>& history) {
  std::vector<Kind> kinds;
  for (const BestChangeRow& change : history) kinds.push_back(change.kind);
  return kinds;
}

std::vector<int64_t> Revisions(const std::vector<BestChangeRow>& history) {
  std::vector<int64_t> revisions;
  for (const BestChangeRow& change : history) revisions.push_back(change.revision);
  return revisions;
}

TEST_P(StoreConformance, APinnedBestIsNotReplacedUntilItIsUnpinned) {
  ASSERT_TRUE(store_->bests()->PromoteBest(Best("tile=1", 1)).ok());
  const auto pinned = store_->bests()->EditBest(Edit(Kind::kPinned));
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  EXPECT_EQ(pinned->revision, 3);
  EXPECT_EQ(pinned->best.revision, 3);
  EXPECT_TRUE(pinned->best.pinned);
  Reopen();
  const auto refused = store_->bests()->PromoteBest(Best("tile=2", 2));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_EQ(ReasonOf(refused.status()), "BEST_PINNED");
  EXPECT_EQ(store_->bests()->CatalogRevision().value(), 3) << "nothing was changed";
  EXPECT_THAT(History(store_.get()), SizeIs(2));
  EXPECT_EQ(store_->bests()->FindBest("p", "m=1", "class")->value().config, "tile=1");
  // Its own config may be measured anew.
  const auto refreshed = store_->bests()->PromoteBest(Best("tile=1", 3));
  ASSERT_TRUE(refreshed.ok()) << refreshed.status();
  EXPECT_TRUE(refreshed->pinned);
  EXPECT_EQ(refreshed->study_id, 3);
  ASSERT_TRUE(store_->bests()->EditBest(Edit(Kind::kUnpinned))->revision > 0);
  EXPECT_FALSE(store_->bests()->FindBest("p", "m=1", "class")->value().pinned);
  EXPECT_TRUE(store_->bests()->PromoteBest(Best("tile=2", 2)).ok());
  EXPECT_THAT(Kinds(History(store_.get())),
              ElementsAre(Kind::kPromoted, Kind::kUnpinned, Kind::kPromoted, Kind::kPinned, Kind::kPromoted));
}

TEST_P(StoreConformance, APromotionNamesTheBestThatItWasComparedWith) {
  BestRow first = Best("tile=1", 1), second = Best("tile=2", 2);
  first.compared_with = second.compared_with = 0;
  const auto filed = store_->bests()->PromoteBest(first);
  ASSERT_TRUE(filed.ok()) << filed.status();
  const auto late = store_->bests()->PromoteBest(second);
  EXPECT_TRUE(absl::IsFailedPrecondition(late.status())) << late.status();
  EXPECT_EQ(ReasonOf(late.status()), "BEST_CHANGED");
  EXPECT_EQ(store_->bests()->FindBest("p", "m=1", "class")->value().config, "tile=1");
  EXPECT_EQ(store_->bests()->CatalogRevision().value(), filed->revision) << "nothing was changed";
  second.compared_with = filed->revision;
  EXPECT_TRUE(store_->bests()->PromoteBest(second).ok());
}

TEST_P(StoreConformance, ANoteStaysWithItsConfig) {
  ASSERT_TRUE(store_->bests()->PromoteBest(Best("tile=1", 1)).ok());
  ASSERT_TRUE(store_->bests()->EditBest(Note("slow on odd shapes")).ok());
  EXPECT_EQ(store_->bests()->PromoteBest(Best("tile=1", 2))->note, "slow on odd shapes");
  Reopen();
  EXPECT_EQ(store_->bests()->FindBest("p", "m=1", "class")->value().note, "slow on odd shapes");
  EXPECT_EQ(store_->bests()->LoadBests()->at(0).note, "slow on odd shapes");
  EXPECT_EQ(store_->bests()->PromoteBest(Best("tile=2", 3))->note, "");
  // The history still has it.
  EXPECT_EQ(History(store_.get())[1].best.note, "slow on odd shapes");
}

TEST_P(StoreConformance, WhatIsSoAlreadyIsNoChange) {
  ASSERT_TRUE(store_->bests()->PromoteBest(Best("tile=1", 1)).ok());
  for (const BestEdit& edit : {Edit(Kind::kPinned), Note("a note")}) {
    EXPECT_GT(store_->bests()->EditBest(edit)->revision, 0);
    const auto again = store_->bests()->EditBest(edit);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->revision, 0);
    EXPECT_EQ(again->best.config, "tile=1");
  }
  EXPECT_EQ(store_->bests()->EditBest(PinFrom(2))->revision, 0) << "it is what is there";
  EXPECT_GT(store_->bests()->EditBest(Edit(Kind::kUnpinned))->revision, 0);
  EXPECT_EQ(store_->bests()->EditBest(Edit(Kind::kUnpinned))->revision, 0);
  EXPECT_EQ(store_->bests()->CatalogRevision().value(), 5);
  EXPECT_THAT(Revisions(History(store_.get())), ElementsAre(5, 4, 3, 2));
}

TEST_P(StoreConformance, ARetiredBestIsGoneButForItsHistory) {
  ASSERT_TRUE(store_->bests()->PromoteBest(Best("tile=1", 1)).ok());
  const auto retired = store_->bests()->EditBest(Edit(Kind::kRetired, "wrong on NaN"));
  ASSERT_TRUE(retired.ok()) << retired.status();
  EXPECT_EQ(retired->revision, 3);
  EXPECT_EQ(retired->best.revision, 2) << "the best as it was";
  Reopen();
  EXPECT_FALSE(store_->bests()->FindBest("p", "m=1", "class")->has_value());
  EXPECT_THAT(store_->bests()->LoadBests().value(), IsEmpty());
  const auto removals = store_->bests()->LoadBestRemovals();
  ASSERT_THAT(*removals, SizeIs(1));
  EXPECT_EQ(removals->at(0).key.problem_key, "m=1");
  EXPECT_EQ(removals->at(0).kernel_name, "matmul");
  EXPECT_EQ(removals->at(0).revision, 3);
  const std::vector<BestChangeRow> history = History(store_.get());
  ASSERT_THAT(history, SizeIs(2));
  EXPECT_EQ(history[0].reason, "wrong on NaN");
  EXPECT_EQ(history[0].changed_at_ms, kNow + 1);
  EXPECT_EQ(history[0].best.config, "tile=1");
  for (const Kind kind : {Kind::kPinned, Kind::kUnpinned, Kind::kRetired, Kind::kAnnotated}) {
    const absl::Status nothing = store_->bests()->EditBest(Edit(kind)).status();
    EXPECT_TRUE(absl::IsNotFound(nothing)) << nothing;
    EXPECT_EQ(ReasonOf(nothing), "BEST_NOT_FOUND");
  }
  EXPECT_EQ(store_->bests()->CatalogRevision().value(), 3);
  // A later job files a new one.
  EXPECT_EQ(store_->bests()->PromoteBest(Best("tile=2", 2))->revision, 4);
  EXPECT_THAT(store_->bests()->LoadBestRemovals().value(), IsEmpty());
}

TEST_P(StoreConformance, ABestOfTheHistoryIsPutBackAndPinned) {
  ASSERT_TRUE(store_->bests()->PromoteBest(Best("tile=1", 1)).ok());
  ASSERT_TRUE(store_->bests()->EditBest(Note("old")).ok());
  ASSERT_TRUE(store_->bests()->PromoteBest(Best("tile=2", 2)).ok());
  BestRow other = Best("tile=9", 9);
  other.problem_key = "m=2";
  ASSERT_TRUE(store_->bests()->PromoteBest(other).ok());
  for (const int64_t revision : {1, 5, 99}) {  // none, another key's, none yet
    const absl::Status missing = store_->bests()->EditBest(PinFrom(revision)).status();
    EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
    EXPECT_EQ(ReasonOf(missing), "REVISION_NOT_FOUND");
  }
  EXPECT_EQ(store_->bests()->CatalogRevision().value(), 5);
  const auto back = store_->bests()->EditBest(PinFrom(3));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->best.config, "tile=1");
  EXPECT_EQ(back->best.detail, "detail of tile=1");
  EXPECT_EQ(back->best.study_id, 1);
  EXPECT_EQ(back->best.note, "old");
  EXPECT_TRUE(back->best.pinned);
  EXPECT_EQ(back->best.revision, 6);
  // Also what was taken out: that is a person's decision, as was the other.
  ASSERT_TRUE(store_->bests()->EditBest(Edit(Kind::kRetired)).ok());
  EXPECT_EQ(store_->bests()->EditBest(PinFrom(4))->best.config, "tile=2");
  EXPECT_EQ(store_->bests()->EditBest(PinFrom(7))->best.config, "tile=1") << "what was retired there";
  Reopen();
  EXPECT_EQ(store_->bests()->FindBest("p", "m=1", "class")->value().config, "tile=1");
}

TEST_P(StoreConformance, ABestThatIsFiledUnderAnotherNameIsGoneFromItsOldOne) {
  ASSERT_TRUE(store_->bests()->PromoteBest(Best("tile=1", 1)).ok());
  ASSERT_TRUE(store_->bests()->PromoteBest(Best("tile=2", 2, "matmul_too")).ok());
  auto removals = store_->bests()->LoadBestRemovals();
  ASSERT_THAT(*removals, SizeIs(1));
  EXPECT_EQ(removals->at(0).kernel_name, "matmul");
  EXPECT_EQ(removals->at(0).revision, 3);
  ASSERT_TRUE(store_->bests()->EditBest(PinFrom(2)).ok());  // and back
  removals = store_->bests()->LoadBestRemovals();
  ASSERT_THAT(*removals, SizeIs(1));
  EXPECT_EQ(removals->at(0).kernel_name, "matmul_too");
  ASSERT_TRUE(store_->bests()->EditBest(Edit(Kind::kRetired)).ok());
  EXPECT_THAT(store_->bests()->LoadBestRemovals().value(), SizeIs(2));
}

TEST_P(StoreConformance, EditsKeepTheTrialThatADeletedJobLeft) {
  const ClaimRequest claimer = Register("agent");
  const ClaimedUnit unit = Prepare(claimer);
  TrialRow trial = MakeTrial(1);
  trial.samples = "samples";
  ASSERT_EQ(Report(MakeReport(claimer, unit, {trial}, true)), ReportVerdict::kAccepted);
  BestRow best = Best("tile=1", unit.unit.study_id);
  best.job_id = unit.job_id;
  best.ordinal = 1;
  const int64_t first = store_->bests()->PromoteBest(best)->revision;
  ASSERT_TRUE(Set(unit.job_id, JobState::kCancelled).ok());
  ASSERT_TRUE(store_->jobs()->DeleteJob(unit.job_id).ok());
  for (const BestEdit& edit : {Edit(Kind::kPinned), Note("a note"), Edit(Kind::kUnpinned), PinFrom(first)}) {
    ASSERT_GT(store_->bests()->EditBest(edit)->revision, 0);
    EXPECT_TRUE(store_->trials()->GetTrial(unit.job_id, 1, 1).ok());
  }
  // It goes with the best; put back, the best has no trial any more.
  ASSERT_TRUE(store_->bests()->EditBest(Edit(Kind::kRetired)).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->trials()->GetTrial(unit.job_id, 1, 1).status()));
  ASSERT_TRUE(store_->bests()->EditBest(PinFrom(first)).ok());
  EXPECT_EQ(store_->bests()->LoadBests()->at(0).config, "tile=1");
  EXPECT_TRUE(absl::IsNotFound(store_->trials()->GetTrial(unit.job_id, 1, 1).status()));
  EXPECT_THAT(History(store_.get()), SizeIs(7)) << "a job's end is no end of the history";
}

TEST_P(StoreConformance, TheHistoryOfAKeyIsBounded) {
  BestRow other = Best("tile=1", 1);
  other.problem_key = "m=2";
  ASSERT_TRUE(store_->bests()->PromoteBest(other).ok());
  for (int i = 0; i < BestStore::kBestChangesKept + 5; ++i) {
    ASSERT_TRUE(store_->bests()->PromoteBest(Best("tile=" + std::to_string(i), i)).ok());
  }
  const std::vector<BestChangeRow> history = History(store_.get());
  ASSERT_THAT(history, SizeIs(BestStore::kBestChangesKept));
  EXPECT_EQ(history.front().best.config, "tile=" + std::to_string(BestStore::kBestChangesKept + 4));
  EXPECT_EQ(history.back().best.config, "tile=5");
  EXPECT_THAT(History(store_.get(), {"p", "m=2", "class"}), SizeIs(1));
  EXPECT_EQ(ReasonOf(store_->bests()->EditBest(PinFrom(3)).status()), "REVISION_NOT_FOUND");
}

TEST_P(StoreConformance, PagesOfChangesNewestFirst) {
  for (int i = 0; i < 7; ++i) {
    BestRow best = Best("tile=1", i, i % 2 == 0 ? "even" : "odd");
    best.problem_key = "m=" + std::to_string(i);
    ASSERT_TRUE(store_->bests()->PromoteBest(best).ok());
  }
  BestChangeQuery query;
  query.page.page_size = 3;
  std::vector<int64_t> seen;
  do {
    const auto page = store_->bests()->ListBestChanges(query);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const int64_t revision : Revisions(page->rows)) seen.push_back(revision);
    query.page.page_token = page->next_page_token;
    // What comes meanwhile neither repeats nor hides others.
    BestRow late = Best("tile=1", 50 + static_cast<int64_t>(seen.size()), "late");
    late.problem_key = "late";
    ASSERT_TRUE(store_->bests()->PromoteBest(late).ok());
  } while (!query.page.page_token.empty());
  EXPECT_THAT(seen, ElementsAre(8, 7, 6, 5, 4, 3, 2));
  query.kernel_name = "odd";
  EXPECT_THAT(Revisions(store_->bests()->ListBestChanges(query)->rows), ElementsAre(7, 5, 3));
  query.key = BestKey{"p", "m=3", "class"};
  EXPECT_THAT(Revisions(store_->bests()->ListBestChanges(query)->rows), ElementsAre(5));
  query.kernel_name = "even";
  EXPECT_THAT(store_->bests()->ListBestChanges(query)->rows, IsEmpty());
  // A token is one query's.
  query = {};
  query.page.page_size = 3;
  const std::string token = store_->bests()->ListBestChanges(query)->next_page_token;
  query.kernel_name = "odd";
  query.page.page_token = token;
  EXPECT_EQ(ReasonOf(store_->bests()->ListBestChanges(query).status()), "PAGE_TOKEN_INVALID");
}

TEST_P(StoreConformance, AChangeThatIsRefusedLeavesNothing) {
  ASSERT_TRUE(store_->bests()->PromoteBest(Best("tile=1", 1)).ok());
  const std::string large(4097, 'x');
  // Refused at its last step, the record.
  for (const BestEdit& edit : {Edit(Kind::kPinned, large), Edit(Kind::kRetired, large), Note(large)}) {
    const absl::Status refused = store_->bests()->EditBest(edit).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  }
  BestRow broken = Best("tile=2", 2);
  broken.median_ns = -1;
  EXPECT_TRUE(absl::IsInvalidArgument(store_->bests()->PromoteBest(broken).status()));
  Reopen();
  EXPECT_EQ(store_->bests()->CatalogRevision().value(), 2);
  EXPECT_THAT(History(store_.get()), SizeIs(1));
  EXPECT_THAT(store_->bests()->LoadBestRemovals().value(), IsEmpty());
  const BestRow best = store_->bests()->FindBest("p", "m=1", "class").value().value();
  EXPECT_EQ(best.revision, 2);
  EXPECT_FALSE(best.pinned);
  EXPECT_EQ(best.note, "");
  // As long as it may be.
  EXPECT_TRUE(store_->bests()->EditBest(Edit(Kind::kPinned, large.substr(1))).ok());
}

}  // namespace
}  // namespace tunefarm
