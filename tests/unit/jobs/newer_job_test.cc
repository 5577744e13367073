// Requests of a newer program, and what this one makes of them.
#include "server/jobs/newer_job.h"

#include "gtest/gtest.h"
#include "server/store/job_rows.h"

namespace tunefarm {
namespace {

TEST(NewerJobTest, KnowsWhatItWasBuiltWith) {
  tunefarm::v1::Job job;
  EXPECT_EQ(FirstUnknown(job), "");
  job.mutable_strategy()->set_strategy_name("genetic");
  (*job.mutable_strategy()->mutable_options())["population"] = "7";
  job.mutable_policy()->set_preset(tunefarm::v1::MEASUREMENT_PRESET_FAST);
  (*job.add_problems()->mutable_dims())["N"].set_int_value(1);
  EXPECT_EQ(FirstUnknown(job), "");
}

TEST(NewerJobTest, NamesAStrategyOfTheFuture) {
  tunefarm::v1::Job job;
  job.mutable_strategy()->set_strategy_name("oracle");
  EXPECT_EQ(FirstUnknown(job), "the strategy 'oracle'");
}

TEST(NewerJobTest, NamesAValueOfTheFuture) {
  tunefarm::v1::Job job;
  job.mutable_policy()->set_preset(static_cast<tunefarm::v1::MeasurementPreset>(77));
  EXPECT_EQ(FirstUnknown(job), "the value 77 of policy.preset");
}

TEST(NewerJobTest, NamesAFieldOfTheFutureWhereverItIs) {
  const std::string field_1000 = "\xc0\x3e\x01";  // varint 1
  tunefarm::v1::Job job;
  ASSERT_TRUE(job.ParseFromString(field_1000));
  EXPECT_EQ(FirstUnknown(job), "the field 1000 of the job");
  tunefarm::v1::Job deep;
  deep.add_problems();
  ASSERT_TRUE(deep.add_problems()->ParseFromString(field_1000));
  EXPECT_EQ(FirstUnknown(deep), "the field 1000 of problems");
  tunefarm::v1::Job in_a_map;
  ASSERT_TRUE((*in_a_map.add_problems()->mutable_dims())["N"].ParseFromString(field_1000));
  EXPECT_EQ(FirstUnknown(in_a_map), "the field 1000 of problems.dims.value");
}

TEST(NewerJobTest, WhatCannotBeReadIsNotNewer) {
  JobRow row;
  row.spec = "\xff";
  EXPECT_EQ(FirstUnknown(row), "");
}

}  // namespace
}  // namespace tunefarm
