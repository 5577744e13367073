#include "server/cost/cost_guide.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "server/base/format.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/space/config_index.h"

namespace tunefarm {
namespace {

using tunefarm::v1::CostModelMode;

// Seeds of what must come out alike every time.
constexpr uint64_t kSampleSeed = 0x636f7374;
constexpr uint64_t kShuffleSeed = 0x72616e6b;

absl::StatusOr<ConfigTable> SampleConfigs(const Space& space) {
  PhiloxStream random(kSampleSeed);
  std::vector<uint16_t> indices;
  for (uint64_t i = 0; i < kCostSampleSize; ++i) {
    ASSIGN_OR_RETURN(const std::vector<uint16_t> point, space.SampleUniform(random));
    indices.insert(indices.end(), point.begin(), point.end());
  }
  return ConfigTable(static_cast<int>(space.parameters().size()), kCostSampleSize, std::move(indices));
}

// The default config's value indices, where it is valid; else empty.
std::vector<uint16_t> DefaultPoint(const Space& space) {
  const std::optional<Config> config = space.DefaultConfig();
  if (!config.has_value() || !space.Contains(*config)) return {};
  return space.IndicesOf(*config).value_or(std::vector<uint16_t>());
}

bool IsPoint(std::span<const uint16_t> a, const std::vector<uint16_t>& b) {
  return !b.empty() && std::equal(a.begin(), a.end(), b.begin(), b.end());
}

// Rows with a prediction in a random order, which is the same every time: where predictions are alike, and they often
// are, the order of the space must not look like knowledge.
std::vector<uint32_t> PredictedRows(const CostSurvey& survey) {
  std::vector<uint32_t> rows;
  for (uint32_t row = 0; row < survey.times.size(); ++row) {
    if (std::isfinite(survey.times[row])) rows.push_back(row);
  }
  PhiloxStream random(kShuffleSeed);
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.UniformInt(i)]);
  return rows;
}

// The better half of what is kept are the best predictions, the other half is random.
PriorSource SourceOf(const CostSurvey& survey, const Space& space) {
  std::vector<uint32_t> rows = PredictedRows(survey);
  if (rows.size() > kCostSourceResultsMax) {
    const auto half = static_cast<ptrdiff_t>(kCostSourceResultsMax / 2);
    std::vector<uint32_t> sorted = rows;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](uint32_t a, uint32_t b) { return survey.times[a] < survey.times[b]; });
    std::vector<bool> is_taken(survey.times.size(), false);
    sorted.resize(static_cast<size_t>(half));
    for (const uint32_t row : sorted) is_taken[row] = true;
    for (const uint32_t row : rows) {
      if (sorted.size() == kCostSourceResultsMax) break;
      if (!is_taken[row]) sorted.push_back(row);
    }
    rows = std::move(sorted);
  }
  PriorSource source;
  source.rank = kCostSourceRank;
  source.is_predicted = true;
  source.label = fmt::format("cost model {}", kCostModelVersion);
  for (const uint32_t row : rows) {
    source.results.push_back({space.ConfigAt(survey.configs, row), ToldOutcome::kOk, survey.times[row]});
  }
  return source;
}

absl::Status GuideInOrder(const CostSurvey& survey, const Space& space, CostGuide* guide) {
  if (!survey.is_exact) {
    return WithReason(InvalidArgument("the space has {} points, the cost model puts at most {} configs in order: "
                                      "use another strategy than exhaustive, or prune",
                                      space.CartesianText(), FormatCount(static_cast<int64_t>(kSearchSpaceListMax))),
                      "SPACE_TOO_LARGE");
  }
  ASSIGN_OR_RETURN(guide->all, SearchSpace::Make(space));
  guide->order.resize(survey.times.size());
  std::iota(guide->order.begin(), guide->order.end(), uint32_t{0});
  std::stable_sort(guide->order.begin(), guide->order.end(),
                   [&](uint32_t a, uint32_t b) { return survey.times[a] < survey.times[b]; });
  return absl::OkStatus();
}

absl::Status Invalid(absl::Status status) { return WithReason(std::move(status), "COST_MODEL_INVALID"); }

// Of a sampled survey: what is rare in a space too large to list takes too long to draw.
absl::Status CheckKeptShare(const CostSurvey& survey, double factor, const Space& space) {
  const auto kept =
      std::count_if(survey.times.begin(), survey.times.end(), [&](double time) { return survey.Keeps(time, factor); });
  const auto drawn = static_cast<int64_t>(survey.times.size());
  if (static_cast<double>(kept) >= kPruneKeptShareMin * static_cast<double>(drawn)) return absl::OkStatus();
  return Invalid(InvalidArgument(
      "the factor {} keeps {} of {} configs that were drawn from {} points: too few to search a space that cannot be "
      "listed; take a larger factor, or rank",
      factor, FormatCount(kept), FormatCount(drawn), space.CartesianText()));
}

}  // namespace

