// What runs agreed on: of many that ask at once one is the first, what was agreed on stays, and all of it is bounded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/base/status.h"
#include "server/store/lookup_store.h"
#include "tests/store/conformance.h"

namespace tunefarm {
namespace {

std::string Question(char which) { return std::string(32, which); }

AgreedRunRow MakeRun(const std::string& id, const std::string& owner = "alice", int64_t used_at_ms = kNow) {
  return {id, owner, 7, kNow, used_at_ms};
}

TEST_P(StoreConformance, WhatARunAgreedOnStaysAsTheFirstSaidIt) {
  const std::string first("the first\0answer", 16);
  EXPECT_FALSE(store_->lookups()->FindAgreement("run", Question('a'))->has_value());
  EXPECT_EQ(ReasonOf(store_->lookups()->AgreeOn("run", Question('a'), {"x", kNow}, {}).status()), "RUN_NOT_FOUND");
  ASSERT_TRUE(store_->lookups()->BeginRun(MakeRun("run"), {}).ok());
  EXPECT_FALSE(store_->lookups()->FindAgreement("run", Question('a')).value()->answer.has_value());
  EXPECT_EQ(store_->lookups()->AgreeOn("run", Question('a'), {first, kNow + 1}, {})->answer, first);
  EXPECT_EQ(store_->lookups()->AgreeOn("run", Question('a'), {"another", kNow + 2}, {})->answer, first);
  // Other questions and other runs have their own.
  EXPECT_EQ(store_->lookups()->AgreeOn("run", Question('\0'), {"none", kNow}, {})->answer, "none");
  ASSERT_TRUE(store_->lookups()->BeginRun(MakeRun("other"), {}).ok());
  EXPECT_EQ(store_->lookups()->AgreeOn("other", Question('a'), {"another", kNow}, {})->answer, "another");
  Reopen();
  const Agreement agreed = store_->lookups()->FindAgreement("run", Question('a')).value().value();
  EXPECT_EQ(agreed.answer->answer, first);
  EXPECT_EQ(agreed.answer->agreed_at_ms, kNow + 1);
  EXPECT_EQ(agreed.run.run_id, "run");
  EXPECT_EQ(agreed.run.owner, "alice");
  EXPECT_EQ(agreed.run.catalog_revision, 7);
  EXPECT_EQ(agreed.run.begun_at_ms, kNow);
}

TEST_P(StoreConformance, ARunThatIsThereKeepsItsBeginAndMovesItsLastUseForward) {
  ASSERT_TRUE(store_->lookups()->BeginRun(MakeRun("run"), {}).ok());
  AgreedRunRow again = MakeRun("run", "bob", kNow + 50);
  again.catalog_revision = 9;
  again.begun_at_ms = kNow + 50;
  const AgreedRunRow stands = store_->lookups()->BeginRun(again, {}).value();
  EXPECT_EQ(stands.owner, "alice");
  EXPECT_EQ(stands.catalog_revision, 7);
  EXPECT_EQ(stands.begun_at_ms, kNow);
  EXPECT_EQ(stands.last_used_at_ms, kNow + 50);
  EXPECT_EQ(store_->lookups()->BeginRun(MakeRun("run", "bob", kNow + 20), {})->last_used_at_ms, kNow + 50);
}

TEST_P(StoreConformance, OfManyThatAskAtOnceOneIsTheFirst) {
  constexpr int kThreads = 8;
  std::vector<std::string> answers(kThreads);
  std::vector<int64_t> revisions(kThreads);
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      ready.fetch_add(1);
      while (ready.load() < kThreads) std::this_thread::yield();
      AgreedRunRow run = MakeRun("run");
      run.catalog_revision = i;
      const auto begun = store_->lookups()->BeginRun(run, {});
      if (begun.ok()) revisions[i] = begun->catalog_revision;
      const auto agreed = store_->lookups()->AgreeOn("run", Question('a'), {"of " + std::to_string(i), kNow}, {});
      answers[i] = agreed.ok() ? agreed->answer : std::string(agreed.status().message());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(std::set<int64_t>(revisions.begin(), revisions.end()), testing::SizeIs(1));
  EXPECT_THAT(std::set<std::string>(answers.begin(), answers.end()), testing::SizeIs(1)) << answers[0];
  EXPECT_EQ(answers[0].rfind("of ", 0), 0u) << answers[0];
}

TEST_P(StoreConformance, RunsAndTheirAnswersAreBounded) {
  AgreementLimits limits;
  limits.runs_per_owner = 2;
  limits.answers_per_run = 2;
  limits.bytes_per_owner = 10;
  LookupStore* const lookups = store_->lookups();
  ASSERT_TRUE(lookups->BeginRun(MakeRun("a"), limits).ok());
  ASSERT_TRUE(lookups->BeginRun(MakeRun("b"), limits).ok());
  const absl::Status third = lookups->BeginRun(MakeRun("c"), limits).status();
  EXPECT_TRUE(absl::IsResourceExhausted(third)) << third;
  EXPECT_EQ(ReasonOf(third), "RUN_QUOTA");
  EXPECT_TRUE(lookups->BeginRun(MakeRun("a"), limits).ok()) << "it is there already";
  EXPECT_TRUE(lookups->BeginRun(MakeRun("c", "bob"), limits).ok());

  ASSERT_TRUE(lookups->AgreeOn("a", Question('1'), {"123456", kNow}, limits).ok());
  // Bytes are those of the owner's runs together.
  EXPECT_EQ(ReasonOf(lookups->AgreeOn("b", Question('1'), {"12345", kNow}, limits).status()), "RUN_QUOTA");
  EXPECT_TRUE(lookups->AgreeOn("b", Question('1'), {"1234", kNow}, limits).ok());
  EXPECT_TRUE(lookups->AgreeOn("c", Question('1'), {"12345", kNow}, limits).ok());
  EXPECT_TRUE(lookups->AgreeOn("c", Question('2'), {"1", kNow}, limits).ok());
  EXPECT_EQ(ReasonOf(lookups->AgreeOn("c", Question('3'), {"1", kNow}, limits).status()), "RUN_QUOTA");
  EXPECT_EQ(lookups->AgreeOn("c", Question('2'), {"another", kNow}, limits)->answer, "1")
      << "what is there is answered";
  EXPECT_TRUE(absl::IsInvalidArgument(
      lookups->AgreeOn("c", Question('4'), {std::string(kAgreedBytesMax + 1, 'x'), kNow}, {}).status()));
  EXPECT_TRUE(lookups->AgreeOn("c", Question('4'), {std::string(kAgreedBytesMax, 'x'), kNow}, {}).ok());
}

TEST_P(StoreConformance, UnusedRunsGoWithAllThatTheyAgreedOn) {
  LookupStore* const lookups = store_->lookups();
  for (const auto& [id, used_at_ms] : {std::pair("old", kNow), std::pair("older", kNow - 1), std::pair("used", kNow)}) {
    ASSERT_TRUE(lookups->BeginRun(MakeRun(id, "alice", used_at_ms), {}).ok());
    ASSERT_TRUE(lookups->AgreeOn(id, Question('a'), {"answer", kNow}, {}).ok());
  }
  ASSERT_TRUE(lookups->BeginRun(MakeRun("used", "alice", kNow + 1), {}).ok());
  EXPECT_EQ(lookups->DeleteUnusedRuns(kNow + 1, 1).value(), 1);
  EXPECT_FALSE(lookups->FindAgreement("older", Question('a'))->has_value());
  EXPECT_TRUE(lookups->FindAgreement("old", Question('a'))->has_value());
  EXPECT_EQ(lookups->DeleteUnusedRuns(kNow + 1, 9).value(), 1);
  EXPECT_EQ(lookups->DeleteUnusedRuns(kNow + 1, 9).value(), 0);
  EXPECT_TRUE(lookups->FindAgreement("used", Question('a')).value()->answer.has_value());
  // Another run of the name knows nothing of the one before, whose place in the quota is free.
  AgreementLimits limits;
  limits.runs_per_owner = 2;
  limits.bytes_per_owner = 14;
  ASSERT_TRUE(lookups->BeginRun(MakeRun("old"), limits).ok());
  EXPECT_FALSE(lookups->FindAgreement("old", Question('a')).value()->answer.has_value());
  EXPECT_EQ(lookups->AgreeOn("old", Question('a'), {"another", kNow}, limits)->answer, "another");
}

}  // namespace
}  // namespace tunefarm
