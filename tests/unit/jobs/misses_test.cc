// Misses of a whole farm: what is counted, what a promotion takes away, what stays over a restart.
#include "server/catalog/misses.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/status.h"
#include "server/store/lookup_store.h"
#include "server/upkeep/miss_writer.h"
#include "tests/fakes/log_capture.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using tunefarm::v1::Miss;

class MissesTest : public testing::Test {
 protected:
  tunefarm::v1::Match Ask(int64_t n, tunefarm::v1::Match worst = tunefarm::v1::MATCH_UNSPECIFIED,
                          const std::string& kernel = "scale") {
    tunefarm::v1::LookupConfigRequest request;
    request.set_kernel(kernel);
    *request.mutable_problem() = TestProblem(n);
    request.set_worst_match(worst);
    const auto answer = farm_.service().lookup_api().LookupConfig(request);
    TUNEFARM_CHECK_OK(answer);
    return answer->match();
  }

  void AskBatch(const std::vector<int64_t>& sizes) {
    tunefarm::v1::BatchLookupConfigsRequest batch;
    batch.set_kernel("scale");
    batch.set_configs_only(true);
    auto* const column = batch.add_columns();
    column->set_dim("N");
    for (const int64_t n : sizes) column->add_ints(n);
    TUNEFARM_CHECK_OK(farm_.service().lookup_api().BatchLookupConfigs(batch));
  }

  std::vector<Miss> List(const tunefarm::v1::ListMissesRequest& request = {}) {
    const auto response = farm_.service().catalog_api().ListMisses(request);
    TUNEFARM_CHECK_OK(response);
    return {response->misses().begin(), response->misses().end()};
  }

  // "N=64 x3", as listed.
  std::vector<std::string> Listed() {
    std::vector<std::string> listed;
    for (const Miss& miss : List()) listed.push_back(miss.problem().key() + " x" + std::to_string(miss.count()));
    return listed;
  }

  void Restart() {
    farm_.Crash();
    farm_.Boot();
  }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path()};
};

TEST_F(MissesTest, WhatIsNotExactIsCountedAndNothingElse) {
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024})));
  EXPECT_EQ(Ask(1024), tunefarm::v1::MATCH_EXACT);
  EXPECT_THAT(Listed(), IsEmpty());
  const int64_t before_ms = farm_.clock.WallMs();
  EXPECT_EQ(Ask(2048), tunefarm::v1::MATCH_NEAREST_SHAPE);
  farm_.RunFor(std::chrono::seconds(5));
  EXPECT_EQ(Ask(2048), tunefarm::v1::MATCH_NEAREST_SHAPE);
  EXPECT_EQ(Ask(int64_t{1} << 30), tunefarm::v1::MATCH_DEFAULT);
  EXPECT_EQ(Ask(4096, tunefarm::v1::MATCH_EXACT), tunefarm::v1::MATCH_NOT_FOUND);
  tunefarm::v1::LookupConfigRequest unknown;
  unknown.set_kernel("scael");
  EXPECT_FALSE(farm_.service().lookup_api().LookupConfig(unknown).ok());
  unknown.set_kernel("scale");
  *unknown.mutable_problem() = TestProblem(-1);
  EXPECT_FALSE(farm_.service().lookup_api().LookupConfig(unknown).ok());

  EXPECT_THAT(Listed(), ElementsAre("N=2048 x2", "N=1073741824 x1", "N=4096 x1"));
  const std::vector<Miss> misses = List();
  EXPECT_EQ(misses[0].kernel_name(), "scale");
  EXPECT_EQ(misses[0].problem().dims().at("N").int_value(), 2048);
  EXPECT_EQ(misses[0].device_class_name(), "Test CPU");
  EXPECT_EQ(misses[0].device_class_id(), farm_.service().devices().List()[0].device_class().id());
  EXPECT_EQ(misses[0].match(), tunefarm::v1::MATCH_NEAREST_SHAPE);
  EXPECT_EQ(misses[0].distance(), 1);
  EXPECT_EQ(misses[0].first_asked_at_ms(), before_ms);
  EXPECT_EQ(misses[0].last_asked_at_ms(), before_ms + 5000);
  EXPECT_EQ(misses[1].match(), tunefarm::v1::MATCH_DEFAULT);
  EXPECT_EQ(misses[2].match(), tunefarm::v1::MATCH_NOT_FOUND);
  EXPECT_EQ(farm_.service().misses().stored(), 3);
  const TrialCounts counts = farm_.service().tally().counts();
  EXPECT_EQ(counts.lookups, 7);
  EXPECT_EQ(counts.answers[tunefarm::v1::MATCH_NEAREST_SHAPE], 2);
  EXPECT_EQ(counts.answers[tunefarm::v1::MATCH_EXACT], 1);
  EXPECT_EQ(counts.answers[tunefarm::v1::MATCH_NOT_FOUND], 1);
}