absl::StatusOr<CostSurvey> SurveyCosts(const Space& space, const CostModel& model) {
  CostSurvey survey;
  auto table = space.Enumerate(kSearchSpaceListMax);
  if (absl::IsResourceExhausted(table.status())) {
    survey.is_exact = false;
    table = SampleConfigs(space);
  }
  RETURN_IF_ERROR(table.status());
  if (table->empty()) return WithReason(FailedPrecondition("{}", space.ExplainEmpty()), "EMPTY_SPACE");
  survey.configs = *std::move(table);
  survey.times.reserve(survey.configs.size());
  survey.least = CostSurvey::kUnpredicted;
  CostModel::Scratch scratch = model.MakeScratch();
  for (uint64_t row = 0; row < survey.configs.size(); ++row) {
    const auto point = survey.configs.Row(row);
    const std::optional<CostPrediction> prediction = model.Predict(point, &scratch);
    survey.times.push_back(prediction.has_value() ? prediction->time : CostSurvey::kUnpredicted);
    if (survey.times.back() >= survey.least) continue;
    survey.least = survey.times.back();
    survey.best.assign(point.begin(), point.end());
  }
  return survey;
}

bool IsOn(const tunefarm::v1::CostModel& options) {
  return options.mode() != CostModelMode::COST_MODEL_MODE_UNSPECIFIED &&
         options.mode() != CostModelMode::COST_MODEL_MODE_OFF;
}

absl::Status CheckCostModel(const tunefarm::v1::CostModel& options, std::string_view strategy) {
  if (!tunefarm::v1::CostModelMode_IsValid(options.mode())) {
    return Invalid(InvalidArgument("the cost model has the mode {}, which is unknown; known are off, rank and prune",
                                   static_cast<int>(options.mode())));
  }
  const bool prunes = options.mode() == CostModelMode::COST_MODEL_MODE_PRUNE;
  if (options.factor() != 0 && !prunes) {
    return Invalid(InvalidArgument("the cost model has a factor, which is for prune alone"));
  }
  if (options.factor() != 0 && !(options.factor() >= 1 && options.factor() <= kPruneFactorMax)) {
    return Invalid(InvalidArgument("the cost model's factor is {}, it must be between 1 and {}", options.factor(),
                                   FormatCount(static_cast<int64_t>(kPruneFactorMax))));
  }
  if (options.mode() == CostModelMode::COST_MODEL_MODE_RANK && strategy == "random") {
    return Invalid(
        InvalidArgument("the strategy random tries configs in a random order, which no cost model can rank; "
                        "name another strategy, exhaustive for one"));
  }
  if (IsOn(options) && options.version() != 0 && options.version() != kCostModelVersion) {
    return WithReason(FailedPrecondition("the job began with version {} of the cost model, which is now {}: it cannot "
                                         "go on; submit it again",
                                         options.version(), kCostModelVersion),
                      "COST_MODEL_VERSION");
  }
  return absl::OkStatus();
}

tunefarm::v1::CostModel ResolvedCostModel(const tunefarm::v1::CostModel& options) {
  tunefarm::v1::CostModel resolved;
  if (!IsOn(options)) return resolved;
  resolved = options;
  resolved.set_version(kCostModelVersion);
  if (options.mode() == CostModelMode::COST_MODEL_MODE_PRUNE && options.factor() == 0) {
    resolved.set_factor(kPruneFactorDefault);
  }
  return resolved;
}

