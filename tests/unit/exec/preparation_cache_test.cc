#include "server/exec/preparation_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/exec/fake_kernel.h"

namespace tunefarm {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class PreparationCacheTest : public testing::Test {
 protected:
  std::shared_ptr<const WorkerPreparation> Get(uint64_t seed = 1) {
    return cache_.Get(plan_, problem_, device_class_, seed, reference_, data_files_);
  }

  PreparationCache cache_{{"-lineinfo"}};
  std::shared_ptr<const KernelPlan> plan_ = FakeKernelPlan();
  std::shared_ptr<const ResolvedProblem> problem_ = FakeProblem(*plan_, 1);
  DeviceClass device_class_ = FakeDeviceClass();
  std::shared_ptr<const Artifact> reference_ = std::make_shared<Artifact>();
  std::vector<DataFileHandle> data_files_;
};

TEST_F(PreparationCacheTest, SaysAllThatAWorkerMustKnow) {
  const auto preparation = Get(7);
  EXPECT_EQ(preparation->plan, plan_);
  EXPECT_EQ(preparation->problem.key(), problem_->key);
  EXPECT_EQ(preparation->device_class.id(), device_class_.Id());
  EXPECT_EQ(preparation->input_seed, 7u);
  EXPECT_EQ(preparation->reference_artifact, reference_);
  EXPECT_THAT(preparation->compile_options, ElementsAre("-lineinfo"));
}

TEST_F(PreparationCacheTest, TrialsOfOneProblemShareOne) {
  const auto first = Get();
  const auto other = Get(2);
  EXPECT_NE(other, first);
  EXPECT_EQ(Get(), first);
  EXPECT_EQ(Get(2), other);
}

TEST_F(PreparationCacheTest, WhateverDiffersMakesAnother) {
  std::vector<std::shared_ptr<const WorkerPreparation>> all = {Get(), Get(2)};
  reference_ = std::make_shared<Artifact>();
  all.push_back(Get());
  reference_ = nullptr;
  all.push_back(Get());
  problem_ = FakeProblem(*plan_, 2);
  all.push_back(Get());
  device_class_.sm_count = 2;
  all.push_back(Get());
  reference_ = std::make_shared<Artifact>(Artifact{"made of other headers", {}});
  all.push_back(Get());
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(all[i], all[j]) << i << " and " << j;
  }
  // Of the reference its content is part of the key, since outputs that it made are kept by the key.
  EXPECT_EQ(all[2]->key, all[0]->key);
  EXPECT_EQ(all[3]->key, all[0]->key);
  for (const size_t i : {1, 4, 5, 6}) EXPECT_NE(all[i]->key, all[i - 1]->key) << i;
}

TEST_F(PreparationCacheTest, FilesThatWereOpenedAgainTakeThePlaceOfThoseBefore) {
  const auto without = Get();
  data_files_ = {{"aa", 4, std::make_shared<const UniqueFd>()}};
  const auto first = Get();
  EXPECT_NE(first, without) << "a compile needs none";
  ASSERT_THAT(first->data_files, SizeIs(1));
  EXPECT_EQ(Get(), first);
  data_files_[0].file = std::make_shared<const UniqueFd>();
  const auto again = Get();
  EXPECT_EQ(again->data_files[0].file, data_files_[0].file);
  EXPECT_EQ(again->key, first->key) << "the same content";
}

TEST_F(PreparationCacheTest, WhatIsTheSameButNotTheSameObjectHasTheSameKey) {
  const auto first = Get();
  problem_ = FakeProblem(*plan_, 1);
  EXPECT_NE(Get(), first);
  EXPECT_EQ(Get()->key, first->key);
}

TEST_F(PreparationCacheTest, OfManyProblemsTheLastStay) {
  const std::weak_ptr<const WorkerPreparation> first = Get(1);
  EXPECT_FALSE(first.expired());
  std::shared_ptr<const WorkerPreparation> last;
  for (uint64_t seed = 2; seed <= 200; ++seed) last = Get(seed);
  EXPECT_TRUE(first.expired());
  EXPECT_EQ(Get(200), last);
}

}  // namespace
}  // namespace tunefarm
