#include "server/farm/claim_table.h"

#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tunefarm {
namespace {

Claim MakeClaim(int64_t unit_id, const std::string& agent_id, int64_t job_id = 1) {
  Claim claim;
  claim.unit_id = unit_id;
  claim.agent_id = agent_id;
  claim.job_id = job_id;
  claim.delivered = true;
  return claim;
}

TEST(ClaimTableTest, FindsByUnitAndByAgent) {
  ClaimTable table;
  table.Put(MakeClaim(3, "a"));
  table.Put(MakeClaim(1, "a"));
  table.Put(MakeClaim(2, "b"));
  EXPECT_EQ(table.OfAgent("a"), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(table.OfAgent("nobody"), std::vector<int64_t>{});
  EXPECT_EQ(table.Find(2)->agent_id, "b");
  EXPECT_EQ(table.Find(4), nullptr);
  table.Erase(1);
  table.Erase(1);
  EXPECT_EQ(table.OfAgent("a"), std::vector<int64_t>{3});
}

TEST(ClaimTableTest, AUnitThatAnotherAgentHasIsNoLongerTheFirstOnes) {
  ClaimTable table;
  table.Put(MakeClaim(1, "a"));
  table.Put(MakeClaim(1, "b"));
  EXPECT_TRUE(table.OfAgent("a").empty());
  EXPECT_EQ(table.OfAgent("b"), std::vector<int64_t>{1});
  EXPECT_EQ(table.all().size(), 1);
}

TEST(ClaimTableTest, AgentsAndJobsGoWhole) {
  ClaimTable table;
  table.Put(MakeClaim(1, "a", 7));
  table.Put(MakeClaim(2, "a", 8));
  table.Put(MakeClaim(3, "b", 7));
  table.EraseJob(7);
  EXPECT_EQ(table.all().size(), 1);
  EXPECT_TRUE(table.OfAgent("b").empty());
  table.EraseAgent("a");
  EXPECT_TRUE(table.all().empty());
}

TEST(ClaimTableTest, WhatIsGivenUpEndsWhenItsAgentHasLetItGo) {
  ClaimTable table;
  table.Put(MakeClaim(1, "a"));
  table.SetMode(table.Find(1), ClaimMode::kDropped);
  EXPECT_TRUE(table.ended().empty());
  table.SetDelivered(table.Find(1), false);
  EXPECT_EQ(table.ended(), std::set<int64_t>{1});
  table.SetMode(table.Find(1), ClaimMode::kHeld);
  EXPECT_TRUE(table.ended().empty());
  Claim dropped = MakeClaim(2, "a");
  dropped.mode = ClaimMode::kDropped;
  dropped.delivered = false;
  table.Put(dropped);
  EXPECT_EQ(table.ended(), std::set<int64_t>{2});
  table.Erase(2);
  EXPECT_TRUE(table.ended().empty());
  table.Put(dropped);
  table.Clear();
  EXPECT_TRUE(table.ended().empty());
}

}  // namespace
}  // namespace tunefarm
