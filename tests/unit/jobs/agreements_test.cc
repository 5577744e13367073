// Answers that all processes of a run get, whatever changes between their questions.
#include "server/lookup/agreements.h"

#include <chrono>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/status.h"
#include "server/catalog/catalog.h"
#include "server/catalog/miss_table.h"
#include "server/records/kernel_registry.h"
#include "server/store/best_store.h"
#include "server/upkeep/retention.h"
#include "tests/unit/jobs/farm.h"
#include "tests/unit/jobs/node_world.h"

namespace tunefarm {
namespace {

class AgreementsTest : public testing::Test {
 protected:
  AgreementsTest() { farm_.evaluator().set_scripter(Bowl); }

  static v1::AgreeConfigRequest Question(const std::string& run = "run", int64_t n = 1024) {
    v1::AgreeConfigRequest request;
    request.set_run_id(run);
    request.mutable_question()->set_kernel("scale");
    *request.mutable_question()->mutable_problem() = TestProblem(n);
    return request;
  }
  v1::AgreeConfigResponse Agree(const v1::AgreeConfigRequest& request = Question()) {
    const auto response = farm_.service().lookup_api().AgreeConfig(AdminSocket(), request);
    TUNEFARM_CHECK_OK(response.status());
    return *response;
  }
  absl::Status ErrorOf(const v1::AgreeConfigRequest& request) {
    return farm_.service().lookup_api().AgreeConfig(AdminSocket(), request).status();
  }
  v1::AgreeConfigResponse Begin(const std::string& run) {
    v1::AgreeConfigRequest request;
    request.set_run_id(run);
    return Agree(request);
  }
  v1::LookupConfigResponse Lookup(v1::Match worst = v1::MATCH_DEFAULT) {
    v1::LookupConfigRequest request = Question().question();
    request.set_worst_match(worst);
    const auto response = farm_.service().lookup_api().LookupConfig(request);
    TUNEFARM_CHECK_OK(response.status());
    return *response;
  }
  static std::string ConfigOf(const v1::LookupConfigResponse& answer) {
    const auto& values = answer.best().config().values();
    if (values.empty()) return "none";
    return "A=" + std::to_string(values.at("A").int_value()) + ",B=" + std::to_string(values.at("B").int_value());
  }
  static v1::BestConfigKey KeyOf(const v1::BestConfig& best) {
    v1::BestConfigKey key;
    key.set_program_digest(best.program_digest());
    key.set_problem_key(best.problem().key());
    key.set_device_class_id(best.device_class_id());
    return key;
  }
  // Measures every config, whatever was measured before.
  void Tune(int64_t n = 1024) {
    v1::Job job;
    job.mutable_policy()->set_no_reuse(true);
    ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({n}, TestKernel(), job)));
  }
  void TuneToAnother() {
    farm_.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
      return question.config == "A=8,B=2" ? Timed(800) : Bowl(question);
    });
    Tune();
    ASSERT_EQ(ConfigOf(Lookup()), "A=8,B=2");
  }
  void Retire() {
    v1::RetireBestConfigRequest request;
    *request.mutable_key() = KeyOf(Lookup().best());
    TUNEFARM_CHECK_OK(farm_.service().catalog_api().RetireBestConfig(request).status());
  }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path()};
};

TEST_F(AgreementsTest, ABetterBestChangesNothingForTheRun) {
  Tune();
  const v1::AgreeConfigResponse first = Agree();
  EXPECT_EQ(first.answer().match(), v1::MATCH_EXACT);
  EXPECT_EQ(ConfigOf(first.answer()), "A=4,B=2");
  EXPECT_EQ(first.run_revision(), first.answer().catalog_revision());
  EXPECT_EQ(first.agreed_at_ms(), farm_.clock.WallMs());
  EXPECT_EQ(first.run_begun_at_ms(), first.agreed_at_ms());
  TuneToAnother();
  for (const bool is_restarted : {false, true}) {
    if (is_restarted) {
      farm_.Crash();
      farm_.Boot();
    }
    v1::AgreeConfigResponse later = Agree();
    EXPECT_GT(later.answer().age_ms(), first.answer().age_ms());
    later.mutable_answer()->set_age_ms(first.answer().age_ms());
    EXPECT_EQ(later.DebugString(), first.DebugString());
    EXPECT_EQ(ConfigOf(Lookup()), "A=8,B=2") << "without a run";
    EXPECT_EQ(ConfigOf(Agree(Question("another")).answer()), "A=8,B=2");
  }
}