TEST_F(MissesTest, BatchesCountRowByRow) {
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024, 4096})));
  AskBatch({1024, 2048, 1024, 2048, 4096, int64_t{1} << 30});
  EXPECT_THAT(Listed(), ElementsAre("N=2048 x2", "N=1073741824 x1"));
  AskBatch({2048, 4096});
  EXPECT_EQ(Ask(2048), tunefarm::v1::MATCH_NEAREST_SHAPE);
  EXPECT_THAT(Listed(), ElementsAre("N=2048 x4", "N=1073741824 x1"));
  EXPECT_EQ(List()[0].problem().dims().at("N").int_value(), 2048);
  EXPECT_EQ(farm_.service().tally().counts().answers[tunefarm::v1::MATCH_EXACT], 4);
}

TEST_F(MissesTest, StaleAnswersAreMissesUntilTheyAreTunedAgain) {
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024})));
  tunefarm::v1::Device newer = HostDevice();
  newer.set_toolkit_version("13.1.0");
  farm_.clock.Advance(std::chrono::milliseconds(1));  // asked in the millisecond of the promotion it counts as tuned
  ASSERT_TRUE(farm_.service().SetDevices({newer}).ok());
  EXPECT_EQ(Ask(1024), tunefarm::v1::MATCH_STALE);
  AskBatch({1024, 1024});
  EXPECT_THAT(Listed(), ElementsAre("N=1024 x3"));
  EXPECT_EQ(List()[0].match(), tunefarm::v1::MATCH_STALE);
  EXPECT_EQ(List()[0].problem().dims().at("N").int_value(), 1024);
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024})));
  EXPECT_EQ(Ask(1024), tunefarm::v1::MATCH_EXACT);
  EXPECT_THAT(Listed(), IsEmpty());
}

TEST_F(MissesTest, APromotionTakesExactlyItsProblemAway) {
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024})));
  Ask(2048);
  Ask(4096);
  ASSERT_TRUE(farm_.service().misses().Write().ok());
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({2048})));
  EXPECT_THAT(Listed(), ElementsAre("N=4096 x1"));
  // The store hears of it with the next write.
  ASSERT_TRUE(farm_.service().misses().Write().ok());
  EXPECT_THAT(farm_.store().lookups()->LoadMisses().value(), SizeIs(1));
  // A job that promotes nothing takes nothing away.
  tunefarm::v1::Job job;
  job.set_no_promotion(true);
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({4096}, TestKernel(), job)));
  EXPECT_THAT(Listed(), ElementsAre("N=4096 x1"));
}

TEST_F(MissesTest, TheNewestDefinitionOfANameTakesAwayWhatOlderOnesWereAskedFor) {
  tunefarm::v1::Kernel edited = TestKernel();
  edited.mutable_sources(0)->set_content("extern \"C\" void scale(const float*, float*) { }  // edited");
  const std::string of_the_older = farm_.SubmitJob({4096}, TestKernel());
  ASSERT_TRUE(farm_.service().CreateKernel(edited).ok());
  Ask(4096);
  Ask(8192);
  farm_.RunFor(std::chrono::milliseconds(1));
  ASSERT_TRUE(farm_.Finish(of_the_older));
  EXPECT_THAT(Listed(), ElementsAre("N=4096 x1", "N=8192 x1")) << "an older definition answers none of these questions";

  // A job's definition is the newest of its name. Nobody has asked for it.
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({8192}, TestKernel())));
  EXPECT_THAT(Listed(), IsEmpty()) << "the best of 4096 is of the newest definition, too";
  EXPECT_EQ(Ask(4096), tunefarm::v1::MATCH_EXACT);
  ASSERT_TRUE(farm_.service().misses().Write().ok());
  EXPECT_THAT(farm_.store().lookups()->LoadMisses().value(), IsEmpty());
  // Callers of the other definition are counted again.
  farm_.RunFor(std::chrono::milliseconds(1));
  ASSERT_TRUE(farm_.service().CreateKernel(edited).ok());
  EXPECT_EQ(Ask(4096), tunefarm::v1::MATCH_STALE_SOURCE);
  EXPECT_THAT(Listed(), ElementsAre("N=4096 x1"));
}

