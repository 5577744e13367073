#include "server/cost/cost_guide.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/unit/cost/tiled_kernel.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using tunefarm::v1::CostModelMode;

tunefarm::v1::CostModel Options(CostModelMode mode, double factor = 0) {
  tunefarm::v1::CostModel options;
  options.set_mode(mode);
  options.set_factor(factor);
  return options;
}

class CostGuideTest : public testing::Test {
 protected:
  void Use(std::shared_ptr<const KernelPlan> plan) {
    plan_ = std::move(plan);
    problem_ = plan_->ResolveProblem({}).value();
    space_ = plan_->BuildSpace(problem_, device_).value();
    model_ = CostModel::Make(plan_, problem_, device_, *space_).value();
  }
  CostGuide Guide(const tunefarm::v1::CostModel& options, std::string_view strategy = "default") {
    auto guide = MakeCostGuide(ResolvedCostModel(options), strategy, plan_, problem_, device_, *space_);
    EXPECT_TRUE(guide.ok()) << MessageOf(guide.status());
    return *std::move(guide);
  }
  // Everything that a strategy proposes, in order.
  std::vector<std::string> Proposals(const std::string& strategy, const CostGuide& guide, size_t most = 1000) {
    auto made = MakeGuidedStrategy(strategy, {}, *space_, 3, {}, guide);
    EXPECT_TRUE(made.ok()) << MessageOf(made.status());
    std::vector<std::string> texts;
    while (texts.size() < most) {
      const auto configs = (*made)->Ask(1).value();
      if (configs.empty()) break;
      for (const Config& config : configs) {
        (*made)->Tell({texts.size(), config, ToldOutcome::kOk, static_cast<double>(1 + config.Hash() % 1000)});
        texts.push_back(config.ToText());
      }
    }
    return texts;
  }

  DeviceClass device_ = FindKnownClass("A100").value();
  std::shared_ptr<const KernelPlan> plan_;
  ResolvedProblem problem_;
  std::optional<Space> space_;
  std::shared_ptr<const CostModel> model_;
};

TEST_F(CostGuideTest, ASurveyPredictsEveryConfig) {
  Use(TiledPlan());
  const CostSurvey survey = SurveyCosts(*space_, *model_).value();
  EXPECT_TRUE(survey.is_exact);
  ASSERT_EQ(survey.times.size(), 60u);
  EXPECT_EQ(survey.least, *std::min_element(survey.times.begin(), survey.times.end()));
  CostModel::Scratch scratch = model_->MakeScratch();
  EXPECT_EQ(model_->Predict(survey.best, &scratch)->time, survey.least);
}

TEST_F(CostGuideTest, PruningTakesAwayWhatIsCountedAndKeepsTheDefault) {
  // The default config of 8 threads is among the worst.
  Use(TiledPlan("2048] } default_value { int_value: 64 }", "2048] } default_value { int_value: 8 }"));
  tunefarm::v1::SpaceSize unpruned;
  unpruned.set_valid(60);
  const CostSurvey survey = SurveyCosts(*space_, *model_).value();
  uint64_t last = 0;
  for (const double factor : {1.0, 1.5, 3.0, 1000.0}) {
    tunefarm::v1::SpaceSize size = unpruned;
    PruneSize(survey, *space_, factor, &size);
    EXPECT_FALSE(size.approximate());
    EXPECT_EQ(size.valid() + size.rules(0).removed(), 60);
    const CostGuide guide = Guide(Options(CostModelMode::COST_MODEL_MODE_PRUNE, factor));
    ASSERT_EQ(guide.left->size(), static_cast<uint64_t>(size.valid())) << factor;
    EXPECT_GE(guide.left->size(), std::max<uint64_t>(last, 1)) << "a larger factor keeps more";
    last = guide.left->size();
    EXPECT_TRUE(guide.left->default_point().has_value()) << factor;
    EXPECT_TRUE(guide.left->Contains(space_->IndicesOf(*space_->DefaultConfig()).value()));
    EXPECT_TRUE(guide.left->Contains(survey.best));
  }
  EXPECT_EQ(last, 60u);
  tunefarm::v1::SpaceSize size = unpruned;
  PruneSize(survey, *space_, 1.5, &size);
  EXPECT_EQ(size.rules(0).rule(), "cost model: predicted time <= 1.5 x the least");
  EXPECT_EQ(size.rules(0).reason(),
            fmt::format("the cost model (version {}) predicts too long a time", kCostModelVersion));
}

