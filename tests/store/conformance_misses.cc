// Misses in a store: put in and taken out in one write, under what names them, and as they were after a restart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/store/lookup_store.h"
#include "tests/store/conformance.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

MissRow MakeMiss(const std::string& problem_key, int64_t asked = 1, const std::string& class_id = "class") {
  MissRow row;
  row.kernel_name = "matmul";
  row.problem_key = problem_key;
  row.class_id = class_id;
  row.class_name = "NVIDIA H200";
  row.program_digest = "program";
  row.problem = std::string("problem\0of it", 13);
  row.asked = asked;
  row.match = 4;
  row.distance = 1.5;
  row.first_asked_at_ms = kNow;
  row.last_asked_at_ms = kNow + 7;
  return row;
}

std::vector<std::string> Keys(const std::vector<MissRow>& rows) {
  std::vector<std::string> keys;
  for (const MissRow& row : rows) keys.push_back(row.problem_key + " on " + row.class_id);
  return keys;
}

TEST_P(StoreConformance, MissesAreReadBackAsTheyWereWritten) {
  EXPECT_THAT(store_->lookups()->LoadMisses().value(), IsEmpty());
  ASSERT_TRUE(store_->lookups()->WriteMisses({{}, {MakeMiss("m=1", 3)}}).ok());
  Reopen();
  const std::vector<MissRow> rows = store_->lookups()->LoadMisses().value();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].kernel_name, "matmul");
  EXPECT_EQ(rows[0].problem_key, "m=1");
  EXPECT_EQ(rows[0].class_id, "class");
  EXPECT_EQ(rows[0].class_name, "NVIDIA H200");
  EXPECT_EQ(rows[0].program_digest, "program");
  EXPECT_EQ(rows[0].problem, std::string("problem\0of it", 13));
  EXPECT_EQ(rows[0].asked, 3);
  EXPECT_EQ(rows[0].match, 4);
  EXPECT_EQ(rows[0].distance, 1.5);
  EXPECT_EQ(rows[0].first_asked_at_ms, kNow);
  EXPECT_EQ(rows[0].last_asked_at_ms, kNow + 7);
}

TEST_P(StoreConformance, CountsOfSeveralDaemonsAddUpAndTheLaterAnswerStays) {
  MissRow later = MakeMiss("m=1", 3), earlier = MakeMiss("m=1", 4);
  later.last_asked_at_ms = kNow + 100;
  later.match = 5;
  earlier.first_asked_at_ms = kNow - 100;
  ASSERT_TRUE(store_->lookups()->WriteMisses({{}, {later}, true}).ok());
  ASSERT_TRUE(store_->lookups()->WriteMisses({{}, {earlier}, true}).ok());
  const std::vector<MissRow> rows = store_->lookups()->LoadMisses().value();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].asked, 7);
  EXPECT_EQ(rows[0].match, 5);
  EXPECT_EQ(rows[0].first_asked_at_ms, kNow - 100);
  EXPECT_EQ(rows[0].last_asked_at_ms, kNow + 100);
  later.last_asked_at_ms = kNow + 200;
  later.match = 6;
  ASSERT_TRUE(store_->lookups()->WriteMisses({{}, {later}, true}).ok());
  EXPECT_EQ(store_->lookups()->LoadMisses()->at(0).asked, 10);
  EXPECT_EQ(store_->lookups()->LoadMisses()->at(0).match, 6);
}

TEST_P(StoreConformance, AMissIsNamedByKernelProblemAndClass) {
  MissRow other_kernel = MakeMiss("m=1");
  other_kernel.kernel_name = "gemm";
  ASSERT_TRUE(store_->lookups()
                  ->WriteMisses({{}, {MakeMiss("m=1"), other_kernel, MakeMiss("m=2"), MakeMiss("m=1", 1, "other")}})
                  .ok());
  EXPECT_THAT(Keys(store_->lookups()->LoadMisses().value()),
              ElementsAre("m=1 on class", "m=1 on class", "m=1 on other", "m=2 on class"));
  // Written again it is the same miss, with all that has changed.
  MissRow again = MakeMiss("m=1", 9);
  again.program_digest = "edited";
  again.match = 6;
  again.distance = 0;
  again.last_asked_at_ms = kNow + 100;
  ASSERT_TRUE(store_->lookups()->WriteMisses({{}, {again}}).ok());
  std::vector<MissRow> rows = store_->lookups()->LoadMisses().value();
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_EQ(rows[0].kernel_name, "gemm");
  EXPECT_EQ(rows[0].asked, 1);
  EXPECT_EQ(rows[1].asked, 9);
  EXPECT_EQ(rows[1].program_digest, "edited");
  EXPECT_EQ(rows[1].match, 6);
  EXPECT_EQ(rows[1].distance, 0);
  EXPECT_EQ(rows[1].last_asked_at_ms, kNow + 100);
  // One that goes takes no other along, and one that is not there may go.
  ASSERT_TRUE(store_->lookups()->WriteMisses({{MakeMiss("m=1"), MakeMiss("m=3")}, {}}).ok());
  rows = store_->lookups()->LoadMisses().value();
  EXPECT_THAT(Keys(rows), ElementsAre("m=1 on class", "m=1 on other", "m=2 on class"));
  EXPECT_EQ(rows[0].kernel_name, "gemm");
}

TEST_P(StoreConformance, WhatGoesAndComesBackInOneWriteIsThere) {
  ASSERT_TRUE(store_->lookups()->WriteMisses({{}, {MakeMiss("m=1", 5)}}).ok());
  ASSERT_TRUE(store_->lookups()->WriteMisses({{MakeMiss("m=1")}, {MakeMiss("m=1", 2)}}).ok());
  const std::vector<MissRow> rows = store_->lookups()->LoadMisses().value();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].asked, 2);
}

TEST_P(StoreConformance, AWriteOfMissesIsBoundedAndWhole) {
  MissChanges changes;
  for (int i = 0; i < 1000; ++i) changes.present.push_back(MakeMiss("m=" + std::to_string(i)));
  ASSERT_TRUE(store_->lookups()->WriteMisses(changes).ok());
  EXPECT_THAT(store_->lookups()->LoadMisses().value(), SizeIs(1000));
  changes.gone.push_back(MakeMiss("m=0"));
  EXPECT_TRUE(absl::IsInvalidArgument(store_->lookups()->WriteMisses(changes)));
  // One that breaks a bound undoes those before it.
  EXPECT_FALSE(
      store_->lookups()->WriteMisses({{MakeMiss("m=0")}, {MakeMiss("new"), MakeMiss(std::string(5000, 'm'))}}).ok());
  EXPECT_THAT(store_->lookups()->LoadMisses().value(), SizeIs(1000));
}

}  // namespace
}  // namespace tunefarm
