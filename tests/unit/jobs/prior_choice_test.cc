// Which earlier results a study starts from, in what order, and what of them is kept.
#include "server/jobs/prior_choice.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/check.h"
#include "server/jobs/prior_results.h"
#include "server/measure/policy.h"
#include "server/records/measured_key.h"
#include "server/store/study_store.h"
#include "server/store/trial_store.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using tunefarm::v1::Outcome;

std::shared_ptr<const KernelPlan> Plan(const std::string& options = "") {
  auto kernel = ParseKernelText(options + R"pb(
                                  display_name: "scale"
                                  language: LANGUAGE_CUDA
                                  sources { path: "scale.cu" content: "__global__ void scale(float*) {}" }
                                  dims {
                                    name: "M"
                                    default_value { int_value: 1024 }
                                    lookup: LOOKUP_RULE_LOG
                                  }
                                  dims {
                                    name: "N"
                                    default_value { int_value: 1024 }
                                    lookup: LOOKUP_RULE_LOG
                                  }
                                  dims {
                                    name: "K"
                                    default_value { int_value: 64 }
                                  }
                                  parameters {
                                    name: "A"
                                    range { first: 1 last: 100 }
                                  }
                                  parameters {
                                    name: "B"
                                    range { first: 1 last: 100 }
                                  }
                                  arguments {
                                    name: "y"
                                    buffer { data_type: DATA_TYPE_F32 length: "M" access: ACCESS_OUT }
                                  }
                                  launches {
                                    kernel {
                                      entry: "scale"
                                      grid: "1"
                                      block: "32"
                                      arguments: [ "y" ]
                                    }
                                  }
                                  unverified_reason: "a test")pb",
                                "kernel.pbtxt");
  TUNEFARM_CHECK_OK(kernel);
  auto plan = KernelPlan::Compile(*kernel);
  TUNEFARM_CHECK_OK(plan);
  return *plan;
}

class PriorChoice : public testing::Test {
 protected:
  ResolvedProblem Resolve(int64_t m, int64_t n, int64_t k = 64) {
    tunefarm::v1::Problem problem;
    (*problem.mutable_dims())["M"].set_int_value(m);
    (*problem.mutable_dims())["N"].set_int_value(n);
    (*problem.mutable_dims())["K"].set_int_value(k);
    const auto resolved = plan_->ResolveProblem(problem);
    TUNEFARM_CHECK_OK(resolved);
    return *resolved;
  }
  KnownStudyRow Known(int64_t study_id, const std::string& device, const ResolvedProblem& problem,
                      const std::string& toolkit = "13.0") {
    KnownStudyRow row;
    row.study_id = study_id;
    row.problem_key = problem.key;
    row.problem = problem.ToProto().SerializeAsString();
    row.class_id = device;
    row.toolkit = toolkit;
    row.next_ordinal = 100;
    return row;
  }
  std::vector<PriorCandidate> Rank(const std::vector<KnownStudyRow>& known) {
    PriorQuestion question;
    question.study_id = 1000;
    question.plan = plan_.get();
    question.problem = &asked_;
    question.device_class = &classes_.at("H200");
    question.class_id = "H200";
    question.toolkit = "13.0";
    return RankPriors(question, known, classes_);
  }
  static std::vector<int64_t> FirstStudies(const std::vector<PriorCandidate>& candidates) {
    std::vector<int64_t> ids;
    for (const PriorCandidate& candidate : candidates) ids.push_back(candidate.study_ids.front());
    return ids;
  }

  const std::shared_ptr<const KernelPlan> plan_ = Plan();
  const ResolvedProblem asked_ = Resolve(1024, 1024);
  const ClassesById classes_ = {
      {"H200", *FindKnownClass("H200")}, {"H100", *FindKnownClass("H100")}, {"A100", *FindKnownClass("A100")}};
};