TEST_F(MissesTest, WhatWasWrittenDownIsThereAfterACrash) {
  ASSERT_TRUE(farm_.service().CreateKernel(TestKernel()).ok());
  Ask(64);
  Ask(64);
  Ask(128);
  EXPECT_EQ(farm_.service().misses().unwritten(), 2);
  ASSERT_TRUE(farm_.service().misses().Write().ok());
  EXPECT_EQ(farm_.service().misses().unwritten(), 0);
  const std::vector<Miss> before = List();
  Ask(64);  // is forgotten
  Restart();
  EXPECT_THAT(Listed(), ElementsAre("N=64 x2", "N=128 x1"));
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(List()[i].SerializeAsString(), before[i].SerializeAsString());
  }
  // And they go on from there.
  Ask(64);
  ASSERT_TRUE(farm_.service().misses().Write().ok());
  Restart();
  EXPECT_THAT(Listed(), ElementsAre("N=64 x3", "N=128 x1"));
}

TEST_F(MissesTest, WhatWasPromotedBeforeTheCrashIsNoMissAfterIt) {
  ASSERT_TRUE(farm_.service().CreateKernel(TestKernel()).ok());
  Ask(64);
  Ask(128);
  ASSERT_TRUE(farm_.service().misses().Write().ok());
  farm_.RunFor(std::chrono::seconds(1));
  ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({64})));
  Restart();  // the promotion is on disk, that it takes the miss away is not
  EXPECT_THAT(Listed(), ElementsAre("N=128 x1"));
  ASSERT_TRUE(farm_.service().misses().Write().ok());
  EXPECT_THAT(farm_.store().lookups()->LoadMisses().value(), SizeIs(1));
}

TEST_F(MissesTest, AStoreThatFailsHoldsUpNoLookUpAndLosesNothing) {
  ASSERT_TRUE(farm_.service().CreateKernel(TestKernel()).ok());
  Ask(64);
  farm_.hooked_store->instead_of("WriteMisses") = [] { return Unavailable("the disk is full"); };
  EXPECT_TRUE(absl::IsUnavailable(farm_.service().misses().Write()));
  EXPECT_EQ(Ask(64), tunefarm::v1::MATCH_DEFAULT);
  EXPECT_EQ(Ask(128), tunefarm::v1::MATCH_DEFAULT);
  EXPECT_TRUE(absl::IsUnavailable(farm_.service().misses().Write()));
  EXPECT_THAT(Listed(), ElementsAre("N=64 x2", "N=128 x1"));
  EXPECT_EQ(farm_.service().misses().unwritten(), 2);
  farm_.hooked_store->instead_of("WriteMisses") = nullptr;
  ASSERT_TRUE(farm_.service().misses().Write().ok());
  Restart();
  EXPECT_THAT(Listed(), ElementsAre("N=64 x2", "N=128 x1"));
}

TEST_F(MissesTest, ManyAreWrittenInParts) {
  ASSERT_TRUE(farm_.service().CreateKernel(TestKernel()).ok());
  std::vector<int64_t> sizes;
  for (int64_t n = 1; n <= 1200; ++n) sizes.push_back(n);
  AskBatch(sizes);
  // The second part fails: those of the first are not written again.
  int writes = 0;
  farm_.hooked_store->instead_of("WriteMisses") = [&writes] {
    return ++writes == 2 ? Unavailable("the disk is full") : absl::OkStatus();
  };
  EXPECT_FALSE(farm_.service().misses().Write().ok());
  EXPECT_EQ(farm_.service().misses().unwritten(), 700);
  ASSERT_TRUE(farm_.service().misses().Write().ok());
  EXPECT_EQ(writes, 4);
  EXPECT_THAT(farm_.store().lookups()->LoadMisses().value(), SizeIs(1200));
}