TEST_F(AgreementsTest, ThatNothingIsKnownStaysSoWhenATuningEnds) {
  ASSERT_TRUE(farm_.service().CreateKernel(TestKernel()).ok());
  v1::AgreeConfigRequest exact = Question();
  exact.mutable_question()->set_worst_match(v1::MATCH_EXACT);
  EXPECT_EQ(Agree(exact).answer().match(), v1::MATCH_NOT_FOUND);
  EXPECT_EQ(Agree().answer().match(), v1::MATCH_DEFAULT);
  const std::string config = ConfigOf(Agree().answer());
  Tune();
  EXPECT_EQ(Lookup().match(), v1::MATCH_EXACT);
  EXPECT_EQ(Agree(exact).answer().match(), v1::MATCH_NOT_FOUND);
  EXPECT_FALSE(Agree(exact).answer().has_best());
  EXPECT_EQ(Agree().answer().match(), v1::MATCH_DEFAULT);
  EXPECT_EQ(ConfigOf(Agree().answer()), config);
  // A question that comes up later is answered by what is known then.
  Tune(2048);
  EXPECT_EQ(Agree(Question("run", 2048)).answer().match(), v1::MATCH_EXACT);
}

// So that a snapshot of the revision says the same.
TEST_F(AgreementsTest, ABestThatHasChangedSinceTheRunBeganAnswersAsItWasThen) {
  Tune();
  const v1::AgreeConfigResponse begun = Begin("run");
  EXPECT_FALSE(begun.has_answer());
  EXPECT_EQ(begun.agreed_at_ms(), 0);
  Begin("other");
  EXPECT_EQ(ConfigOf(Agree(Question("early")).answer()), "A=4,B=2");
  TuneToAnother();
  const v1::AgreeConfigResponse asked = Agree();
  EXPECT_EQ(asked.run_revision(), begun.run_revision());
  EXPECT_EQ(asked.answer().match(), v1::MATCH_EXACT);
  EXPECT_EQ(ConfigOf(asked.answer()), "A=4,B=2");
  EXPECT_EQ(asked.answer().best().revision(), begun.run_revision());
  Begin("late");
  Retire();
  EXPECT_NE(Lookup().match(), v1::MATCH_EXACT);
  EXPECT_EQ(ConfigOf(Agree(Question("other")).answer()), "A=4,B=2");
  EXPECT_EQ(Agree(Question("late")).answer().match(), v1::MATCH_EXACT);
  EXPECT_EQ(ConfigOf(Agree(Question("late")).answer()), "A=8,B=2");
  EXPECT_NE(Agree(Question("begun after it was retired")).answer().match(), v1::MATCH_EXACT);
}

TEST_F(AgreementsTest, ABestThatIsNewerThanItsCatalogsRevisionAnswersAsItWasThen) {
  Tune();
  CatalogContents read;
  read.revision = Lookup().catalog_revision();
  TuneToAnother();
  // As of a daemon that starts while bests change: it reads the revision first.
  read.bests = farm_.store().bests()->LoadBests().value();
  Catalog catalog;
  ASSERT_TRUE(catalog.Load(read).ok());
  KernelRegistry kernels(&farm_.store());
  MissTable misses;
  Agreements agreements({&kernels, &farm_.service().devices(), &catalog, &farm_.clock, &misses}, &farm_.store());
  const auto agreed = agreements.Agree("", Question());
  ASSERT_TRUE(agreed.ok()) << agreed.status();
  EXPECT_EQ(agreed->run_revision(), read.revision);
  EXPECT_EQ(ConfigOf(agreed->answer()), "A=4,B=2");
}

TEST_F(AgreementsTest, ABestThatHasChangedTooOftenIsRefusedInsteadOfGuessed) {
  Tune();
  Begin("run");
  v1::AnnotateBestConfigRequest note;
  *note.mutable_key() = KeyOf(Lookup().best());
  for (int i = 0; i < BestStore::kBestChangesKept; ++i) {
    note.set_note(std::to_string(i));
    ASSERT_TRUE(farm_.service().catalog_api().AnnotateBestConfig(note).ok());
  }
  const absl::Status refused = ErrorOf(Question());
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_EQ(ReasonOf(refused), "RUN_TOO_OLD");
  EXPECT_EQ(Agree(Question("new")).answer().match(), v1::MATCH_EXACT);
}

