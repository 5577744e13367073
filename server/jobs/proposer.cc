#include "server/jobs/proposer.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/jobs/prior_results.h"
#include "server/search/starting_strategy.h"

namespace tunefarm {
namespace {

constexpr int kUnitTrialsMax = 32;
// Of a study of many thousand trials, for which a unit is a small part however large it is.
constexpr int kLargeUnitTrialsMax = 64;
constexpr int64_t kTrialsPerLargeUnit = 256;

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> MakeStudyStrategy(const tunefarm::v1::Job& spec, const Space& space,
                                                            const Priors& priors) {
  StrategyOptions options;
  for (const auto& [name, value] : spec.strategy().options()) options.emplace(name, value);
  const uint64_t seed = spec.strategy().seed() == 0 ? 1 : spec.strategy().seed();
  return MakeStrategy(spec.strategy().strategy_name(), options, space, seed, priors);
}

int UnitSize(const tunefarm::v1::SpaceSize& size, const tunefarm::v1::Budget& budget) {
  int64_t trials = size.valid();
  if (budget.max_trials() > 0) trials = std::min<int64_t>(trials, budget.max_trials());
  const int64_t large = std::min<int64_t>(trials / kTrialsPerLargeUnit, kLargeUnitTrialsMax);
  return static_cast<int>(std::max(std::clamp<int64_t>(trials / 8, 1, kUnitTrialsMax), large));
}

int TailUnitSize(int unit_size, int64_t trials_left, int devices) {
  if (devices <= 1 || trials_left < 0) return unit_size;
  return static_cast<int>(std::clamp<int64_t>(trials_left / (2 * devices), 1, unit_size));
}

Proposer::Proposer(const StudyContext& context, Space space, std::shared_ptr<WorkLimit> limit)
    : plan_(context.plan),
      size_(context.size),
      trials_max_(context.spec.budget().max_trials()),
      unit_size_(UnitSize(context.size, context.spec.budget())),
      limit_(std::move(limit)),
      space_(std::move(space)) {}

absl::StatusOr<std::unique_ptr<Proposer>> Proposer::Create(const StudyContext& context,
                                                           const std::vector<PriorRow>& priors,
                                                           std::shared_ptr<WorkLimit> limit) {
  Priors told;
  for (const PriorRow& row : priors) {
    ASSIGN_OR_RETURN(PriorSource source, DecodePrior(row));
    told.push_back(std::move(source));
  }
  ASSIGN_OR_RETURN(Space space, context.plan->BuildSpace(*context.problem, context.device_class, {.limit = limit}));
  std::unique_ptr<Proposer> proposer(new Proposer(context, std::move(space), std::move(limit)));
  ASSIGN_OR_RETURN(proposer->strategy_, MakeStudyStrategy(context.spec, proposer->space_, told));
  if (std::vector<Config> first = proposer->StartingConfigs(context); !first.empty()) {
    proposer->strategy_ = MakeStartingStrategy(std::move(first), std::move(proposer->strategy_));
  }
  RETURN_IF_ERROR(proposer->limit_->Why());
  return proposer;
}

std::vector<Config> Proposer::StartingConfigs(const StudyContext& context) {
  std::vector<Config> configs;
  for (const tunefarm::v1::StartingConfig& starting : context.spec.starting_configs()) {
    const absl::StatusOr<Config> config = plan_->ParseConfig(starting.config());
    const absl::Status fits = config.ok() ? space_.Check(*config) : config.status();
    if (fits.ok()) {
      configs.push_back(*config);
    } else if (++left_out_ == 1) {
      left_out_because_ = MessageOf(fits);
    }
  }
  return configs;
}

int64_t Proposer::TrialsLeft(int64_t proposed) const {
  if (size_.approximate()) return trials_max_ > 0 ? std::max<int64_t>(0, trials_max_ - proposed) : -1;
  const int64_t all = trials_max_ > 0 ? std::min<int64_t>(trials_max_, size_.valid()) : size_.valid();
  return std::max<int64_t>(0, all - proposed);
}

absl::StatusOr<Proposer::Answer> Proposer::Ask(Question now) {
  limit_->Begin(kTaskTime);
  absl::StatusOr<Answer> answer = AskStrategy(std::move(now));
  is_slow_ = limit_->Spent() > kQuickTaskTime;
  // A strategy may take an end of its space's work for the end of the space.
  RETURN_IF_ERROR(limit_->Why());
  return answer;
}

absl::StatusOr<Proposer::Answer> Proposer::AskStrategy(Question now) {
  for (const Result& result : now.results) RETURN_IF_ERROR(Tell(result));
  Answer units;
  while (!strategy_->Exhausted() && now.HasRoom()) {
    // The default config (or a starting one) alone comes first: what everything else is compared with.
    int64_t wanted = now.proposed == 0 ? 1 : TailUnitSize(unit_size_, TrialsLeft(now.proposed), now.devices);
    if (trials_max_ > 0) wanted = std::min(wanted, trials_max_ - now.proposed);
    if (wanted <= 0) break;
    ASSIGN_OR_RETURN(const std::vector<Config> configs, strategy_->Ask(static_cast<int>(wanted)));
    // Exhausted, or it waits for results.
    if (configs.empty()) break;
    TUNEFARM_CHECK(static_cast<int64_t>(configs.size()) <= wanted);
    std::vector<std::string>& unit = units.emplace_back();
    for (const Config& config : configs) unit.push_back(config.ToText());
    now.proposed += static_cast<int64_t>(configs.size());
    now.open_trials += static_cast<int64_t>(configs.size());
    ++now.open_units;
  }
  return units;
}

absl::Status Proposer::MarkProposed(const std::string& config) {
  ASSIGN_OR_RETURN(const Config parsed, plan_->ConfigFromText(config));
  return strategy_->MarkProposed(parsed);
}

absl::Status Proposer::Tell(const Result& result) {
  ASSIGN_OR_RETURN(Config config, plan_->ConfigFromText(result.config));
  strategy_->Tell({static_cast<uint64_t>(result.ordinal), std::move(config), result.outcome, result.objective_ns});
  return absl::OkStatus();
}

}  // namespace tunefarm