TEST_F(PriorChoice, TheNearestProblemOfTheClassThenRelatedClassesThenTheRest) {
  const std::vector<PriorCandidate> ranked = Rank({
      Known(1, "A100", Resolve(2048, 2048)),      // another class and problem
      Known(2, "A100", Resolve(1024, 1024)),      // the same problem on another class
      Known(3, "H200", Resolve(1024, 1024, 32)),  // a dim that does not compare
      Known(4, "H100", Resolve(1024, 1024)),      // the same problem, the same compute capability
      Known(5, "H200", Resolve(16, 4096)),        // far
      Known(6, "H200", Resolve(2048, 1024)),      // near
      Known(7, "H200", Resolve(1024, 1024), "12.9"),
      Known(8, "H200", Resolve(1024, 1024)),
      Known(9, "H100", Resolve(2048, 2048)),
  });
  EXPECT_THAT(FirstStudies(ranked), ElementsAre(8, 7, 6, 5, 4, 3, 2, 9, 1));
  EXPECT_EQ(ranked[0].difference, "");
  EXPECT_EQ(ranked[1].difference, "with toolkit 12.9");
  EXPECT_EQ(ranked[2].difference, "M=2048 instead of 1024");
  EXPECT_EQ(ranked[3].difference, "M=16 instead of 1024, N=4096 instead of 1024");
  EXPECT_EQ(ranked[4].difference, "on " + classes_.at("H100").display_name);
  EXPECT_EQ(ranked[5].difference, "K=32 instead of 64");
}

TEST_F(PriorChoice, OtherInputsAreNoOtherProblemAndOnlyProductsCount) {
  const auto plan = Plan(R"pb(
    dims {
      name: "draw"
      default_value { string_value: "even" }
      values { string_value: "even" }
      values { string_value: "skew" }
      inputs_only: true
    }
    dims { name: "tokens" lookup: LOOKUP_RULE_PRODUCT }
    dims { name: "topk" lookup: LOOKUP_RULE_PRODUCT }
  )pb");
  const auto resolve = [&](const std::string& draw, int64_t tokens, int64_t topk) {
    tunefarm::v1::Problem problem;
    (*problem.mutable_dims())["draw"].set_string_value(draw);
    (*problem.mutable_dims())["tokens"].set_int_value(tokens);
    (*problem.mutable_dims())["topk"].set_int_value(topk);
    const auto resolved = plan->ResolveProblem(problem);
    TUNEFARM_CHECK_OK(resolved);
    return *resolved;
  };
  const ResolvedProblem asked = resolve("even", 4096, 8);
  PriorQuestion question;
  question.study_id = 1000;
  question.plan = plan.get();
  question.problem = &asked;
  question.device_class = &classes_.at("H200");
  question.class_id = "H200";
  question.toolkit = "13.0";
  const std::vector<PriorCandidate> ranked = RankPriors(question,
                                                        {Known(1, "A100", resolve("skew", 4096, 8)),   // other inputs
                                                         Known(2, "H200", resolve("even", 4096, 4)),   // half as much
                                                         Known(3, "H100", resolve("skew", 4096, 8)),   // other inputs
                                                         Known(4, "H200", resolve("even", 8192, 4)),   // the same
                                                         Known(5, "H200", resolve("even", 4096, 8)),   // the very one
                                                         Known(6, "H200", resolve("skew", 16384, 4)),  // twice as much
                                                         Known(7, "H100", resolve("even", 4096, 4))},
                                                        classes_);
  EXPECT_THAT(FirstStudies(ranked), ElementsAre(5, 4, 6, 2, 3, 1, 7));
  EXPECT_EQ(ranked[0].difference, "");
  EXPECT_EQ(ranked[1].difference, "tokens=8192 instead of 4096, topk=4 instead of 8");
  EXPECT_EQ(ranked[4].difference, "draw=skew instead of even on " + classes_.at("H100").display_name);
}

TEST_F(PriorChoice, WhatDiffersInSeedsAndPinsAloneIsOneSource) {
  ResolvedProblem pinned = Resolve(2048, 1024);
  pinned.key += "|pinned:A=1";
  const std::vector<PriorCandidate> ranked = Rank({Known(3, "H200", Resolve(2048, 1024)), Known(2, "H200", pinned)});
  ASSERT_THAT(ranked, SizeIs(1));
  EXPECT_THAT(ranked[0].study_ids, ElementsAre(3, 2));
}

TEST_F(PriorChoice, NeitherTheStudyItselfNorUnknownClasses) {
  EXPECT_THAT(Rank({Known(1000, "H200", asked_), Known(1, "gone", asked_)}), IsEmpty());
}

