#include "client/cli/options/cost_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "server/base/status.h"

namespace tunefarm::cli {
namespace {

TEST(CostOptionTest, ReadsModesAndTheFactor) {
  EXPECT_EQ(ParseCostModel("").value().ByteSizeLong(), 0u);
  EXPECT_EQ(ParseCostModel("off").value().mode(), v1::COST_MODEL_MODE_OFF);
  EXPECT_EQ(ParseCostModel("rank").value().mode(), v1::COST_MODEL_MODE_RANK);
  EXPECT_EQ(ParseCostModel("prune").value().mode(), v1::COST_MODEL_MODE_PRUNE);
  EXPECT_EQ(ParseCostModel("prune").value().factor(), 0);
  EXPECT_EQ(ParseCostModel("prune=2.5").value().mode(), v1::COST_MODEL_MODE_PRUNE);
  EXPECT_EQ(ParseCostModel("prune=2.5").value().factor(), 2.5);
}

TEST(CostOptionTest, SaysWhatToWriteInstead) {
  for (const std::string text : {"on", "prune2", "rank=2", "Prune"}) {
    EXPECT_EQ(MessageOf(ParseCostModel(text).status()),
              "--cost-model " + text + ": write off, rank, prune or prune=FACTOR");
  }
  for (const std::string text : {"prune=", "prune=x", "prune=0.5", "prune=2x", "prune=nan", "prune=inf", "prune=-1"}) {
    EXPECT_EQ(MessageOf(ParseCostModel(text).status()),
              "--cost-model " + text + ": the factor must be a number of at least 1");
  }
}

TEST(CostOptionTest, SaysWhatAJobDoesWithPredictions) {
  v1::Job job;
  EXPECT_EQ(CostModelText(job), "off");
  v1::CostModel* const model = job.mutable_strategy()->mutable_cost_model();
  model->set_mode(v1::COST_MODEL_MODE_RANK);
  EXPECT_EQ(CostModelText(job), "rank: predicted times guide the search");
  model->set_mode(v1::COST_MODEL_MODE_PRUNE);
  model->set_factor(2.5);
  EXPECT_EQ(CostModelText(job), "prune: at most 2.5 x the least predicted time");
  // Over all problems, and not what other rules remove.
  for (const int64_t removed : {1000, 240}) {
    v1::SpaceSize* const space = job.add_studies()->mutable_space();
    v1::RuleCount* rule = space->add_rules();
    rule->set_rule("BLOCK <= 512");
    rule->set_removed(7);
    rule = space->add_rules();
    rule->set_rule("cost model: predicted time <= 2.5 x the least");
    rule->set_removed(removed);
  }
  EXPECT_EQ(CostModelText(job), "prune: at most 2.5 x the least predicted time; 1,240 configs left out");
  job.mutable_studies(1)->mutable_space()->set_approximate(true);
  EXPECT_EQ(CostModelText(job), "prune: at most 2.5 x the least predicted time; ≈1,240 configs left out");
  job.mutable_studies(1)->mutable_space()->mutable_rules(1)->set_removed(std::numeric_limits<int64_t>::max());
  EXPECT_THAT(CostModelText(job), testing::HasSubstr("≈9,223,372,036,854,775,807 configs"));
}

TEST(CostOptionTest, ShowsThePredictions) {
  v1::CountSpaceResponse response;
  EXPECT_EQ(PredictionsText(response), "");
  v1::CostPrediction* best = response.mutable_predicted_best();
  (*best->mutable_config()->mutable_values())["BLOCK"].set_int_value(64);
  best->set_relative_time(2);
  best->set_threads_per_block(64);
  best->set_blocks(4096);
  best->set_shared_bytes(2048);
  best->set_blocks_per_sm(8);
  best->set_limited_by("registers");
  best->set_occupancy(0.25);
  best->set_waves(3.5);
  best->set_wave_efficiency(0.9);
  best->set_tile_efficiency(1);
  best->set_latency_hiding(1);
  best->set_lane_efficiency(0.5);
  *response.mutable_predicted_default() = *best;
  response.mutable_predicted_default()->set_relative_time(3);
  response.mutable_predicted_default()->clear_blocks();
  response.mutable_predicted_default()->clear_waves();
  response.mutable_predicted_default()->clear_shared_bytes();
  EXPECT_EQ(PredictionsText(response), R"(cost model
  best, 1.00 x the least predicted time
    BLOCK=64
    64 threads, 4,096 blocks, 2 KiB shared; 8 blocks/SM by registers, 25 % of the warps, 3.50 waves
    shares of the full speed: lanes 0.50, tiles 1.00, hiding 1.00, waves 0.90
  default, 1.50 x the least predicted time
    BLOCK=64
    64 threads; 8 blocks/SM by registers, 25 % of the warps
    shares of the full speed: lanes 0.50, tiles 1.00, hiding 1.00, waves 0.90
)");
}

}  // namespace
}  // namespace tunefarm::cli
