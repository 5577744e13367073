// What people decide about bests, and what jobs make of it.
#include "server/catalog/best_changes.h"

#include <google/protobuf/util/message_differencer.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/status.h"
#include "server/store/best_store.h"
#include "server/store/store.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using tunefarm::v1::BestConfig;

std::string TextOf(const BestConfig& best) {
  return "A=" + std::to_string(best.config().values().at("A").int_value()) +
         ",B=" + std::to_string(best.config().values().at("B").int_value());
}

template <typename Request>
Request Of(const BestConfig& best) {
  Request request;
  request.mutable_key()->set_program_digest(best.program_digest());
  request.mutable_key()->set_problem_key(best.problem().key());
  request.mutable_key()->set_device_class_id(best.device_class_id());
  return request;
}

class BestChangesTest : public testing::Test {
 protected:
  BestChangesTest() : farm_(directory_.path()) { farm_.evaluator().set_scripter(Bowl); }

  // Tunes anew, whatever was measured before, and answers the job's name.
  std::string Tune() {
    tunefarm::v1::Job job;
    job.mutable_policy()->set_no_reuse(true);
    const std::string name = farm_.SubmitJob({1024}, TestKernel(), job);
    EXPECT_TRUE(farm_.Finish(name));
    return name;
  }
  // From now on A=8,B=2 is fastest.
  void MakeAnotherFaster() {
    farm_.evaluator().set_scripter([](const FakeEvaluator::Question& question) {
      return question.config == "A=8,B=2" ? Timed(800) : Bowl(question);
    });
  }
  tunefarm::v1::LookupConfigResponse Ask() {
    tunefarm::v1::LookupConfigRequest request;
    request.set_kernel("scale");
    *request.mutable_problem() = TestProblem(1024);
    const auto response = farm_.service().lookup_api().LookupConfig(request);
    TUNEFARM_CHECK_OK(response);
    return *response;
  }
  std::vector<tunefarm::v1::BestConfigChangeKind> Kinds() {
    std::vector<tunefarm::v1::BestConfigChangeKind> kinds;
    const auto changes = farm_.service().catalog_api().ListBestConfigChanges({});
    TUNEFARM_CHECK_OK(changes);
    for (const auto& change : changes->changes()) kinds.push_back(change.kind());
    return kinds;
  }

  TemporaryDirectory directory_;
  Farm farm_;
};

TEST_F(BestChangesTest, AJobLeavesAPinnedBestAndSaysSo) {
  Tune();
  const BestConfig best = Ask().best();
  auto pin = Of<tunefarm::v1::PinBestConfigRequest>(best);
  pin.set_reason("in production");
  const auto pinned = farm_.service().catalog_api().PinBestConfig(pin);
  ASSERT_TRUE(pinned.ok()) << pinned.status();
  EXPECT_TRUE(pinned->best().pinned());
  EXPECT_TRUE(Ask().best().pinned());

  MakeAnotherFaster();
  std::vector<std::string> messages;
  tunefarm::v1::Job job;
  job.mutable_policy()->set_no_reuse(true);
  const std::string second = farm_.SubmitJob({1024}, TestKernel(), job);
  const auto watch = farm_.service().Watch(
      second, 0,
      [&](const tunefarm::v1::JobEvent& event) {
        if (!event.message().empty()) messages.push_back(event.message());
      },
      [](const absl::Status&) {});
  ASSERT_TRUE(farm_.Finish(second));
  farm_.RunFor(std::chrono::seconds(1));
  EXPECT_THAT(messages, testing::Contains(HasSubstr("not promoted: the best is pinned")));
  EXPECT_EQ(TextOf(Ask().best()), "A=4,B=2");
  for (const bool is_restarted : {false, true}) {
    if (is_restarted) {
      farm_.Crash();
      farm_.Boot();
      EXPECT_TRUE(Ask().best().pinned()) << "a pin outlives the daemon";
    }
    const auto study = farm_.Job(second).studies(0);
    EXPECT_EQ(farm_.Job(second).state(), tunefarm::v1::JOB_STATE_SUCCEEDED);
    EXPECT_EQ(study.not_promoted_because(), "the best is pinned");
    EXPECT_EQ(TextOf(study.best()), "A=8,B=2") << "what the job found";
    EXPECT_EQ(study.best().revision(), 0);
  }

  ASSERT_TRUE(farm_.service().catalog_api().UnpinBestConfig(Of<tunefarm::v1::UnpinBestConfigRequest>(best)).ok());
  MakeAnotherFaster();
  const std::string third = Tune();
  EXPECT_EQ(TextOf(Ask().best()), "A=8,B=2");
  EXPECT_EQ(farm_.Job(third).studies(0).not_promoted_because(), "");
  EXPECT_THAT(Kinds(), ElementsAre(v1::BEST_CONFIG_CHANGE_KIND_PROMOTED, v1::BEST_CONFIG_CHANGE_KIND_UNPINNED,
                                   v1::BEST_CONFIG_CHANGE_KIND_PINNED, v1::BEST_CONFIG_CHANGE_KIND_PROMOTED));
}