ResultRow Row(const std::string& config, double median_ns, Outcome outcome = tunefarm::v1::OUTCOME_OK) {
  return {0, outcome, config, median_ns};
}

TEST_F(PriorChoice, ResultsComeBackAsTheyWereStored) {
  PriorCollector collector(plan_.get());
  collector.Add(Row("A=1,B=7", 300.125), true);
  collector.Add(Row("A=2,B=7", 100), true);
  collector.Add(Row("A=3,B=7", 0, tunefarm::v1::OUTCOME_RUN_CRASH), true);
  collector.Add(Row("A=4,B=7", 0, tunefarm::v1::OUTCOME_COMPILE_ERROR), false);
  collector.Add(Row("A=5,B=7", 50, tunefarm::v1::OUTCOME_NOISY), true);   // nobody knows how fast
  collector.Add(Row("A=6,B=7", 0, tunefarm::v1::OUTCOME_LOST), true);     // says nothing
  collector.Add(Row("A=7,B=7", 0, tunefarm::v1::OUTCOME_PRUNED), false);  // another device's limit
  collector.Add(Row("A=8,B=7", 0, tunefarm::v1::OUTCOME_PRUNED), true);
  collector.Add(Row("A=999,B=7", 10), true);  // not of this definition
  collector.Add(Row("A=2,B=7", 1), true);     // known already
  EXPECT_EQ(collector.measured(), 2u);
  EXPECT_EQ(collector.failed(), 3u);
  const auto source = DecodePrior({3, collector.Encode()});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->rank, 3);
  ASSERT_THAT(source->results, SizeIs(5));
  EXPECT_EQ(source->results[0].config.ToText(), "A=2,B=7");
  EXPECT_EQ(source->results[0].objective_ns, 100);
  EXPECT_EQ(source->results[1].config.ToText(), "A=1,B=7");
  EXPECT_EQ(source->results[1].objective_ns, 300.125);
  EXPECT_EQ(source->results[1].outcome, ToldOutcome::kOk);
  EXPECT_EQ(source->results[4].config.ToText(), "A=8,B=7");
  EXPECT_EQ(source->results[4].outcome, ToldOutcome::kFailed);
}

TEST_F(PriorChoice, TheStoredFormDoesNotDependOnTheOrderAndHasABound) {
  PriorCollector forward(plan_.get()), backward(plan_.get());
  std::vector<ResultRow> rows;
  for (int a = 1; a <= 100; ++a) {
    for (int b = 1; b <= 100; ++b) {
      const bool failed = (a + b) % 7 == 0;
      rows.push_back(Row("A=" + std::to_string(a) + ",B=" + std::to_string(b), failed ? 0 : 1000 + (a * 31 + b) % 50,
                         failed ? tunefarm::v1::OUTCOME_WRONG_RESULT : tunefarm::v1::OUTCOME_OK));
    }
  }
  for (size_t i = 0; i < 400; ++i) forward.Add(rows[i], true);
  for (size_t i = 400; i-- > 0;) backward.Add(rows[i], true);
  EXPECT_EQ(forward.Encode(), backward.Encode());
  for (const ResultRow& row : rows) forward.Add(row, true);
  EXPECT_EQ(forward.measured() + forward.failed(), PriorCollector::kResultsMax);
  EXPECT_EQ(forward.room(), 0u);
  EXPECT_LT(forward.Encode().size(), PriorCollector::kResultsMax * 16);
}

TEST_F(PriorChoice, BytesThatAreNoPriorAreDataLoss) {
  PriorCollector collector(plan_.get());
  for (int a = 1; a < 20; ++a) collector.Add(Row("A=" + std::to_string(a) + ",B=7", 100 + a), true);
  const std::string whole = collector.Encode();
  ASSERT_TRUE(DecodePrior({0, whole}).ok());
  EXPECT_TRUE(absl::IsDataLoss(DecodePrior({0, ""}).status()));
  int readable = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x7f);
    const auto source = DecodePrior({0, damaged});  // an error or other results, never a crash
    EXPECT_TRUE(source.ok() || absl::IsDataLoss(source.status()));
    const auto cut_off = DecodePrior({0, whole.substr(0, i)});
    EXPECT_TRUE(cut_off.ok() || absl::IsDataLoss(cut_off.status())) << i;
    readable += cut_off.ok() ? 1 : 0;
  }
  EXPECT_EQ(readable, 3) << "behind each parameter and behind the configs, and nowhere else";
}