TEST_F(MissesTest, PagesAreInOrderAndNoneIsOnTwo) {
  ASSERT_TRUE(farm_.service().CreateKernel(TestKernel()).ok());
  for (const int64_t n : {1, 2, 3, 4, 5, 6, 7}) {
    for (int64_t i = 0; i <= n % 4; ++i) Ask(n);
  }
  EXPECT_THAT(Listed(), ElementsAre("N=3 x4", "N=7 x4", "N=2 x3", "N=6 x3", "N=1 x2", "N=5 x2", "N=4 x1"));
  tunefarm::v1::ListMissesRequest request;
  request.set_page_size(3);
  std::vector<std::string> seen;
  do {
    const auto page = farm_.service().catalog_api().ListMisses(request);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const Miss& miss : page->misses()) seen.push_back(miss.problem().key());
    request.set_page_token(page->next_page_token());
    Ask(3);  // was on the first page, and is not on another
  } while (!request.page_token().empty());
  EXPECT_THAT(seen, ElementsAre("N=3", "N=7", "N=2", "N=6", "N=1", "N=5", "N=4"));
  request.set_page_token("nonsense");
  EXPECT_EQ(ReasonOf(farm_.service().catalog_api().ListMisses(request).status()), "PAGE_TOKEN_INVALID");
  request.clear_page_token();
  request.set_page_size(-1);
  EXPECT_EQ(ReasonOf(farm_.service().catalog_api().ListMisses(request).status()), "PAGE_SIZE_INVALID");
}

TEST_F(MissesTest, AreListedAndForgottenByKernelAndClass) {
  ASSERT_TRUE(farm_.service().CreateKernel(TestKernel()).ok());
  ASSERT_TRUE(farm_.service().CreateKernel(TestKernel(false, "other")).ok());
  Ask(64);
  Ask(64, tunefarm::v1::MATCH_UNSPECIFIED, "other");
  tunefarm::v1::ListMissesRequest request;
  request.set_kernel("other");
  EXPECT_THAT(List(request), SizeIs(1));
  request.set_kernel("nothing");
  EXPECT_THAT(List(request), IsEmpty());
  request.clear_kernel();
  request.set_device_class_id(farm_.service().devices().List()[0].device_class().id());
  EXPECT_THAT(List(request), SizeIs(2));
  request.set_device_class_id("another");
  EXPECT_THAT(List(request), IsEmpty());

  ASSERT_TRUE(farm_.service().misses().Write().ok());
  tunefarm::v1::DeleteMissesRequest forget;
  forget.set_kernel("other");
  EXPECT_EQ(farm_.service().catalog_api().DeleteMisses(forget)->deleted(), 1);
  Restart();  // when it was answered it was durable
  EXPECT_THAT(Listed(), ElementsAre("N=64 x1"));
  farm_.hooked_store->instead_of("WriteMisses") = [] { return Unavailable("the disk is full"); };
  EXPECT_TRUE(absl::IsUnavailable(farm_.service().catalog_api().DeleteMisses({}).status()));
  EXPECT_THAT(Listed(), ElementsAre("N=64 x1"));
  farm_.hooked_store->instead_of("WriteMisses") = nullptr;
  EXPECT_EQ(farm_.service().catalog_api().DeleteMisses({})->deleted(), 1);
  EXPECT_THAT(farm_.store().lookups()->LoadMisses().value(), IsEmpty());
}

TEST(MissWriter, WritesEveryTenSecondsAndSaysOnceThatItCannot) {
  FakeClock clock;
  ManualExecutor executor(&clock);
  LogCapture log;
  int writes = 0;
  absl::Status answer = absl::OkStatus();
  const auto writer = std::make_shared<MissWriter>(&executor, [&] {
    ++writes;
    return answer;
  });
  writer->Start();
  executor.AdvanceBy(std::chrono::seconds(9));
  EXPECT_EQ(writes, 0);
  executor.AdvanceBy(std::chrono::seconds(1));
  EXPECT_EQ(writes, 1);
  answer = Unavailable("the disk is full");
  executor.AdvanceBy(std::chrono::seconds(30));
  EXPECT_EQ(writes, 4);
  ASSERT_THAT(log.lines(), SizeIs(1));
  EXPECT_THAT(log.lines()[0].message, HasSubstr("the disk is full"));
  answer = absl::OkStatus();
  executor.AdvanceBy(std::chrono::seconds(20));
  EXPECT_EQ(writes, 6);
  writer->Stop();
  executor.AdvanceBy(std::chrono::minutes(5));
  EXPECT_EQ(writes, 6);
}

}  // namespace
}  // namespace tunefarm
