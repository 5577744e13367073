// CostGuide: what a search does with the cost model's predictions.
//
// rank    Strategies that learn from results of other studies (search/strategy.h, Priors) get the predictions as one
//         more such source, beside all that was measured: predictions become a feature of their model, and the study's
//         own results decide how far it is believed. The best predicted configs are among the first that they try,
//         behind the best of the most similar study.
//         Nothing is left out. "exhaustive" goes from the least prediction to the greatest; "random" has no order to
//         guide and is refused.
// prune   Configs whose prediction is more than `factor` times the least are left out of the space. The default config
//         stays, whatever is predicted, as do configs of which nothing can be predicted.
//
// Spaces of up to kSearchSpaceListMax configs are predicted one by one. Of larger ones a sample is, always the same:
// the least prediction is then the sample's, and counts are estimates.
//
// Everything here is a function of definition, problem, class, options and kCostModelVersion: a restarted daemon makes
// the same again. Threads: values; a CostGuide never changes after it was made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/cost/cost_model.h"
#include "server/search/search_space.h"
#include "server/search/strategy.h"
#include "server/space/space.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/kernel_service.pb.h"

namespace tunefarm {

// As tests/bench/results/*_cost_model justify it.
// How the rule begins under which PRUNE is counted in the size of a space.
inline constexpr std::string_view kCostRulePrefix = "cost model: ";
inline constexpr double kPruneFactorDefault = 1.5;
inline constexpr double kPruneFactorMax = 1000;
inline constexpr uint64_t kCostSampleSize = 20'000;
// Of a space that is sampled PRUNE must keep this share: what is left is drawn by rejecting the rest.
inline constexpr double kPruneKeptShareMin = 0.01;
// Of the predictions as a source of results: behind all that was measured.
inline constexpr int kCostSourceRank = 1'000'000;
inline constexpr size_t kCostSourceResultsMax = 5'000;

// The predictions of a space.
struct CostSurvey {
  bool is_exact = true;        // all configs, else a sample
  ConfigTable configs{0};      // in the order of the space, or as sampled
  std::vector<double> times;   // by row; infinite where nothing is predicted
  double least = 0;            // infinite where nothing is predicted of any config
  std::vector<uint16_t> best;  // the first config with the least; empty as above

  bool Keeps(double time, double factor) const { return !(time > factor * least) || time == kUnpredicted; }

  static constexpr double kUnpredicted = __builtin_inf();
};

// FailedPrecondition with the reason EMPTY_SPACE for a space without configs; otherwise fails as Space::Enumerate and
// SampleUniform do.
absl::StatusOr<CostSurvey> SurveyCosts(const Space& space, const CostModel& model);

struct CostGuide {
  // prune: what is left, and what became of the size that was counted without it.
  std::shared_ptr<const SearchSpace> left;
  // rank: the source, and for "exhaustive" all configs and their order.
  std::vector<PriorSource> source;
  std::shared_ptr<const SearchSpace> all;
  std::vector<uint32_t> order;
};

// The options as a job has them: InvalidArgument with the reason COST_MODEL_INVALID for an unknown mode, a factor out
// of range or without PRUNE, and RANK with "random"; FailedPrecondition with COST_MODEL_VERSION where they are of
// another version of the model. `strategy` may be empty.
absl::Status CheckCostModel(const tunefarm::v1::CostModel& options, std::string_view strategy);
// As CheckCostModel takes them, with defaults and the version put in; nothing at all where the mode is off.
tunefarm::v1::CostModel ResolvedCostModel(const tunefarm::v1::CostModel& options);
bool IsOn(const tunefarm::v1::CostModel& options);

// Fails as CostModel::Make and SurveyCosts do, and with InvalidArgument (reason COST_MODEL_INVALID) where PRUNE keeps
// less than kPruneKeptShareMin of the sample of a large space. The options are resolved.
absl::StatusOr<CostGuide> MakeCostGuide(const tunefarm::v1::CostModel& options, std::string_view strategy,
                                        std::shared_ptr<const KernelPlan> plan, const ResolvedProblem& problem,
                                        const DeviceClass& device, const Space& space);

// MakeStrategy of search/strategy.h as the guide has it.
absl::StatusOr<std::unique_ptr<Strategy>> MakeGuidedStrategy(std::string_view name, const StrategyOptions& options,
                                                             const Space& space, uint64_t seed, Priors priors,
                                                             const CostGuide& guide);

// Takes what `factor` prunes off a size that was counted without it, as one more rule.
void PruneSize(const CostSurvey& survey, const Space& space, double factor, tunefarm::v1::SpaceSize* size);

// What CountSpace says of a space beside its size, which must be in the response: the predictions of the best and the
// default config, and with PRUNE the size after it. Nothing where the mode is off. Fails as CheckCostModel,
// CostModel::Make and SurveyCosts do.
absl::Status AddPredictions(const tunefarm::v1::CostModel& options, std::shared_ptr<const KernelPlan> plan,
                            const ResolvedProblem& problem, const DeviceClass& device, const Space& space,
                            tunefarm::v1::CountSpaceResponse* response);

}  // namespace tunefarm