TEST_F(CostGuideTest, EveryStrategyProposesWhatIsLeftAndNothingElse) {
  Use(TiledPlan());
  const CostGuide guide = Guide(Options(CostModelMode::COST_MODEL_MODE_PRUNE));
  ASSERT_LT(guide.left->size(), 60u);
  for (const std::string& strategy : StrategyNames()) {
    const std::vector<std::string> proposals = Proposals(strategy, guide);
    EXPECT_EQ(std::set<std::string>(proposals.begin(), proposals.end()).size(), guide.left->size()) << strategy;
    EXPECT_EQ(proposals.size(), guide.left->size()) << strategy;
    EXPECT_EQ(proposals.front(), space_->DefaultConfig()->ToText()) << strategy;
  }
}

TEST_F(CostGuideTest, RankLeavesNothingOut) {
  Use(TiledPlan());
  for (const std::string& strategy : StrategyNames()) {
    if (strategy == "random") continue;
    const CostGuide guide = Guide(Options(CostModelMode::COST_MODEL_MODE_RANK), strategy);
    const std::vector<std::string> proposals = Proposals(strategy, guide);
    EXPECT_EQ(std::set<std::string>(proposals.begin(), proposals.end()).size(), 60u) << strategy;
  }
}

TEST_F(CostGuideTest, ExhaustiveGoesFromTheLeastPredictionToTheGreatest) {
  Use(TiledPlan());
  const auto proposals = Proposals("exhaustive", Guide(Options(CostModelMode::COST_MODEL_MODE_RANK), "exhaustive"));
  ASSERT_EQ(proposals.size(), 60u);
  CostModel::Scratch scratch = model_->MakeScratch();
  double last = 0;
  for (size_t i = 1; i < proposals.size(); ++i) {
    const Config config = plan_->ConfigFromText(proposals[i]).value();
    const double time = model_->Predict(space_->IndicesOf(config).value(), &scratch)->time;
    EXPECT_GE(time, last) << proposals[i];
    last = time;
  }
}

TEST_F(CostGuideTest, TheBestPredictedAreAmongTheFirst) {
  Use(TiledPlan());
  const CostSurvey survey = SurveyCosts(*space_, *model_).value();
  const CostGuide guide = Guide(Options(CostModelMode::COST_MODEL_MODE_RANK));
  ASSERT_EQ(guide.source.size(), 1u);
  EXPECT_EQ(guide.source[0].rank, kCostSourceRank);
  EXPECT_EQ(guide.source[0].label, fmt::format("cost model {}", kCostModelVersion));
  EXPECT_EQ(guide.source[0].results.size(), 60u);
  const auto proposals = Proposals("default", guide, 2);
  const Config second = plan_->ConfigFromText(proposals[1]).value();
  CostModel::Scratch scratch = model_->MakeScratch();
  EXPECT_EQ(model_->Predict(space_->IndicesOf(second).value(), &scratch)->time, survey.least);
}

// Measured sources, one or as many as a search uses, know nothing of the five configs that are predicted best.
TEST_F(CostGuideTest, MeasuredSourcesDoNotDrivePredictionsOut) {
  Use(TiledPlan());
  const CostSurvey survey = SurveyCosts(*space_, *model_).value();
  std::vector<double> times = survey.times;
  std::sort(times.begin(), times.end());
  const double fifth = times[4];
  PriorSource measured;
  for (uint64_t row = 0; row < survey.configs.size(); ++row) {
    if (survey.times[row] <= fifth) continue;
    measured.results.push_back({space_->ConfigAt(survey.configs, row), ToldOutcome::kOk, 1000 + survey.times[row]});
  }
  const CostGuide guide = Guide(Options(CostModelMode::COST_MODEL_MODE_RANK));
  for (const int sources : {1, 4, 6}) {
    Priors priors;
    for (int rank = 0; rank < sources; ++rank) {
      priors.push_back(measured);
      priors.back().rank = rank;
    }
    for (const std::string& strategy : StrategyNames()) {
      if (strategy == "random" || strategy == "exhaustive") continue;
      auto made = MakeGuidedStrategy(strategy, {}, *space_, 3, priors, guide);
      ASSERT_TRUE(made.ok()) << MessageOf(made.status());
      // The default config, five of the most similar source and five predicted ones.
      int predicted = 0;
      CostModel::Scratch scratch = model_->MakeScratch();
      const std::vector<Config> first = (*made)->Ask(11).value();
      for (const Config& config : first) {
        predicted += model_->Predict(space_->IndicesOf(config).value(), &scratch)->time <= fifth ? 1 : 0;
      }
      EXPECT_GE(predicted, 5) << strategy << " beside " << sources;
    }
  }
}

