#include "server/space/space.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_set>

#include "server/base/check.h"
#include "server/base/edit_distance.h"
#include "server/base/mutex.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/thread_annotations.h"
#include "server/space/space_rules.h"
#include "server/space/space_sample.h"
#include "server/space/space_search.h"

namespace tunefarm {

using space_internal::SpaceRules;
using space_internal::SpaceSampler;
using space_internal::SpaceSearch;
using space_internal::Verdict;

namespace {

absl::Status CheckParameter(const Parameter& parameter) {
  if (parameter.values.empty()) return InvalidArgument("parameter '{}' has no values", parameter.name);
  if (parameter.values.size() > kParameterValuesMax) {
    return InvalidArgument("parameter '{}' has {} values; at most {} are allowed", parameter.name,
                           parameter.values.size(), kParameterValuesMax);
  }
  std::unordered_set<std::string> seen;
  for (const Value& value : parameter.values) {
    if (!seen.insert(fmt::format("{}:{}", static_cast<int>(value.type()), value.ToText())).second) {
      return InvalidArgument("parameter '{}' lists the value {} twice", parameter.name, value.ToLiteral());
    }
  }
  if (parameter.default_value.has_value() &&
      std::find(parameter.values.begin(), parameter.values.end(), *parameter.default_value) == parameter.values.end()) {
    return InvalidArgument("the default {} of parameter '{}' is not among its values",
                           parameter.default_value->ToLiteral(), parameter.name);
  }
  return absl::OkStatus();
}

// Of so many rules, or bytes of their texts, a point takes some ten microseconds to judge, and a limit can be asked
// each time.
constexpr size_t kManyRules = 32, kLongRules = 4096;

std::optional<ValueType> CommonType(const Parameter& parameter) {
  const ValueType type = parameter.values[0].type();
  for (const Value& value : parameter.values) {
    if (value.type() != type) return std::nullopt;
  }
  return type;
}

}  // namespace

struct Space::Impl {
  Impl(SpaceRules compiled, SymbolTable names, SpaceOptions how)
      : rules(std::move(compiled)), symbols(std::move(names)), options(std::move(how)) {
    for (const Parameter& parameter : rules.parameters()) {
      index_of.emplace(parameter.name, static_cast<int>(index_of.size()));
      cartesian_size *= static_cast<double>(parameter.values.size());
    }
    size_t rule_bytes = 0;
    for (size_t rule = 0; rule < rules.size(); ++rule) rule_bytes += rules.Declared(static_cast<int>(rule)).text.size();
    is_slow_to_judge = rules.size() >= kManyRules || rule_bytes >= kLongRules;
  }

  absl::Status LimitStatus() const { return options.limit == nullptr ? absl::OkStatus() : options.limit->Why(); }

  // These fail as the options' limit says; the next call then begins again.
  absl::StatusOr<const SpaceSearch*> TheSearch() const {
    const MutexLock lock(&search_mutex);
    if (made_search != nullptr) return made_search.get();
    if (!rules.Narrow(options.limit.get())) return LimitStatus();
    auto search = std::make_unique<const SpaceSearch>(rules, symbols, options);
    RETURN_IF_ERROR(LimitStatus());
    made_search = std::move(search);
    return made_search.get();
  }

  absl::StatusOr<const SpaceSampler*> TheSampler() const {
    ASSIGN_OR_RETURN(const SpaceSearch* const search, TheSearch());
    const MutexLock lock(&sampler_mutex);
    if (made_sampler != nullptr) return made_sampler.get();
    auto sampler = std::make_unique<const SpaceSampler>(*search);
    RETURN_IF_ERROR(LimitStatus());
    made_sampler = std::move(sampler);
    return made_sampler.get();
  }

  mutable SpaceRules rules;  // narrowed with the first search, which changes nothing that judging a point reads
  const SymbolTable symbols;
  const SpaceOptions options;
  std::vector<Config> starting_configs;
  std::map<std::string, int, std::less<>> index_of;
  double cartesian_size = 1;
  bool is_slow_to_judge = false;

