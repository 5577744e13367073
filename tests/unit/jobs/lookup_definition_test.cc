// Lookups for one of several definitions that share a name.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/status.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

class LookupDefinitionTest : public testing::Test {
 protected:
  LookupDefinitionTest() { farm_.evaluator().set_scripter(Bowl); }

  static v1::Kernel Edited(const std::string& comment) {
    v1::Kernel kernel = TestKernel();
    kernel.mutable_sources(0)->mutable_content()->append("  // " + comment);
    return kernel;
  }
  static std::string DigestOf(const v1::Kernel& kernel) {
    return KernelPlan::Compile(kernel).value()->program_digest();
  }
  void Tune(const v1::Kernel& kernel) { ASSERT_TRUE(farm_.Finish(farm_.SubmitJob({1024}, kernel))); }
  v1::LookupConfigResponse Ask(const std::string& digest, v1::Match worst = v1::MATCH_DEFAULT) {
    v1::LookupConfigRequest request;
    request.set_kernel("scale");
    request.set_program_digest(digest);
    request.set_worst_match(worst);
    *request.mutable_problem() = TestProblem(1024);
    const auto response = farm_.service().lookup_api().LookupConfig(request);
    TUNEFARM_CHECK_OK(response.status());
    return *response;
  }
  v1::BatchLookupConfigsResponse AskBatch(const std::string& digest) {
    v1::BatchLookupConfigsRequest request;
    request.set_kernel("scale");
    request.set_program_digest(digest);
    auto* const column = request.add_columns();
    column->set_dim("N");
    column->add_ints(1024);
    const auto response = farm_.service().lookup_api().BatchLookupConfigs(request);
    TUNEFARM_CHECK_OK(response.status());
    return *response;
  }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path()};
  const v1::Kernel first_ = TestKernel(), second_ = Edited("second");
};

TEST_F(LookupDefinitionTest, AnEditThatWasNeverSubmittedHasNoExactAnswer) {
  Tune(first_);
  const v1::LookupConfigResponse own = Ask(DigestOf(first_));
  EXPECT_EQ(own.match(), v1::MATCH_EXACT);
  EXPECT_EQ(own.program_digest(), DigestOf(first_));
  EXPECT_EQ(own.kernel(), farm_.service().GetKernel("scale")->name());
  const v1::LookupConfigResponse edited = Ask(DigestOf(second_));
  EXPECT_EQ(edited.match(), v1::MATCH_STALE_SOURCE);
  EXPECT_EQ(edited.program_digest(), DigestOf(first_)) << "the definition that stands for the one that is not stored";
  EXPECT_EQ(Ask(DigestOf(second_), v1::MATCH_EXACT).match(), v1::MATCH_NOT_FOUND);
  EXPECT_EQ(AskBatch(DigestOf(first_)).matches(0), v1::MATCH_EXACT);
  EXPECT_EQ(AskBatch(DigestOf(second_)).matches(0), v1::MATCH_STALE_SOURCE);
  EXPECT_EQ(AskBatch(DigestOf(second_)).program_digest(), DigestOf(first_));
  // Such a question is a miss.
  EXPECT_EQ(farm_.service().catalog_api().ListMisses({})->misses_size(), 1);
}

TEST_F(LookupDefinitionTest, AStoredDefinitionAnswersForItselfWhateverIsTheNewest) {
  Tune(first_);
  ASSERT_TRUE(farm_.service().CreateKernel(second_).ok());
  EXPECT_EQ(Ask("").match(), v1::MATCH_STALE_SOURCE);
  EXPECT_EQ(Ask("").program_digest(), DigestOf(second_));
  EXPECT_EQ(Ask(DigestOf(first_)).match(), v1::MATCH_EXACT);
  EXPECT_EQ(Ask(DigestOf(first_)).program_digest(), DigestOf(first_));
  EXPECT_EQ(AskBatch(DigestOf(first_)).matches(0), v1::MATCH_EXACT);
  // The edit is taken back: what is submitted last is the newest again, also after a restart.
  ASSERT_TRUE(farm_.service().CreateKernel(first_).ok());
  EXPECT_EQ(Ask("").match(), v1::MATCH_EXACT);
  farm_.Crash();
  farm_.Boot();
  EXPECT_EQ(Ask("").match(), v1::MATCH_EXACT);
  EXPECT_EQ(Ask("").program_digest(), DigestOf(first_));
}

TEST_F(LookupDefinitionTest, ANameWithSeveralTunedProgramsIsSaidToBeAmbiguous) {
  Tune(first_);
  EXPECT_EQ(Ask("").other_programs(), 0);
  Tune(second_);
  EXPECT_EQ(Ask("").match(), v1::MATCH_EXACT);
  EXPECT_EQ(Ask("").program_digest(), DigestOf(second_));
  EXPECT_EQ(Ask("").other_programs(), 1);
  EXPECT_EQ(Ask(DigestOf(first_)).other_programs(), 0) << "nothing is ambiguous about a digest";
  v1::ListBestConfigsRequest list;
  list.set_kernel("scale");
  EXPECT_EQ(farm_.service().lookup_api().ListBestConfigs(list)->bests_size(), 2);
  list.set_program_digest(DigestOf(first_));
  const auto own = farm_.service().lookup_api().ListBestConfigs(list);
  ASSERT_EQ(own->bests_size(), 1);
  EXPECT_EQ(own->bests(0).program_digest(), DigestOf(first_));
}

TEST_F(LookupDefinitionTest, AProblemThatOnlyAnUnknownDefinitionTakesIsExplained) {
  ASSERT_TRUE(farm_.service().CreateKernel(first_).ok());
  v1::LookupConfigRequest request;
  request.set_kernel("scale");
  request.set_program_digest(DigestOf(second_));
  *request.mutable_problem() = TestProblem(1024);
  (*request.mutable_problem()->mutable_dims())["M"].set_int_value(1);
  const absl::Status refused = farm_.service().lookup_api().LookupConfig(request).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(MessageOf(refused)), HasSubstr("was never submitted"));
  request.set_program_digest(std::string(200, 'a'));
  EXPECT_EQ(ReasonOf(farm_.service().lookup_api().LookupConfig(request).status()), "PROGRAM_DIGEST_INVALID");
}

}  // namespace
}  // namespace tunefarm