TEST_F(AgreementsTest, QuestionsAreTheSameByTheirWordsAndTheDevicesClass) {
  Tune();
  v1::AgreeConfigRequest by_uuid = Question(), by_class = Question();
  by_uuid.mutable_question()->set_device_selector("HOST-1");
  by_class.mutable_question()->set_device_selector(Lookup().best().device_class_id());
  by_class.mutable_question()->set_with_device_class(true);
  by_class.mutable_question()->set_worst_match(v1::MATCH_DEFAULT);
  const v1::AgreeConfigResponse first = Agree(by_uuid);
  EXPECT_FALSE(first.answer().has_device_class());
  TuneToAnother();
  // The definition that the name stands for changes, too.
  v1::Kernel edited = TestKernel();
  edited.mutable_sources(0)->mutable_content()->append("  // edited");
  ASSERT_TRUE(farm_.service().CreateKernel(edited).ok());
  const v1::AgreeConfigResponse second = Agree(by_class);
  EXPECT_TRUE(second.answer().has_device_class());
  EXPECT_EQ(ConfigOf(second.answer()), ConfigOf(first.answer()));
  EXPECT_EQ(second.answer().kernel(), first.answer().kernel());
  EXPECT_EQ(second.agreed_at_ms(), first.agreed_at_ms());
  // Another worst match is another question.
  v1::AgreeConfigRequest exact = by_uuid;
  exact.mutable_question()->set_worst_match(v1::MATCH_EXACT);
  EXPECT_EQ(Agree(exact).answer().match(), v1::MATCH_NOT_FOUND);
}

TEST_F(AgreementsTest, WhatIsRefusedIsNotAgreedOn) {
  v1::AgreeConfigRequest request = Question();
  EXPECT_EQ(ReasonOf(ErrorOf(request)), "KERNEL_NOT_FOUND");
  Tune();
  EXPECT_EQ(Agree().answer().match(), v1::MATCH_EXACT);
  for (const std::string& id : {std::string(), std::string(129, 'r'), std::string("a\nb"), std::string("r\0n", 3)}) {
    request.set_run_id(id);
    EXPECT_EQ(ReasonOf(ErrorOf(request)), "RUN_INVALID") << id;
  }
  request.set_run_id(std::string(128, 'r'));
  EXPECT_EQ(Agree(request).answer().match(), v1::MATCH_EXACT);
}

TEST_F(AgreementsTest, ARunCountsInTheQuotaOfWhoBeganIt) {
  v1::AgreeConfigRequest begin;
  begin.set_run_id("run");
  const Principal token{"ci", PrincipalKind::kToken, Rights().With(Right::kLookup)};
  ASSERT_TRUE(farm_.service().lookup_api().AgreeConfig(token, begin).ok());
  Begin("run");
  Begin("own");
  const std::string question(32, 'q');
  EXPECT_EQ(farm_.store().lookups()->FindAgreement("run", question).value()->run.owner, "ci");
  EXPECT_EQ(farm_.store().lookups()->FindAgreement("own", question).value()->run.owner, "");
}

TEST_F(AgreementsTest, WhatIsInMemoryIsAnsweredWhileTheStoreIsAway) {
  Tune();
  Agree();
  TuneToAnother();
  farm_.hooked_store->set_faults([](std::string_view) { return FaultyStore::Fault::kBefore; });
  EXPECT_EQ(ConfigOf(Agree().answer()), "A=4,B=2");
  EXPECT_TRUE(absl::IsUnavailable(ErrorOf(Question("another"))));
  EXPECT_TRUE(absl::IsUnavailable(ErrorOf(Question("run", 2048))));
  farm_.hooked_store->set_faults(nullptr);
  EXPECT_EQ(ConfigOf(Agree(Question("another")).answer()), "A=8,B=2");
  // Only the answer got lost: the call is repeated, and gets what was written.
  farm_.hooked_store->set_faults(
      [](std::string_view call) { return call == "AgreeOn" ? FaultyStore::Fault::kAfter : FaultyStore::Fault::kNone; });
  EXPECT_TRUE(absl::IsUnavailable(ErrorOf(Question("third"))));
  farm_.hooked_store->set_faults(nullptr);
  Retire();
  EXPECT_EQ(ConfigOf(Agree(Question("third")).answer()), "A=8,B=2");
}

