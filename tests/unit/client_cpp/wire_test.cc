#include "client/cpp/wire.h"

#include <gtest/gtest.h>

#include "tunefarm/v1/error.pb.h"

namespace tunefarm::client {
namespace {

TEST(WireTest, JobsKeepWhatWasSaid) {
  JobSpec spec;
  spec.kernel = "matmul";
  spec.problems = {{{{"M", 64}, {"dtype", "bf16"}}, {1, 2}, {{"SPLIT_K", true}}}};
  spec.strategy = "bayes";
  spec.strategy_options = {{"warm", "10"}};
  spec.max_trials = 20;
  spec.measure = {{"preset", "fast"}, {"final_rounds", "9"}, {"no_early_stop", "true"}, {"min_clock_share", "0.5"}};
  const auto job = ToWire(spec);
  ASSERT_TRUE(job.ok()) << job.status().ToText();
  EXPECT_EQ(job->problems(0).dims().at("M").int_value(), 64);
  EXPECT_EQ(job->problems(0).dims().at("dtype").string_value(), "bf16");
  EXPECT_TRUE(job->problems(0).pinned().at("SPLIT_K").bool_value());
  EXPECT_EQ(job->problems(0).input_seeds_size(), 2);
  EXPECT_EQ(job->strategy().strategy_name(), "bayes");
  EXPECT_EQ(job->budget().max_trials(), 20);
  EXPECT_EQ(job->policy().preset(), v1::MEASUREMENT_PRESET_FAST);
  EXPECT_EQ(job->policy().final_rounds(), 9);
  EXPECT_TRUE(job->policy().no_early_stop());
  EXPECT_EQ(job->policy().min_clock_share(), 0.5);
}

TEST(WireTest, BadJobsAreRefusedWithTheFieldsName) {
  JobSpec spec;
  spec.kernel = "matmul";
  EXPECT_EQ(ToWire(spec).status().reason, "PROBLEM_COUNT");
  spec.problems.resize(1);
  for (const auto& [knob, value] : std::map<std::string, std::string>{{"preset", "slow"},
                                                                      {"final_round", "9"},
                                                                      {"final_rounds", "nine"},
                                                                      {"no_early_stop", "yes"},
                                                                      {"min_clock_share", "nan"}}) {
    spec.measure = {{knob, value}};
    const Status status = ToWire(spec).status();
    EXPECT_EQ(status.reason, "MEASURE_INVALID") << knob;
    EXPECT_NE(status.message.find(knob + "=" + value), std::string::npos) << status.message;
  }
  spec.measure = {};
  spec.kernel = "";
  EXPECT_EQ(ToWire(spec).status().reason, "KERNEL_MISSING");
}

TEST(WireTest, StatusesKeepTheirReason) {
  v1::ErrorDetail detail;
  detail.set_reason("DISK_FULL");
  const Status status =
      FromGrpc(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no space", detail.SerializeAsString()));
  EXPECT_EQ(status.ToText(), "RESOURCE_EXHAUSTED: no space [DISK_FULL]");
  EXPECT_EQ(FromGrpc(grpc::Status::OK).ToText(), "OK");
}

TEST(WireTest, ValuesComeBackAsTheyWere) {
  for (const Value& value : {Value(-5), Value(0.1), Value(true), Value("text"), Value(false)}) {
    EXPECT_EQ(FromWire(ToWire(value)), value) << value.ToText();
  }
  EXPECT_EQ(Value(0.1).ToText(), "0.1");
  EXPECT_NE(Value(1), Value(true));
}

}  // namespace
}  // namespace tunefarm::client
