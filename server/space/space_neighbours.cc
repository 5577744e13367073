// Neighbours of a config without listing the space: the rules are judged only within the few values that each parameter
// may take.
#include <algorithm>
#include <numeric>

#include "server/base/check.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/space/space_internal.h"

namespace tunefarm {

using space_internal::Binding;
using space_internal::Component;
using space_internal::Verdict;
using space_internal::WalkEnd;

namespace {

// Points that are tried before neighbours are listed; and where there may be too many to list.
constexpr int kTries = 32;
constexpr int kTriesMax = 200'000;

}  // namespace

namespace space_internal {

std::vector<uint16_t> WithinOneStep(const std::vector<uint16_t>& values, uint16_t index, bool is_strict) {
  std::vector<uint16_t> near;
  const auto at = std::lower_bound(values.begin(), values.end(), index);
  if (at != values.begin() && (!is_strict || *(at - 1) + 1 == index)) near.push_back(*(at - 1));
  if (at == values.end()) return near;
  near.push_back(*at);
  if (*at != index) {  // it is the one above
    if (is_strict && *at != index + 1) near.pop_back();
    return near;
  }
  if (at + 1 != values.end() && (!is_strict || *(at + 1) == index + 1)) near.push_back(*(at + 1));
  return near;
}

}  // namespace space_internal

std::vector<Component> Space::Impl::Narrowed(const std::vector<std::vector<uint16_t>>& allowed) const {
  std::vector<Component> narrowed = components;
  for (Component& component : narrowed) {
    component.cartesian = 1;
    for (size_t depth = 0; depth < component.parameters.size(); ++depth) {
      const auto& kept = allowed[component.parameters[depth]];
      std::erase_if(component.domains[depth],
                    [&kept](uint16_t value) { return !std::binary_search(kept.begin(), kept.end(), value); });
      component.cartesian *= static_cast<double>(component.domains[depth].size());
    }
  }
  return narrowed;
}

absl::StatusOr<std::vector<std::vector<uint16_t>>> Space::Impl::OccurringValues() const {
  std::vector<std::vector<uint16_t>> occurring(parameters.size());
  const space_internal::Sampler& sampler = TheSampler();
  if (absl::IsNotFound(sampler.status)) return occurring;  // the space is empty
  RETURN_IF_ERROR(sampler.status);
  if (!sampler.programs.empty() && OccurringInPrograms(sampler.programs, &occurring)) return occurring;
  occurring.assign(parameters.size(), {});
  uint64_t nodes = options.nodes_max;
  bool is_empty = false;
  for (const Component& component : components) {
    for (size_t depth = 0; depth < component.parameters.size(); ++depth) {
      Component narrowed = component;
      for (const uint16_t value : component.domains[depth]) {
        narrowed.domains[depth] = {value};
        Binding binding(parameters.size());
        std::vector<uint16_t> indices(component.parameters.size(), 0);
        absl::Status fault;
        bool is_found = false;
        const auto visit = [&is_found](const std::vector<uint16_t>&, uint64_t multiplicity) {
          is_found = multiplicity > 0;
          return !is_found;
        };
        const WalkEnd end = Walk(narrowed, 0, &indices, &binding, &nodes, &fault, visit);
        if (end == WalkEnd::kFault) return fault;
        if (end == WalkEnd::kBudget) return BudgetStatus();
        if (is_found) occurring[component.parameters[depth]].push_back(value);
      }
      is_empty = is_empty || occurring[component.parameters[depth]].empty();
    }
  }
  if (is_empty) occurring.assign(parameters.size(), {});
  return occurring;
}

absl::Status Space::Impl::HammingNeighbours(std::span<const uint16_t> indices, std::vector<uint16_t>* rows) const {
  Binding binding(parameters.size());
  for (size_t p = 0; p < indices.size(); ++p) Bind(static_cast<int>(p), indices[p], &binding);
  // What does not hold here must come to hold by the one change.
  std::vector<int> broken;
  for (size_t rule = 0; rule < rules.size(); ++rule) {
    if (Judge(static_cast<int>(rule), binding) != Verdict::kPass) broken.push_back(static_cast<int>(rule));
  }
  const auto try_value = [&](size_t p, size_t value) -> absl::Status {
    const std::vector<int>& concerned = rules_of[p];
    Bind(static_cast<int>(p), static_cast<uint16_t>(value), &binding);
    int faulty = -1;
    for (const int rule : concerned) {
      const Verdict verdict = Judge(rule, binding);
      if (verdict == Verdict::kReject) return absl::OkStatus();
      if (verdict == Verdict::kFault) faulty = rule;
    }
    for (const int rule : broken) {
      if (std::binary_search(concerned.begin(), concerned.end(), rule)) continue;
      if (Judge(rule, binding) == Verdict::kReject) return absl::OkStatus();
      faulty = rule;
    }
    if (faulty >= 0) return FaultStatus(faulty, binding);
    const size_t begin = rows->size();
    rows->insert(rows->end(), indices.begin(), indices.end());
    (*rows)[begin + p] = static_cast<uint16_t>(value);
    return absl::OkStatus();
  };
  // In the order of the space: smaller values of the first parameters, ..., and larger values of the first ones last.
  for (size_t p = 0; p < indices.size(); ++p) {
    for (size_t value = 0; value < indices[p]; ++value) RETURN_IF_ERROR(try_value(p, value));
    Bind(static_cast<int>(p), indices[p], &binding);
  }
  for (size_t p = indices.size(); p-- > 0;) {
    const size_t values = parameters[p].values.size();
    for (size_t value = indices[p] + size_t{1}; value < values; ++value) RETURN_IF_ERROR(try_value(p, value));
    Bind(static_cast<int>(p), indices[p], &binding);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::vector<uint16_t>>> Space::Impl::AdjacentValues(std::span<const uint16_t> indices,
                                                                               bool is_strict) const {
  std::vector<std::vector<uint16_t>> values;
  if (is_strict) {
    for (const Parameter& parameter : parameters) {
      values.emplace_back(parameter.values.size());
      std::iota(values.back().begin(), values.back().end(), uint16_t{0});
    }
  } else {
    const MutexLock lock(&occurring_mutex);
    if (made_occurring == nullptr) {
      made_occurring = std::make_unique<const absl::StatusOr<std::vector<std::vector<uint16_t>>>>(OccurringValues());
    }
    RETURN_IF_ERROR(made_occurring->status());
    values = **made_occurring;
  }
  for (size_t p = 0; p < indices.size(); ++p) {
    values[p] = space_internal::WithinOneStep(values[p], indices[p], is_strict);
  }
  return values;
}

absl::StatusOr<ConfigTable> Space::Neighbours(std::span<const uint16_t> indices, Neighbourhood kind,
                                              uint64_t limit) const {
  TUNEFARM_CHECK(indices.size() == impl_->parameters.size());
  ConfigTable table(static_cast<int>(indices.size()));
  if (indices.empty() || impl_->is_rejected_by_constant_rule) return table;
  RETURN_IF_ERROR(impl_->constant_fault);
  if (kind == Neighbourhood::kHamming) {
    RETURN_IF_ERROR(impl_->HammingNeighbours(indices, &table.indices_));
    table.size_ = table.indices_.size() / indices.size();
  } else {
    ASSIGN_OR_RETURN(const auto near, impl_->AdjacentValues(indices, kind == Neighbourhood::kStrictlyAdjacent));
    const uint64_t room = limit == UINT64_MAX ? limit : limit + 1;  // the config itself may be among them
    ASSIGN_OR_RETURN(table, impl_->EnumerateComponents(impl_->Narrowed(near), room));
    for (uint64_t row = 0; row < table.size_; ++row) {
      if (!std::equal(indices.begin(), indices.end(), table.Row(row).begin())) continue;
      const auto begin = table.indices_.begin() + static_cast<std::ptrdiff_t>(row * indices.size());
      table.indices_.erase(begin, begin + static_cast<std::ptrdiff_t>(indices.size()));
      --table.size_;
      break;
    }
  }
  if (table.size_ > limit) {
    return ResourceExhausted("the config has more than {} neighbours",
                             space_internal::CountText(static_cast<double>(limit), true));
  }
  return table;
}

absl::StatusOr<std::vector<uint16_t>> Space::SampleNeighbour(std::span<const uint16_t> indices, Neighbourhood kind,
                                                             PhiloxStream& random) const {
  TUNEFARM_CHECK(indices.size() == impl_->parameters.size());
  if (kind != Neighbourhood::kHamming) {
    // Most of the points around a valid config are mostly valid: some tries are cheaper than a list, and are all that
    // can be done where the list would be too long.
    ASSIGN_OR_RETURN(const auto near, impl_->AdjacentValues(indices, kind == Neighbourhood::kStrictlyAdjacent));
    double points = 1;
    for (const auto& values : near) points *= static_cast<double>(values.size());
    const int tries = points == 0 ? 0 : points > static_cast<double>(kNeighboursMax) ? kTriesMax : kTries;
    std::vector<uint16_t> drawn(indices.size());
    for (int i = 0; i < tries; ++i) {
      for (size_t p = 0; p < drawn.size(); ++p) drawn[p] = near[p][random.UniformInt(near[p].size())];
      if (!std::equal(drawn.begin(), drawn.end(), indices.begin()) && IsValid(drawn)) return drawn;
    }
  }
  ASSIGN_OR_RETURN(const ConfigTable table, Neighbours(indices, kind));
  if (table.empty()) return NotFound("the config has no valid neighbour");
  const auto row = table.Row(random.UniformInt(table.size()));
  return std::vector<uint16_t>(row.begin(), row.end());
}

bool Space::IsValid(std::span<const uint16_t> indices) const {
  TUNEFARM_CHECK(indices.size() == impl_->parameters.size());
  Binding binding(indices.size());
  for (size_t p = 0; p < indices.size(); ++p) impl_->Bind(static_cast<int>(p), indices[p], &binding);
  for (size_t rule = 0; rule < impl_->rules.size(); ++rule) {
    if (impl_->Judge(static_cast<int>(rule), binding) != Verdict::kPass) return false;
  }
  return true;
}

}  // namespace tunefarm
