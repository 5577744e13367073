#include "server/space/space.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "server/base/check.h"
#include "server/base/edit_distance.h"
#include "server/base/format.h"
#include "server/base/saturating.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/space/space_internal.h"

namespace tunefarm {

using space_internal::Component;

namespace space_internal {

std::string CountText(double count, bool is_exact) {
  // What a double holds exactly; beyond that the digits end, not the exactness.
  constexpr double kWholeMax = 9.0e15;
  const std::string prefix = is_exact ? "" : "≈";
  if (count < (is_exact ? kWholeMax : 1e12)) return prefix + FormatCount(static_cast<int64_t>(std::llround(count)));
  const int exponent = static_cast<int>(std::floor(std::log10(count)));
  return fmt::format("{}{:.1f}e{}", prefix, count / std::pow(10.0, exponent), exponent);
}

}  // namespace space_internal

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

std::optional<ValueType> CommonType(const Parameter& parameter) {
  const ValueType type = parameter.values[0].type();
  for (const Value& value : parameter.values) {
    if (value.type() != type) return std::nullopt;
  }
  return type;
}

std::vector<int64_t> IntValues(const Parameter& parameter) {
  std::vector<int64_t> ints;
  for (const Value& value : parameter.values) {
    ints.push_back(value.is_int() ? value.int_value() : (value.is_bool() && value.bool_value() ? 1 : 0));
  }
  return ints;
}

}  // namespace

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
  auto impl = std::make_shared<Impl>();
  for (const Parameter& parameter : definition.parameters) {
    RETURN_IF_ERROR(CheckParameter(parameter));
    const auto slot = symbols.AddVariable(parameter.name, CommonType(parameter));
    if (!slot.ok()) return Annotate(slot.status(), "parameter");
    impl->index_of.emplace(parameter.name, *slot);
    impl->int_values.push_back(IntValues(parameter));
  }
  for (auto& [name, value] : definition.constants) {
    const absl::Status status = symbols.AddConstant(name, std::move(value));
    if (!status.ok()) return Annotate(status, "constant");
  }
  for (const auto& [name, text] : definition.derived) {
    const absl::Status status = symbols.AddDerived(name, text);
    if (!status.ok()) return Annotate(status, "derived name '{}'", name);
  }
  impl->parameters = std::move(definition.parameters);
  for (const Parameter& parameter : impl->parameters) {
    impl->cartesian_size *= static_cast<double>(parameter.values.size());
  }
  impl->constraints = std::move(definition.constraints);
  impl->device_rules = std::move(definition.device_rules);
  impl->starting_configs = std::move(definition.starting_configs);
  impl->options = options;
  impl->rules_of.resize(impl->parameters.size());
  for (size_t i = 0; i < rule_count; ++i) {
    const bool is_device_rule = i >= impl->constraints.size();
    auto expression = Expression::Compile(impl->RuleAt(static_cast<int>(i)).text, symbols);
    if (!expression.ok()) {
      return Annotate(expression.status(), "{} {}", is_device_rule ? "device rule" : "constraint",
                      is_device_rule ? i - impl->constraints.size() + 1 : i + 1);
    }
    for (const int variable : expression->Variables()) impl->rules_of[variable].push_back(static_cast<int>(i));
    impl->rules.push_back({*std::move(expression), is_device_rule});
  }
  std::vector<std::vector<uint16_t>> domain_of;
  std::vector<int> open_rules;
  impl->BuildComponents(&domain_of, &open_rules);
  impl->BuildPrograms(symbols, domain_of, open_rules);
  return Space(std::move(impl));
}

const std::vector<Parameter>& Space::parameters() const { return impl_->parameters; }
const std::vector<Rule>& Space::constraints() const { return impl_->constraints; }
const std::vector<Rule>& Space::device_rules() const { return impl_->device_rules; }

int Space::ParameterIndex(std::string_view name) const {
  const auto it = impl_->index_of.find(name);
  return it == impl_->index_of.end() ? -1 : it->second;
}

