// Whether there is anything to take a measurement over from.
#include "server/farm/other_studies.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/store/kernel_store.h"
#include "server/store/study_store.h"
#include "tests/unit/jobs/farm.h"

namespace tunefarm {
namespace {

class OtherStudiesTest : public testing::Test {
 protected:
  OtherStudiesTest() {
    farm_.hooked_store->instead_of("StudiesOfProgram") = [this] {
      ++reads_;
      return fault_;
    };
  }
  // Of a job that has ended, with one study each problem; the oldest first.
  std::vector<KnownStudyRow> Tune(const std::vector<int64_t>& sizes) {
    EXPECT_TRUE(farm_.Finish(farm_.SubmitJob(sizes)));
    auto studies = *farm_.hooked_store->studies()->StudiesOfProgram(Digest(), 1000);
    reads_ = 0;
    std::reverse(studies.begin(), studies.end());
    return studies;
  }
  std::string Digest() { return farm_.hooked_store->kernels()->FindKernel("scale")->program_digest; }
  bool Exist(const KnownStudyRow& study) {
    const auto exist = others_.Exist(study.study_id, Digest(), study.problem_key, study.class_id);
    EXPECT_TRUE(exist.ok()) << exist.status();
    return exist.ok() && *exist;
  }

  TemporaryDirectory directory_;
  Farm farm_{directory_.path()};
  int reads_ = 0;
  absl::Status fault_;
  OtherStudies others_{farm_.hooked_store.get(), &farm_.clock};
};

TEST_F(OtherStudiesTest, AStudyAloneWithItsProblemAndClassHasNone) {
  const auto studies = Tune({512, 1024});
  ASSERT_EQ(studies.size(), 2u);
  EXPECT_FALSE(Exist(studies[0]));
  EXPECT_FALSE(Exist(studies[1]));
  KnownStudyRow elsewhere = studies[0];
  elsewhere.class_id = "another class";
  EXPECT_FALSE(Exist(elsewhere));
  EXPECT_FALSE(*others_.Exist(studies[0].study_id, "another program", studies[0].problem_key, studies[0].class_id));
}

TEST_F(OtherStudiesTest, TheSameProblemAgainHasTheOneBefore) {
  Tune({512});
  const auto studies = Tune({512, 1024});
  ASSERT_EQ(studies.size(), 3u);
  EXPECT_TRUE(Exist(studies[0])) << "a later one";
  EXPECT_TRUE(Exist(studies[1]));
  EXPECT_FALSE(Exist(studies[2]));
}

TEST_F(OtherStudiesTest, TheStoreIsAskedOnceUntilAnAnswerIsOldOrTheStudyIsNotInIt) {
  const auto first = Tune({512});
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(Exist(first[0]));
  EXPECT_EQ(reads_, 1);
  const auto all = Tune({512});
  farm_.clock.Advance(OtherStudies::kKept / 2);
  EXPECT_TRUE(Exist(all[1])) << "it began after the answer that is kept";
  EXPECT_EQ(reads_, 1);
  EXPECT_TRUE(Exist(all[0]));
  EXPECT_EQ(reads_, 1);
  farm_.clock.Advance(OtherStudies::kKept + std::chrono::milliseconds(1));
  EXPECT_TRUE(Exist(all[0]));
  EXPECT_EQ(reads_, 2);
}

TEST_F(OtherStudiesTest, AStoreThatDoesNotAnswerIsAnErrorAndAskedAgain) {
  const auto studies = Tune({512});
  fault_ = absl::UnavailableError("gone");
  EXPECT_FALSE(others_.Exist(studies[0].study_id, Digest(), studies[0].problem_key, studies[0].class_id).ok());
  fault_ = absl::OkStatus();
  EXPECT_FALSE(Exist(studies[0]));
}

TEST_F(OtherStudiesTest, OfMoreStudiesThanAreReadSomeMayBeOfTheProblem) {
  const auto studies = Tune({64, 128, 256});
  EXPECT_FALSE(Exist(studies[0]));
  OtherStudies some(farm_.hooked_store.get(), &farm_.clock, 3);
  reads_ = 0;
  for (const int64_t study_id : {studies[0].study_id, studies[2].study_id + 1}) {
    EXPECT_TRUE(*some.Exist(study_id, Digest(), studies[0].problem_key, studies[0].class_id)) << study_id;
  }
  EXPECT_EQ(reads_, 1) << "also for a study that is not among those that were read";
}

}  // namespace
}  // namespace tunefarm
