// Independent groups of parameters: finding them, ordering their search, counting and listing their solutions.
#include <algorithm>
#include <numeric>

#include "server/base/format.h"
#include "server/base/saturating.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/space/space_internal.h"

namespace tunefarm {

using space_internal::Binding;
using space_internal::Component;
using space_internal::Verdict;
using space_internal::WalkEnd;

namespace space_internal {

std::vector<int> SearchOrder(const std::vector<int>& parameters, const std::vector<std::vector<int>>& rule_variables,
                             const std::vector<std::vector<uint16_t>>& domain_of) {
  std::vector<int> order;
  std::vector<bool> is_bound(domain_of.size(), false);
  std::vector<bool> is_used(rule_variables.size(), false);
  while (true) {
    int best = -1;
    double best_cost = 0;
    for (size_t rule = 0; rule < rule_variables.size(); ++rule) {
      if (is_used[rule]) continue;
      double cost = 1;
      for (const int variable : rule_variables[rule]) {
        if (!is_bound[variable]) cost *= static_cast<double>(domain_of[variable].size());
      }
      if (best < 0 || cost < best_cost) {
        best = static_cast<int>(rule);
        best_cost = cost;
      }
    }
    if (best < 0) break;
    is_used[best] = true;
    for (const int variable : rule_variables[best]) {
      if (is_bound[variable]) continue;
      is_bound[variable] = true;
      order.push_back(variable);
    }
  }
  for (const int parameter : parameters) {
    if (!is_bound[parameter]) order.push_back(parameter);
  }
  return order;
}

}  // namespace space_internal

uint64_t Component::FreeProduct(int from) const {
  uint64_t product = 1;
  for (int depth = from; depth < static_cast<int>(parameters.size()); ++depth) {
    product = SaturatingMultiply(product, domains[depth].size());
  }
  return product;
}

Verdict Space::Impl::Judge(int rule, const Binding& binding) const {
  const Expression& expression = rules[rule].expression;
  if (expression.is_integral()) {
    int64_t result = 0;
    if (expression.EvaluateIntegral(binding.ints.data(), &result))
      return result != 0 ? Verdict::kPass : Verdict::kReject;
    return Verdict::kFault;
  }
  const auto result = expression.EvaluateBool(binding.slots.data());
  if (!result.ok()) return Verdict::kFault;
  return *result ? Verdict::kPass : Verdict::kReject;
}

absl::Status Space::Impl::FaultStatus(int rule, const Binding& binding) const {
  const Expression& expression = rules[rule].expression;
  Config values;
  for (const int variable : expression.Variables()) values.Set(parameters[variable].name, *binding.slots[variable]);
  const auto result = expression.EvaluateBool(binding.slots.data());
  if (result.ok()) return Internal("constraint '{}' failed and did not fail again", expression.text());
  return Annotate(
      result.status(), "{} {} cannot be evaluated{}{}", rules[rule].is_device_rule ? "device rule" : "constraint",
      rules[rule].is_device_rule ? static_cast<size_t>(rule) - constraints.size() + 1 : static_cast<size_t>(rule) + 1,
      values.empty() ? "" : " at ", values.ToText());
}

void Space::Impl::BuildComponents(std::vector<std::vector<uint16_t>>* domains, std::vector<int>* open) {
  const size_t count = parameters.size();
  std::vector<std::vector<uint16_t>>& domain_of = *domains;
  domain_of.resize(count);
  for (size_t p = 0; p < count; ++p) {
    domain_of[p].resize(parameters[p].values.size());
    std::iota(domain_of[p].begin(), domain_of[p].end(), uint16_t{0});
  }
  space_internal::Groups groups(count);
  Binding binding(count);
  std::vector<int>& open_rules = *open;
  for (size_t rule = 0; rule < rules.size(); ++rule) {
    const std::vector<int>& variables = rules[rule].expression.Variables();
    if (variables.empty()) {
      const Verdict verdict = Judge(static_cast<int>(rule), binding);
      if (verdict == Verdict::kReject) is_rejected_by_constant_rule = true;
      if (verdict == Verdict::kFault && constant_fault.ok()) {
        constant_fault = FaultStatus(static_cast<int>(rule), binding);
      }
      continue;
    }
    for (const int variable : variables) groups.Join(variables[0], variable);
    bool is_open = variables.size() > 1;
    if (!is_open) {
      const int parameter = variables[0];
      std::vector<uint16_t> kept;
      for (const uint16_t value : domain_of[parameter]) {
        Bind(parameter, value, &binding);
        const Verdict verdict = Judge(static_cast<int>(rule), binding);
        if (verdict == Verdict::kFault) is_open = true;
        if (verdict != Verdict::kReject) kept.push_back(value);
      }
      domain_of[parameter] = std::move(kept);
    }
    if (is_open) open_rules.push_back(static_cast<int>(rule));
  }

  std::map<int, std::vector<int>> members;
  for (size_t p = 0; p < count; ++p) members[groups.Find(static_cast<int>(p))].push_back(static_cast<int>(p));
  for (const auto& [root, group] : members) {
    std::vector<int> group_rules;
    std::vector<std::vector<int>> variables;
    for (const int rule : open_rules) {
      if (groups.Find(rules[rule].expression.Variables()[0]) != root) continue;
      group_rules.push_back(rule);
      variables.push_back(rules[rule].expression.Variables());
    }
    Component component;
    component.parameters = space_internal::SearchOrder(group, variables, domain_of);
    component.rules_at.resize(group.size());
    std::vector<int> depth_of(count, 0);
    for (size_t depth = 0; depth < group.size(); ++depth) {
      const int parameter = component.parameters[depth];
      depth_of[parameter] = static_cast<int>(depth);
      component.domains.push_back(domain_of[parameter]);
      component.cartesian *= static_cast<double>(domain_of[parameter].size());
    }
    for (size_t i = 0; i < group_rules.size(); ++i) {
      int last = 0;
      for (const int variable : variables[i]) last = std::max(last, depth_of[variable]);
      component.rules_at[last].push_back(group_rules[i]);
      component.free_from = std::max(component.free_from, last + 1);
    }
    components.push_back(std::move(component));
  }
}

absl::Status Space::Impl::BudgetStatus() const {
  return WithReason(
      ResourceExhausted(
          "searching the space took more than {} steps; add constraints over fewer parameters or list fewer values",
          FormatCount(static_cast<int64_t>(options.nodes_max))),
      "SEARCH_BUDGET");
}

absl::StatusOr<uint64_t> Space::Impl::CountComponent(const Component& component) const {
  Binding binding(parameters.size());
  std::vector<uint16_t> indices(component.parameters.size(), 0);
  uint64_t nodes = options.nodes_max;
  uint64_t count = 0;
  absl::Status fault;
  const auto visit = [&count](const std::vector<uint16_t>&, uint64_t multiplicity) {
    count = SaturatingAdd(count, multiplicity);
    return true;
  };
  const WalkEnd end = Walk(component, 0, &indices, &binding, &nodes, &fault, visit);
  if (end == WalkEnd::kFault) return fault;
  if (end == WalkEnd::kBudget) return BudgetStatus();
  return count;
}

namespace {

// Appends every combination of the free parameters below a solution prefix.
void AppendFree(const Component& component, size_t depth, std::vector<uint16_t>* indices, std::vector<uint16_t>* rows) {
  if (depth == component.parameters.size()) {
    rows->insert(rows->end(), indices->begin(), indices->end());
    return;
  }
  for (const uint16_t value : component.domains[depth]) {
    (*indices)[depth] = value;
    AppendFree(component, depth + 1, indices, rows);
  }
}

// Rows in search order of columns to rows with ascending parameters, sorted.
std::vector<uint16_t> SortRows(const Component& component, const std::vector<uint16_t>& rows) {
  const size_t width = component.parameters.size();
  const size_t count = rows.size() / width;
  std::vector<size_t> column_of(width);  // ascending position -> search position
  std::iota(column_of.begin(), column_of.end(), size_t{0});
  std::sort(column_of.begin(), column_of.end(),
            [&component](size_t a, size_t b) { return component.parameters[a] < component.parameters[b]; });
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), uint32_t{0});
  double range = 1;
  for (const auto& domain : component.domains) range *= domain.empty() ? 1.0 : static_cast<double>(domain.back()) + 1;
  if (range < 9e18) {
    // One number per row orders them: sorting numbers is several times faster than comparing rows.
    std::vector<std::pair<uint64_t, uint32_t>> keys(count);
    for (size_t row = 0; row < count; ++row) {
      uint64_t key = 0;
      for (const size_t column : column_of) {
        key = key * (component.domains[column].back() + uint64_t{1}) + rows[row * width + column];
      }
      keys[row] = {key, static_cast<uint32_t>(row)};
    }
    std::sort(keys.begin(), keys.end());
    for (size_t row = 0; row < count; ++row) order[row] = keys[row].second;
  } else {
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      for (const size_t column : column_of) {
        const uint16_t x = rows[a * width + column];
        const uint16_t y = rows[b * width + column];
        if (x != y) return x < y;
      }
      return false;
    });
  }
  std::vector<uint16_t> sorted;
  sorted.reserve(rows.size());
  for (const uint32_t row : order) {
    for (const size_t column : column_of) sorted.push_back(rows[row * width + column]);
  }
  return sorted;
}

}  // namespace

absl::StatusOr<std::vector<uint16_t>> Space::Impl::ListComponent(const Component& component, uint64_t limit,
                                                                 bool* is_over) const {
  Binding binding(parameters.size());
  std::vector<uint16_t> indices(component.parameters.size(), 0);
  std::vector<uint16_t> rows;
  uint64_t nodes = options.nodes_max;
  uint64_t count = 0;
  absl::Status fault;
  *is_over = false;
  const auto visit = [&](const std::vector<uint16_t>& prefix, uint64_t multiplicity) {
    count = SaturatingAdd(count, multiplicity);
    if (count > limit) return false;
    if (multiplicity == 0) return true;
    std::vector<uint16_t> full = prefix;
    AppendFree(component, static_cast<size_t>(component.free_from), &full, &rows);
    return true;
  };
  const WalkEnd end = Walk(component, 0, &indices, &binding, &nodes, &fault, visit);
  if (end == WalkEnd::kFault) return fault;
  if (end == WalkEnd::kBudget) return BudgetStatus();
  if (end == WalkEnd::kStopped) {
    *is_over = true;
    return std::vector<uint16_t>();
  }
  return SortRows(component, rows);
}

}  // namespace tunefarm