TEST_F(CostGuideTest, GuidesAreTheSameWheneverTheyAreMade) {
  Use(TiledPlan());
  for (const CostModelMode mode : {CostModelMode::COST_MODEL_MODE_RANK, CostModelMode::COST_MODEL_MODE_PRUNE}) {
    EXPECT_EQ(Proposals("default", Guide(Options(mode))), Proposals("default", Guide(Options(mode))));
  }
}

// 6 x 10^6 configs: too many to list.
constexpr char kManyText[] =
    "parameters { name: \"A\" range { first: 1 last: 400 } }\nparameters { name: \"B\" range { first: 1 last: 250 } "
    "}\nderived";

TEST_F(CostGuideTest, LargeSpacesAreSampledAndPrunedPointByPoint) {
  Use(TiledPlan("derived", kManyText));
  const CostSurvey survey = SurveyCosts(*space_, *model_).value();
  EXPECT_FALSE(survey.is_exact);
  EXPECT_EQ(survey.times.size(), kCostSampleSize);
  tunefarm::v1::SpaceSize size;
  size.set_valid(6'000'000);
  PruneSize(survey, *space_, 1.5, &size);
  EXPECT_TRUE(size.approximate());
  EXPECT_EQ(size.valid() + size.rules(0).removed(), 6'000'000);
  EXPECT_THAT(size.rules(0).reason(), HasSubstr("by a sample"));
  // The share that is left is that of the 60 configs which differ in launch geometry, within the error of the sample.
  const CostGuide guide = Guide(Options(CostModelMode::COST_MODEL_MODE_PRUNE));
  EXPECT_FALSE(guide.left->is_listed());
  Use(TiledPlan());
  const uint64_t left = Guide(Options(CostModelMode::COST_MODEL_MODE_PRUNE)).left->size();
  EXPECT_NEAR(static_cast<double>(size.valid()) / 6e6, static_cast<double>(left) / 60, 0.02);

  Use(TiledPlan("derived", kManyText));
  for (const std::string strategy : {"default", "random"}) {
    CostModel::Scratch scratch = model_->MakeScratch();
    for (const std::string& text : Proposals(strategy, guide, 60)) {
      const Config config = plan_->ConfigFromText(text).value();
      if (config == *space_->DefaultConfig()) continue;
      const double time = model_->Predict(space_->IndicesOf(config).value(), &scratch)->time;
      EXPECT_LE(time, 1.5 * survey.least) << strategy << " " << text;
    }
  }
  const auto exhaustive = MakeGuidedStrategy("exhaustive", {}, *space_, 1, {}, guide);
  EXPECT_EQ(ReasonOf(exhaustive.status()), "SPACE_TOO_LARGE");
  const auto ordered =
      MakeCostGuide(Options(CostModelMode::COST_MODEL_MODE_RANK), "exhaustive", plan_, problem_, device_, *space_);
  EXPECT_EQ(ReasonOf(ordered.status()), "SPACE_TOO_LARGE");
  EXPECT_EQ(Guide(Options(CostModelMode::COST_MODEL_MODE_RANK)).source[0].results.size(), kCostSourceResultsMax);
}