TEST_F(BestChangesTest, APinnedBestIsMeasuredAnewAndKeepsItsNote) {
  Tune();
  const BestConfig best = Ask().best();
  ASSERT_TRUE(farm_.service().catalog_api().PinBestConfig(Of<tunefarm::v1::PinBestConfigRequest>(best)).ok());
  auto note = Of<tunefarm::v1::AnnotateBestConfigRequest>(best);
  note.set_note("checked by hand");
  ASSERT_TRUE(farm_.service().catalog_api().AnnotateBestConfig(note).ok());
  const std::string second = Tune();
  const BestConfig after = Ask().best();
  EXPECT_EQ(after.job(), second);
  EXPECT_TRUE(after.pinned());
  EXPECT_EQ(after.note(), "checked by hand");
  EXPECT_EQ(farm_.Job(second).studies(0).best().note(), "checked by hand");
}

TEST_F(BestChangesTest, ARetiredBestAnswersNoMoreAndCanBePutBack) {
  Tune();
  const BestConfig best = Ask().best();
  auto retire = Of<tunefarm::v1::RetireBestConfigRequest>(best);
  retire.set_reason("wrong on NaN");
  const auto retired = farm_.service().catalog_api().RetireBestConfig(retire);
  ASSERT_TRUE(retired.ok()) << retired.status();
  EXPECT_EQ(retired->revision(), best.revision() + 1);
  EXPECT_EQ(Ask().match(), tunefarm::v1::MATCH_DEFAULT);
  EXPECT_EQ(Ask().catalog_revision(), retired->revision());
  EXPECT_THAT(farm_.service().catalog().List("", 10, "")->first, IsEmpty());
  const auto history = farm_.service().catalog_api().ListBestConfigChanges({});
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(history->changes(0).kind(), tunefarm::v1::BEST_CONFIG_CHANGE_KIND_RETIRED);
  EXPECT_EQ(history->changes(0).reason(), "wrong on NaN");
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(history->changes(0).best(), best));
  farm_.Crash();
  farm_.Boot();
  EXPECT_EQ(Ask().match(), tunefarm::v1::MATCH_DEFAULT);
  EXPECT_EQ(Ask().catalog_revision(), retired->revision());
  auto pin = Of<tunefarm::v1::PinBestConfigRequest>(best);
  pin.set_from_revision(best.revision());
  ASSERT_TRUE(farm_.service().catalog_api().PinBestConfig(pin).ok());
  EXPECT_EQ(Ask().match(), tunefarm::v1::MATCH_EXACT);
  EXPECT_EQ(TextOf(Ask().best()), TextOf(best));
}

TEST_F(BestChangesTest, RefusalsNameWhatIsWrong) {
  Tune();
  const BestConfig best = Ask().best();
  auto no_key = Of<tunefarm::v1::PinBestConfigRequest>(best);
  no_key.mutable_key()->clear_device_class_id();
  EXPECT_EQ(ReasonOf(farm_.service().catalog_api().PinBestConfig(no_key).status()), "BEST_KEY_INVALID");
  auto negative = Of<tunefarm::v1::PinBestConfigRequest>(best);
  negative.set_from_revision(-1);
  EXPECT_EQ(ReasonOf(farm_.service().catalog_api().PinBestConfig(negative).status()), "REVISION_INVALID");
  auto future = Of<tunefarm::v1::PinBestConfigRequest>(best);
  future.set_from_revision(99);
  const absl::Status missing = farm_.service().catalog_api().PinBestConfig(future).status();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_EQ(ReasonOf(missing), "REVISION_NOT_FOUND");
  auto note = Of<tunefarm::v1::AnnotateBestConfigRequest>(best);
  note.set_note(std::string(4097, 'x'));
  const absl::Status long_note = farm_.service().catalog_api().AnnotateBestConfig(note).status();
  EXPECT_EQ(ReasonOf(long_note), "TEXT_TOO_LONG");
  EXPECT_THAT(std::string(MessageOf(long_note)), HasSubstr("4097"));
  auto reason = Of<tunefarm::v1::RetireBestConfigRequest>(best);
  reason.set_reason(std::string(4097, 'x'));
  EXPECT_EQ(ReasonOf(farm_.service().catalog_api().RetireBestConfig(reason).status()), "TEXT_TOO_LONG");
  auto nothing = Of<tunefarm::v1::UnpinBestConfigRequest>(best);
  nothing.mutable_key()->set_problem_key("N=7");
  EXPECT_EQ(ReasonOf(farm_.service().catalog_api().UnpinBestConfig(nothing).status()), "BEST_NOT_FOUND");
  nothing.mutable_key()->clear_problem_key();  // as that of a kernel without dims, of which there is none
  EXPECT_EQ(ReasonOf(farm_.service().catalog_api().UnpinBestConfig(nothing).status()), "BEST_NOT_FOUND");
  tunefarm::v1::ListBestConfigChangesRequest list;
  list.mutable_key()->set_problem_key("N=7");
  EXPECT_EQ(ReasonOf(farm_.service().catalog_api().ListBestConfigChanges(list).status()), "BEST_KEY_INVALID");
  list.clear_key();
  list.set_page_token("nonsense");
  EXPECT_EQ(ReasonOf(farm_.service().catalog_api().ListBestConfigChanges(list).status()), "PAGE_TOKEN_INVALID");
  EXPECT_EQ(Ask().catalog_revision(), best.revision()) << "nothing was changed";
}