TEST(MeasuredKey, NamesWhatWasMeasured) {
  const auto fast = [] {
    tunefarm::v1::MeasurementPolicy policy;
    policy.set_preset(tunefarm::v1::MEASUREMENT_PRESET_FAST);
    return policy;
  };
  const auto key = [](const std::string& problem, const std::string& device, const std::string& toolkit,
                      const tunefarm::v1::MeasurementPolicy& policy, const std::string& config) {
    return MeasuredKey(MeasuredScope("program", problem, device, toolkit, "550.1", ResolvePolicy(policy)), config);
  };
  const std::string base = key("M=1", "H200", "13.0", fast(), "A=1");
  EXPECT_EQ(base.size(), 16u);
  EXPECT_EQ(key("M=1", "H200", "13.0", fast(), "A=1"), base);
  EXPECT_NE(key("M=2", "H200", "13.0", fast(), "A=1"), base);
  EXPECT_NE(key("M=1", "H100", "13.0", fast(), "A=1"), base);
  EXPECT_NE(key("M=1", "H200", "12.9", fast(), "A=1"), base);
  EXPECT_NE(key("M=1", "H200", "13.0", fast(), "A=2"), base);
  EXPECT_NE(key("M=1", "H200", "13.0", {}, "A=1"), base);
  EXPECT_EQ(key("M=1", "H200", "", fast(), "A=1"), "") << "nobody knows what compiled it";
  for (const char* driver : {"", "560.2"}) {
    const std::string scope = MeasuredScope("program", "M=1", "H200", "13.0", driver, ResolvePolicy(fast()));
    EXPECT_NE(MeasuredKey(scope, "A=1"), base) << driver;
  }
  auto finals = fast();
  finals.set_final_rounds(60);
  finals.set_finalists(30);
  EXPECT_EQ(key("M=1", "H200", "13.0", finals, "A=1"), base) << "a search does not depend on its final";
  auto warm = fast();
  warm.set_warm_cache(true);
  EXPECT_NE(key("M=1", "H200", "13.0", warm, "A=1"), base);
}

TEST(MeasuredKey, OnlyVerdictsOnTheConfigAreTakenOver) {
  tunefarm::v1::Trial trial;
  trial.set_purpose(tunefarm::v1::TRIAL_PURPOSE_SEARCH);
  trial.set_phase(tunefarm::v1::PHASE_MEASURE);
  trial.mutable_measurement()->set_median_ns(10);
  for (int value = 1; value <= tunefarm::v1::Outcome_MAX; ++value) {
    trial.set_outcome(static_cast<Outcome>(value));
    const bool taken = value == tunefarm::v1::OUTCOME_OK || value == tunefarm::v1::OUTCOME_WRONG_RESULT ||
                       value == tunefarm::v1::OUTCOME_OUT_OF_BOUNDS || value == tunefarm::v1::OUTCOME_INFEASIBLE_LAUNCH;
    EXPECT_EQ(IsMeasurement(trial), taken) << value;
  }
  trial.set_outcome(tunefarm::v1::OUTCOME_OK);
  trial.mutable_measurement()->set_throttled(true);
  EXPECT_FALSE(IsMeasurement(trial));
  trial.mutable_measurement()->set_throttled(false);
  trial.set_purpose(tunefarm::v1::TRIAL_PURPOSE_FINALIST);
  EXPECT_FALSE(IsMeasurement(trial));
  trial.set_purpose(tunefarm::v1::TRIAL_PURPOSE_SEARCH);
  trial.set_reused(true);
  trial.set_reused_ordinal(3);
  EXPECT_TRUE(IsMeasurement(trial)) << "its study has measured the same work";
  trial.set_reused_trial("jobs/1/studies/1/trials/3");
  EXPECT_FALSE(IsMeasurement(trial)) << "a copy of a copy";
}

}  // namespace
}  // namespace tunefarm