// The work grows with two parameters of many values: hardly any config comes near the least.
TEST_F(CostGuideTest, APruneThatKeepsHardlyAnyOfALargeSpaceIsRefused) {
  std::string text(kTiledText);
  text.replace(text.find("derived"), 7, kManyText);
  text.replace(text.find("unverified_reason"), 17, "flops: \"N * A * B * 1000000\"\nunverified_reason");
  Use(KernelPlan::Compile(ParseKernelText(text, "kernel.pbtxt").value()).value());
  const auto guide = MakeCostGuide(ResolvedCostModel(Options(CostModelMode::COST_MODEL_MODE_PRUNE, 1)), "default",
                                   plan_, problem_, device_, *space_);
  EXPECT_TRUE(absl::IsInvalidArgument(guide.status())) << guide.status();
  EXPECT_EQ(ReasonOf(guide.status()), "COST_MODEL_INVALID");
  EXPECT_THAT(std::string(MessageOf(guide.status())), HasSubstr("a larger factor"));
  EXPECT_TRUE(MakeCostGuide(ResolvedCostModel(Options(CostModelMode::COST_MODEL_MODE_PRUNE, 1000)), "default", plan_,
                            problem_, device_, *space_)
                  .ok());
}

TEST_F(CostGuideTest, ADefaultThatWouldBePrunedIsProposedAlsoFromLargeSpaces) {
  std::string many(kManyText);
  many = "parameters { name: \"WORST\" values { ints: [1, 0] } }\n" + many;
  std::string text(kTiledText);
  text.replace(text.find("default_value { int_value: 64 }"), 31, "default_value { int_value: 8 }");
  text.replace(text.find("derived"), 7, many);
  Use(KernelPlan::Compile(ParseKernelText(text, "kernel.pbtxt").value()).value());
  const CostGuide guide = Guide(Options(CostModelMode::COST_MODEL_MODE_PRUNE, 1));
  for (const std::string strategy : {"default", "random"}) {
    EXPECT_EQ(Proposals(strategy, guide, 1).front(), space_->DefaultConfig()->ToText()) << strategy;
  }
}

// What cannot be predicted is no reason to leave it out.
TEST_F(CostGuideTest, ConfigsWithoutAPredictionStay) {
  Use(TiledPlan("unverified_reason", "flops: \"N if PER_THREAD < 8 else N // (THREADS - 64)\"\nunverified_reason"));
  const CostSurvey survey = SurveyCosts(*space_, *model_).value();
  uint64_t unpredicted = 0;
  for (const double time : survey.times) unpredicted += time == CostSurvey::kUnpredicted ? 1 : 0;
  EXPECT_GT(unpredicted, 0u);
  const CostGuide guide = Guide(Options(CostModelMode::COST_MODEL_MODE_PRUNE, 1));
  EXPECT_GE(guide.left->size(), unpredicted + 1);
  EXPECT_EQ(Guide(Options(CostModelMode::COST_MODEL_MODE_RANK)).source[0].results.size(),
            survey.times.size() - unpredicted);
}

TEST(CostModelOptionsTest, AreCheckedAndResolved) {
  const auto why = [](const tunefarm::v1::CostModel& options, std::string_view strategy = "") {
    return std::string(MessageOf(CheckCostModel(options, strategy)));
  };
  EXPECT_TRUE(CheckCostModel({}, "random").ok());
  EXPECT_TRUE(CheckCostModel(Options(CostModelMode::COST_MODEL_MODE_PRUNE, 2), "random").ok());
  EXPECT_THAT(why(Options(CostModelMode::COST_MODEL_MODE_PRUNE, 0.5)), HasSubstr("between 1 and 1,000"));
  EXPECT_THAT(why(Options(CostModelMode::COST_MODEL_MODE_PRUNE, __builtin_nan(""))), HasSubstr("between 1 and 1,000"));
  EXPECT_THAT(why(Options(CostModelMode::COST_MODEL_MODE_RANK, 2)), HasSubstr("for prune alone"));
  EXPECT_THAT(why(Options(CostModelMode::COST_MODEL_MODE_RANK), "random"), HasSubstr("no cost model can rank"));
  EXPECT_THAT(why(Options(static_cast<CostModelMode>(9))), HasSubstr("known are off, rank and prune"));
  tunefarm::v1::CostModel other = ResolvedCostModel(Options(CostModelMode::COST_MODEL_MODE_PRUNE));
  EXPECT_EQ(other.factor(), kPruneFactorDefault);
  EXPECT_EQ(other.version(), kCostModelVersion);
  other.set_version(kCostModelVersion + 1);
  EXPECT_EQ(ReasonOf(CheckCostModel(other, "")), "COST_MODEL_VERSION");
  EXPECT_EQ(ResolvedCostModel(Options(CostModelMode::COST_MODEL_MODE_OFF)).ByteSizeLong(), 0u);
}

}  // namespace
}  // namespace tunefarm