double Space::CartesianSize() const { return impl_->cartesian_size; }

std::string Space::CartesianText() const { return space_internal::CountText(CartesianSize(), /*is_exact=*/true); }

absl::StatusOr<uint64_t> Space::CountValid(uint64_t limit) const {
  if (impl_->is_rejected_by_constant_rule) return uint64_t{0};
  if (const auto counted = impl_->CountWithPrograms(impl_->options.nodes_max)) {
    RETURN_IF_ERROR(counted->status());
    if (**counted <= limit && **counted < UINT64_MAX) return static_cast<uint64_t>(**counted);
    return ResourceExhausted("the space has more than {} valid configs ({} points before the rules)",
                             space_internal::CountText(static_cast<double>(limit), true), CartesianText());
  }
  uint64_t count = 1;
  // A fault counts only where nothing else rejects: an empty component elsewhere rejects every point.
  absl::Status failure = impl_->constant_fault;
  for (const Component& component : impl_->components) {
    const auto part = impl_->CountComponent(component);
    if (!part.ok()) {
      if (failure.ok()) failure = part.status();
      continue;
    }
    if (*part == 0) return uint64_t{0};
    count = SaturatingMultiply(count, *part);
  }
  RETURN_IF_ERROR(failure);
  if (count > limit || count == UINT64_MAX) {
    return ResourceExhausted("the space has more than {} valid configs ({} points before the rules)",
                             space_internal::CountText(static_cast<double>(limit), true), CartesianText());
  }
  return count;
}

namespace {

// Joins the components' sorted solution lists into configs in declared order: at each parameter its component's list is
// narrowed to the run of rows that agree with the values chosen so far. There are no dead ends, and nothing is sorted.
class Joiner {
 public:
  struct List {
    const std::vector<uint16_t>* rows;
    size_t width;
    size_t begin;  // the rows that agree with the values chosen so far
    size_t end;
  };

  Joiner(std::vector<List> lists, std::vector<std::pair<size_t, size_t>> place_of, std::vector<uint16_t>* out)
      : lists_(std::move(lists)), place_of_(std::move(place_of)), row_(place_of_.size()), out_(out) {}

  void Run(size_t parameter) {
    if (parameter == place_of_.size()) {
      out_->insert(out_->end(), row_.begin(), row_.end());
      return;
    }
    const auto [which, column] = place_of_[parameter];
    List& list = lists_[which];
    const size_t begin = list.begin;
    const size_t end = list.end;
    for (size_t at = begin; at < end;) {
      const uint16_t value = (*list.rows)[at * list.width + column];
      size_t run_end = end;
      // Rows with this value are together: find the first with a larger one.
      size_t low = at + 1;
      while (low < run_end) {
        const size_t middle = low + (run_end - low) / 2;
        if ((*list.rows)[middle * list.width + column] == value) {
          low = middle + 1;
        } else {
          run_end = middle;
        }
      }
      list.begin = at;
      list.end = run_end;
      row_[parameter] = value;
      Run(parameter + 1);
      at = run_end;
    }
    list.begin = begin;
    list.end = end;
  }

 private:
  std::vector<List> lists_;
  const std::vector<std::pair<size_t, size_t>> place_of_;  // of each parameter: its list and its column there
  std::vector<uint16_t> row_;
  std::vector<uint16_t>* const out_;
};

}  // namespace

absl::StatusOr<ConfigTable> Space::Enumerate(uint64_t limit) const {
  if (!impl_->is_rejected_by_constant_rule) {
    auto listed = impl_->EnumerateWithPrograms(std::min(limit, uint64_t{UINT32_MAX}));
    if (listed.has_value()) return *std::move(listed);
  }
  return impl_->EnumerateComponents(impl_->components, limit);
}

absl::Status Space::Impl::TooManyToList(uint64_t limit) const {
  return ResourceExhausted(
      "the space has more than {} valid configs ({} points before the rules), too many to list; narrow the values or "
      "use a strategy that does not list the space",
      space_internal::CountText(static_cast<double>(limit), true), space_internal::CountText(cartesian_size, true));
}