// The step behind a promotion may be lost and made again, after others have changed the best.
TEST_F(BestChangesTest, ASummaryCountsWhatIsPinnedAndWhatIsOfAnOlderProgram) {
  const auto summarize = [&] {
    const auto response = farm_.service().catalog_api().SummarizeBestConfigs({});
    TUNEFARM_CHECK_OK(response);
    return *response;
  };
  EXPECT_EQ(summarize().summaries_size(), 0);
  Tune();
  const tunefarm::v1::BestConfig best = Ask().best();
  tunefarm::v1::BestConfigSummary summary = summarize().summaries(0);
  EXPECT_EQ(summary.kernel_name(), "scale");
  EXPECT_EQ(summary.device_class_id(), best.device_class_id());
  EXPECT_EQ(summary.device_class_name(), "Test CPU");
  EXPECT_EQ(summary.bests(), 1);
  EXPECT_EQ(summary.pinned(), 0);
  EXPECT_EQ(summary.stale_source(), 0);
  EXPECT_NEAR(summary.gain(), 1.31, 1e-9);
  EXPECT_EQ(summary.promoted_at_ms(), best.promoted_at_ms());
  ASSERT_TRUE(farm_.service().catalog_api().PinBestConfig(Of<tunefarm::v1::PinBestConfigRequest>(best)).ok());
  tunefarm::v1::Kernel changed = TestKernel();
  changed.mutable_sources(0)->set_content("extern \"C\" void scale(const float*, float*) { /* changed */ }");
  ASSERT_TRUE(farm_.service().CreateKernel(changed).ok());
  summary = summarize().summaries(0);
  EXPECT_EQ(summary.pinned(), 1);
  EXPECT_EQ(summary.stale_source(), 1);
  tunefarm::v1::ListBestConfigsRequest list;
  list.set_device_class_id(best.device_class_id());
  EXPECT_EQ(farm_.service().lookup_api().ListBestConfigs(list)->bests_size(), 1);
  list.set_device_class_id("another class");
  EXPECT_EQ(farm_.service().lookup_api().ListBestConfigs(list)->bests_size(), 0);
}

TEST(BestPromotion, APromotionThatIsRepeatedUndoesNothing) {
  const TemporaryDirectory directory;
  auto store = OpenSqliteStore({directory.File("tunefarm.db"), directory.File("backups")});
  TUNEFARM_CHECK_OK(store);
  FakeClock clock;
  ManualExecutor executor(&clock);
  Catalog catalog;
  const auto watch = std::make_shared<CatalogWatch>(&executor, &catalog, 10);
  MissTable misses;
  BestChanges changes(store->get(), &catalog, &misses, watch.get(), &clock);
  BestRow row;
  row.kernel_name = "scale";
  row.program_digest = "program";
  row.problem_key = "N=1";
  row.class_id = "class";
  row.config = "A=1";
  tunefarm::v1::BestConfig detail;
  detail.set_kernel_name("scale");
  row.detail = detail.SerializeAsString();
  row.study_id = 7;
  row.ordinal = 3;
  EXPECT_EQ(*changes.Promote(row), PromotionVerdict::kFiled);
  EXPECT_EQ(*changes.Promote(row), PromotionVerdict::kFiled);
  EXPECT_EQ(catalog.revision(), 2);
  BestRow later = row;
  later.study_id = 8;
  later.config = "A=2";
  EXPECT_EQ(*changes.Promote(later), PromotionVerdict::kFiled);
  EXPECT_EQ(*changes.Promote(row), PromotionVerdict::kFiledBefore);
  tunefarm::v1::RetireBestConfigRequest retire;
  retire.mutable_key()->set_program_digest("program");
  retire.mutable_key()->set_problem_key("N=1");
  retire.mutable_key()->set_device_class_id("class");
  ASSERT_TRUE(changes.Retire(retire).ok());
  EXPECT_EQ(*changes.Promote(later), PromotionVerdict::kFiledBefore);
  EXPECT_EQ(catalog.Find("program", "N=1", "class"), nullptr);
  later.ordinal = 9;
  EXPECT_EQ(*changes.Promote(later), PromotionVerdict::kFiled);
}

}  // namespace
}  // namespace tunefarm