absl::StatusOr<CostGuide> MakeCostGuide(const tunefarm::v1::CostModel& options, std::string_view strategy,
                                        std::shared_ptr<const KernelPlan> plan, const ResolvedProblem& problem,
                                        const DeviceClass& device, const Space& space) {
  CostGuide guide;
  RETURN_IF_ERROR(CheckCostModel(options, strategy));
  if (!IsOn(options)) return guide;
  ASSIGN_OR_RETURN(const std::shared_ptr<const CostModel> model,
                   CostModel::Make(std::move(plan), problem, device, space));
  ASSIGN_OR_RETURN(const CostSurvey survey, SurveyCosts(space, *model));
  if (options.mode() == CostModelMode::COST_MODEL_MODE_RANK) {
    if (strategy == "exhaustive") {
      RETURN_IF_ERROR(GuideInOrder(survey, space, &guide));
    } else {
      guide.source.push_back(SourceOf(survey, space));
    }
    return guide;
  }
  if (survey.is_exact) {
    // Predicted already. It is asked while the list is made and never again.
    const ConfigIndex index(survey.configs);
    ASSIGN_OR_RETURN(guide.left, SearchSpace::MakeNarrowed(space, [&](std::span<const uint16_t> point) {
                       return survey.Keeps(survey.times[*index.Find(point)], options.factor());
                     }));
    return guide;
  }
  RETURN_IF_ERROR(CheckKeptShare(survey, options.factor(), space));
  const double most = options.factor() * survey.least;
  ASSIGN_OR_RETURN(guide.left, SearchSpace::MakeNarrowed(space, [model, most](std::span<const uint16_t> point) {
                     CostModel::Scratch scratch = model->MakeScratch();
                     const std::optional<CostPrediction> prediction = model->Predict(point, &scratch);
                     return !prediction.has_value() || prediction->time <= most;
                   }));
  return guide;
}

absl::StatusOr<std::unique_ptr<Strategy>> MakeGuidedStrategy(std::string_view name, const StrategyOptions& options,
                                                             const Space& space, uint64_t seed, Priors priors,
                                                             const CostGuide& guide) {
  if (guide.left != nullptr) return MakeStrategy(name, options, guide.left, seed, priors);
  for (const PriorSource& source : guide.source) priors.push_back(source);
  if (guide.all == nullptr) return MakeStrategy(name, options, space, seed, priors);
  // Made for its complaints about the options alone.
  RETURN_IF_ERROR(MakeStrategy(name, options, guide.all, seed, priors).status());
  return MakeOrderedStrategy(*guide.all, guide.order);
}

void PruneSize(const CostSurvey& survey, const Space& space, double factor, tunefarm::v1::SpaceSize* size) {
  const std::vector<uint16_t> default_point = DefaultPoint(space);
  uint64_t removed = 0;
  for (uint64_t row = 0; row < survey.times.size(); ++row) {
    if (survey.Keeps(survey.times[row], factor)) continue;
    if (!IsPoint(survey.configs.Row(row), default_point)) ++removed;
  }
  const uint64_t surveyed = survey.times.size();
  auto* rule = size->add_rules();
  rule->set_rule(fmt::format("{}predicted time <= {} x the least", kCostRulePrefix, factor));
  rule->set_reason(fmt::format("the cost model (version {}) predicts too long a time{}", kCostModelVersion,
                               survey.is_exact ? "" : ", by a sample"));
  if (survey.is_exact) {
    rule->set_removed(static_cast<int64_t>(removed));
    size->set_valid(static_cast<int64_t>(surveyed - removed));
    return;
  }
  const double share = static_cast<double>(removed) / static_cast<double>(surveyed);
  rule->set_removed(std::llround(share * static_cast<double>(size->valid())));
  size->set_valid(std::max<int64_t>(1, size->valid() - rule->removed()));
  size->set_approximate(true);
}

absl::Status AddPredictions(const tunefarm::v1::CostModel& options, std::shared_ptr<const KernelPlan> plan,
                            const ResolvedProblem& problem, const DeviceClass& device, const Space& space,
                            tunefarm::v1::CountSpaceResponse* response) {
  RETURN_IF_ERROR(CheckCostModel(options, ""));
  if (!IsOn(options)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::shared_ptr<const CostModel> model, CostModel::Make(plan, problem, device, space));
  auto survey = SurveyCosts(space, *model);
  // An empty space is counted like any other.
  if (ReasonOf(survey.status()) == "EMPTY_SPACE") return absl::OkStatus();
  RETURN_IF_ERROR(survey.status());
  CostModel::Scratch scratch = model->MakeScratch();
  const auto say = [&](const std::vector<uint16_t>& point, tunefarm::v1::CostPrediction* proto) {
    const std::optional<CostPrediction> prediction = model->Predict(point, &scratch);
    if (prediction.has_value()) *proto = prediction->ToProto(plan->ToProto(space.MakeConfig(point)));
  };
  if (!survey->best.empty()) say(survey->best, response->mutable_predicted_best());
  const std::vector<uint16_t> default_point = DefaultPoint(space);
  if (!default_point.empty()) say(default_point, response->mutable_predicted_default());
  if (options.mode() == CostModelMode::COST_MODEL_MODE_PRUNE) {
    PruneSize(*survey, space, ResolvedCostModel(options).factor(), response->mutable_space());
  }
  return absl::OkStatus();
}

}  // namespace tunefarm