absl::StatusOr<ConfigTable> Space::Impl::EnumerateComponents(const std::vector<Component>& parts,
                                                             uint64_t limit) const {
  limit = std::min(limit, uint64_t{UINT32_MAX});  // rows are numbered in 32 bits while they are sorted
  ConfigTable table(static_cast<int>(parameters.size()));
  if (is_rejected_by_constant_rule) return table;
  absl::Status failure = constant_fault;
  std::vector<std::vector<uint16_t>> solutions(parts.size());
  uint64_t count = 1;
  bool is_over = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    bool component_is_over = false;
    auto rows = ListComponent(parts[i], limit, &component_is_over);
    if (!rows.ok()) {
      if (failure.ok()) failure = rows.status();
      continue;
    }
    is_over = is_over || component_is_over;
    if (!component_is_over && rows->empty()) return table;
    solutions[i] = *std::move(rows);
    count = SaturatingMultiply(count, solutions[i].size() / parts[i].parameters.size());
  }
  RETURN_IF_ERROR(failure);
  if (is_over || count > limit) return TooManyToList(limit);
  std::vector<Joiner::List> lists;
  std::vector<std::pair<size_t, size_t>> place_of(parameters.size());
  for (size_t i = 0; i < solutions.size(); ++i) {
    std::vector<int> ascending = parts[i].parameters;
    std::sort(ascending.begin(), ascending.end());
    for (size_t column = 0; column < ascending.size(); ++column) place_of[ascending[column]] = {i, column};
    lists.push_back({&solutions[i], ascending.size(), 0, solutions[i].size() / ascending.size()});
  }
  table.size_ = count;
  table.indices_.reserve(count * parameters.size());
  Joiner(std::move(lists), std::move(place_of), &table.indices_).Run(0);
  return table;
}

absl::StatusOr<std::vector<uint16_t>> Space::IndicesOf(const Config& config) const {
  std::vector<uint16_t> indices;
  for (const Parameter& parameter : impl_->parameters) {
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
  for (const Parameter& parameter : impl_->parameters) names.push_back(parameter.name);
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
  space_internal::Binding binding(indices.size());
  for (size_t p = 0; p < indices.size(); ++p) impl_->Bind(static_cast<int>(p), indices[p], &binding);
  absl::Status fault;
  for (size_t i = 0; i < impl_->rules.size(); ++i) {
    const int rule = static_cast<int>(i);
    const auto verdict = impl_->Judge(rule, binding);
    if (verdict == space_internal::Verdict::kFault && fault.ok()) fault = impl_->FaultStatus(rule, binding);
    if (verdict != space_internal::Verdict::kReject) continue;
    const Rule& text = impl_->RuleAt(rule);
    return InvalidArgument("the config breaks the {} '{}'{}{}",
                           impl_->rules[i].is_device_rule ? "device rule" : "constraint", text.text,
                           text.reason.empty() ? "" : ": ", text.reason);
  }
  return fault;
}

Config Space::MakeConfig(std::span<const uint16_t> indices) const {
  TUNEFARM_CHECK(indices.size() == impl_->parameters.size());
  Config config;
  for (size_t p = 0; p < indices.size(); ++p) {
    const Parameter& parameter = impl_->parameters[p];
    TUNEFARM_CHECK(indices[p] < parameter.values.size());
    config.Set(parameter.name, parameter.values[indices[p]]);
  }
  return config;
}

std::optional<Config> Space::DefaultConfig() const {
  Config config;
  for (const Parameter& parameter : impl_->parameters) {
    if (!parameter.default_value.has_value()) return std::nullopt;
    config.Set(parameter.name, *parameter.default_value);
  }
  return config;
}

const std::vector<Config>& Space::starting_configs() const { return impl_->starting_configs; }

}  // namespace tunefarm