  mutable Mutex search_mutex;
  // Made by the first operation that searches; never changes afterwards.
  mutable std::unique_ptr<const SpaceSearch> made_search GUARDED_BY(search_mutex);
  mutable Mutex sampler_mutex;
  // Made by the first SampleUniform; never changes afterwards.
  mutable std::unique_ptr<const SpaceSampler> made_sampler GUARDED_BY(sampler_mutex);
};

absl::StatusOr<Space> Space::Build(SpaceDefinition definition, const SpaceOptions& options) {
  const size_t rule_count = definition.constraints.size() + definition.device_rules.size();
  if (definition.parameters.size() > kSpaceParametersMax) {
    return InvalidArgument("the space has {} parameters; at most {} are allowed", definition.parameters.size(),
                           kSpaceParametersMax);
  }
  if (rule_count > kSpaceRulesMax) {
    return InvalidArgument("the space has {} rules; at most {} are allowed", rule_count, kSpaceRulesMax);
  }
  SymbolTable symbols;
  for (const Parameter& parameter : definition.parameters) {
    RETURN_IF_ERROR(CheckParameter(parameter));
    const auto slot = symbols.AddVariable(parameter.name, CommonType(parameter));
    if (!slot.ok()) return Annotate(slot.status(), "parameter");
  }
  for (auto& [name, value] : definition.constants) {
    const absl::Status status = symbols.AddConstant(name, std::move(value));
    if (!status.ok()) return Annotate(status, "constant");
  }
  for (const auto& [name, text] : definition.derived) {
    const absl::Status status = symbols.AddDerived(name, text);
    if (!status.ok()) return Annotate(status, "derived name '{}'", name);
  }
  ASSIGN_OR_RETURN(SpaceRules rules,
                   SpaceRules::Compile(std::move(definition.parameters), std::move(definition.constraints),
                                       std::move(definition.device_rules), symbols));
  auto impl = std::make_shared<Impl>(std::move(rules), std::move(symbols), options);
  impl->starting_configs = std::move(definition.starting_configs);
  return Space(std::move(impl));
}

const SpaceOptions& Space::options() const { return impl_->options; }
const std::vector<Parameter>& Space::parameters() const { return impl_->rules.parameters(); }

int Space::ParameterIndex(std::string_view name) const {
  const auto it = impl_->index_of.find(name);
  return it == impl_->index_of.end() ? -1 : it->second;
}

double Space::CartesianSize() const { return impl_->cartesian_size; }

std::string Space::CartesianText() const { return space_internal::CountText(CartesianSize(), /*is_exact=*/true); }

absl::StatusOr<uint64_t> Space::CountValid(uint64_t limit) const {
  ASSIGN_OR_RETURN(const SpaceSearch* const search, impl_->TheSearch());
  ASSIGN_OR_RETURN(const space_internal::SolutionCount count,
                   search->Count({impl_->options.nodes_max, impl_->options.limit.get()}));
  if (count <= limit && count < UINT64_MAX) return static_cast<uint64_t>(count);
  return ResourceExhausted("the space has more than {} valid configs ({} points before the rules)",
                           space_internal::CountText(static_cast<double>(limit), true), CartesianText());
}

absl::StatusOr<ConfigTable> Space::Enumerate(uint64_t limit, Duration time) const {
  ASSIGN_OR_RETURN(const SpaceSearch* const search, impl_->TheSearch());
  const WorkLimit* const whole = impl_->options.limit.get();
  if (whole == nullptr) return search->List(limit, nullptr);
  const WorkLimit part(whole, time);
  return search->List(limit, &part);
}

absl::StatusOr<std::vector<uint16_t>> Space::SampleUniform(PhiloxStream& random) const {
  ASSIGN_OR_RETURN(const SpaceSampler* const sampler, impl_->TheSampler());
  return sampler->Draw(random);
}

absl::Status Space::PrepareSampling() const { return impl_->TheSampler().status(); }

absl::StatusOr<PruneReport> Space::CountByRule(uint64_t exact_max) const {
  ASSIGN_OR_RETURN(const SpaceSearch* const search, impl_->TheSearch());
  return space_internal::CountByRule(*search, CartesianSize(), exact_max);
}

std::string Space::ExplainEmpty() const {
  const auto report = CountByRule();
  if (!report.ok()) return fmt::format("the space is empty ({})", MessageOf(report.status()));
  std::string text = fmt::format("the space is empty: the rules reject all {} points", CartesianText());
  for (const RuleCount& rule : report->rules) {
    if (rule.rejected == 0) continue;
    text += fmt::format("\n  {} by {} '{}'{}{}", space_internal::CountText(rule.rejected, report->exact),
                        rule.is_device_rule ? "device rule" : "constraint", rule.text, rule.reason.empty() ? "" : ": ",
                        rule.reason);
  }
  return text;
}

absl::StatusOr<std::vector<uint16_t>> Space::IndicesOf(const Config& config) const {
  std::vector<uint16_t> indices;
  for (const Parameter& parameter : impl_->rules.parameters()) {
    const Value* value = config.Find(parameter.name);
    if (value == nullptr) return InvalidArgument("the config lacks a value of parameter '{}'", parameter.name);
    const auto it = std::find(parameter.values.begin(), parameter.values.end(), *value);
    if (it == parameter.values.end()) {
      return InvalidArgument("{} is not a value of parameter '{}'", value->ToLiteral(), parameter.name);
    }
    indices.push_back(static_cast<uint16_t>(it - parameter.values.begin()));
  }
  if (config.size() == indices.size()) return indices;
  std::vector<std::string> names;
  for (const Parameter& parameter : impl_->rules.parameters()) names.push_back(parameter.name);
  for (const auto& [name, value] : config) {
    if (ParameterIndex(name) >= 0) continue;
    const auto close = ClosestMatch(name, names);
    return InvalidArgument("the space has no parameter '{}'{}", name,
                           close ? fmt::format(" (did you mean '{}'?)", *close) : std::string());
  }
  return Internal("a config of {} names does not match {} parameters", config.size(), indices.size());
}

absl::Status Space::Check(const Config& config) const {
  ASSIGN_OR_RETURN(const std::vector<uint16_t> indices, IndicesOf(config));
  const SpaceRules& rules = impl_->rules;
  const space_internal::Binding binding = rules.BindAll(indices);
  absl::Status fault;
  for (size_t i = 0; i < rules.size(); ++i) {
    const int rule = static_cast<int>(i);
    const Verdict verdict = rules.Judge(rule, binding);
    if (verdict == Verdict::kFault && fault.ok()) fault = rules.FaultStatus(rule, binding);
    if (verdict != Verdict::kReject) continue;
    const Rule& declared = rules.Declared(rule);
    return InvalidArgument("the config breaks the {} '{}'{}{}", rules.IsDeviceRule(rule) ? "device rule" : "constraint",
                           declared.text, declared.reason.empty() ? "" : ": ", declared.reason);
  }
  return fault;
}

bool Space::IsValid(std::span<const uint16_t> indices) const {
  const SpaceRules& rules = impl_->rules;
  TUNEFARM_CHECK(indices.size() == rules.parameters().size());
  if (impl_->is_slow_to_judge && impl_->options.limit != nullptr && !impl_->options.limit->GoOn()) return false;
  const space_internal::Binding binding = rules.BindAll(indices);
  for (size_t rule = 0; rule < rules.size(); ++rule) {
    if (rules.Judge(static_cast<int>(rule), binding) != Verdict::kPass) return false;
  }
  return true;
}

Config Space::MakeConfig(std::span<const uint16_t> indices) const {
  TUNEFARM_CHECK(indices.size() == impl_->rules.parameters().size());
  Config config;
  for (size_t p = 0; p < indices.size(); ++p) {
    const Parameter& parameter = impl_->rules.parameters()[p];
    TUNEFARM_CHECK(indices[p] < parameter.values.size());
    config.Set(parameter.name, parameter.values[indices[p]]);
  }
  return config;
}

std::optional<Config> Space::DefaultConfig() const {
  Config config;
  for (const Parameter& parameter : impl_->rules.parameters()) {
    if (!parameter.default_value.has_value()) return std::nullopt;
    config.Set(parameter.name, *parameter.default_value);
  }
  return config;
}

const std::vector<Config>& Space::starting_configs() const { return impl_->starting_configs; }

}  // namespace tunefarm