TEST_F(AgreementsTest, RetentionRemovesARunThatNobodyUses) {
  Tune();
  ManualExecutor executor(&farm_.clock);
  const auto retention = std::make_shared<Retention>(&farm_.store(), &executor, RetentionPolicy());
  Agree();
  const int64_t begun_at_ms = Agree(Question("used")).run_begun_at_ms();
  TuneToAnother();
  for (int day = 0; day < 31; ++day) {
    farm_.clock.Advance(std::chrono::hours(24));
    EXPECT_EQ(Agree(Question("used")).run_begun_at_ms(), begun_at_ms);
    ASSERT_TRUE(retention->RunOnce().ok());
  }
  EXPECT_EQ(ConfigOf(Agree(Question("used")).answer()), "A=4,B=2");
  // One of that name that begins now is another run, and says so.
  const v1::AgreeConfigResponse again = Agree();
  EXPECT_EQ(ConfigOf(again.answer()), "A=8,B=2");
  EXPECT_GT(again.run_begun_at_ms(), begun_at_ms);
}

// Which of several classes such a selector stands for changes with what is ready, and with the daemon.
TEST(AgreementsOfClassesTest, ASelectorOfSeveralClassesHasOneAnswer) {
  TemporaryDirectory directory;
  v1::Device larger = HostDevice("HOST-2");
  larger.mutable_device_class()->set_sm_count(4);
  Farm farm(directory.path(), {HostDevice("HOST-1"), larger});
  ASSERT_TRUE(farm.service().CreateKernel(TestKernel()).ok());
  v1::AgreeConfigRequest request;
  request.set_run_id("run");
  request.mutable_question()->set_kernel("scale");
  request.mutable_question()->set_with_device_class(true);
  const auto class_of = [&](const std::string& selector) {
    request.mutable_question()->set_device_selector(selector);
    const auto response = farm.service().lookup_api().AgreeConfig(AdminSocket(), request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->answer().device_class().id() : std::string();
  };
  const std::string first = class_of("HOST-1");
  for (const char* const selector : {"", "host", "Test CPU"}) EXPECT_EQ(class_of(selector), first) << selector;
  ASSERT_TRUE(farm.service().QuarantineDevice("devices/HOST-1", "a test").ok());
  EXPECT_EQ(class_of("HOST-1"), first);
  for (const char* const selector : {"", "host", "Test CPU"}) EXPECT_EQ(class_of(selector), first) << selector;
  request.set_run_id("another");
  EXPECT_NE(class_of("host"), first);
  EXPECT_EQ(class_of("host"), class_of("HOST-2"));
}

class AgreementsOfNodesTest : public NodeWorld {
 protected:
  v1::AgreeConfigResponse Agree(int index) {
    v1::AgreeConfigRequest request;
    request.set_run_id("run");
    request.mutable_question()->set_kernel("scale");
    *request.mutable_question()->mutable_problem() = TestProblem(1024);
    request.mutable_question()->set_device_selector("HOST-1");
    const auto response = service(index).lookup_api().AgreeConfig(AdminSocket(), request);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : v1::AgreeConfigResponse();
  }
};

TEST_F(AgreementsOfNodesTest, TheFirstAnswerOfEitherDaemonIsThatOfBoth) {
  BootBoth();
  ASSERT_TRUE(service(0).CreateKernel(TestKernel()).ok());
  const v1::AgreeConfigResponse first = Agree(0);
  EXPECT_EQ(first.answer().match(), v1::MATCH_DEFAULT);
  const std::string name = Submit(0);
  ASSERT_TRUE(RunUntil([&] { return Ended(name, 0); }));
  RunFor(std::chrono::seconds(2));
  ASSERT_EQ(Lookup(1).match(), v1::MATCH_EXACT);
  EXPECT_EQ(Agree(1).DebugString(), first.DebugString());
  Kill(0);
  ASSERT_TRUE(Boot(0).ok());
  EXPECT_EQ(Agree(0).DebugString(), first.DebugString());
}

}  // namespace
}  // namespace tunefarm
