// Neighbours of a config without listing the space: the rules are judged only within the few values that each parameter
// may take.
#include <algorithm>

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
  if (is_rejected_by_constant_rule) return occurring;
  RETURN_IF_ERROR(constant_fault);
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

absl::StatusOr<ConfigTable> Space::Neighbours(std::span<const uint16_t> indices, Neighbourhood kind,
                                              uint64_t limit) const {
  TUNEFARM_CHECK(indices.size() == impl_->parameters.size());
  std::vector<std::vector<uint16_t>> allowed;
  for (const uint16_t index : indices) allowed.push_back({index});
  std::vector<std::vector<uint16_t>> values;
  for (const Parameter& parameter : impl_->parameters) {
    values.emplace_back(parameter.values.size());
    for (size_t i = 0; i < values.back().size(); ++i) values.back()[i] = static_cast<uint16_t>(i);
  }
  const uint64_t room = limit == UINT64_MAX ? limit : limit + 1;  // the config itself may be among them
  if (kind == Neighbourhood::kAdjacent) {
    const MutexLock lock(&impl_->sampler_mutex);
    if (impl_->made_occurring == nullptr) {
      impl_->made_occurring =
          std::make_unique<const absl::StatusOr<std::vector<std::vector<uint16_t>>>>(impl_->OccurringValues());
    }
    RETURN_IF_ERROR(impl_->made_occurring->status());
    values = **impl_->made_occurring;
  }
  ConfigTable table(static_cast<int>(indices.size()));
  const auto append = [&](const ConfigTable& found) {
    for (uint64_t row = 0; row < found.size(); ++row) {
      const auto at = found.Row(row);
      if (std::equal(at.begin(), at.end(), indices.begin())) continue;
      table.indices_.insert(table.indices_.end(), at.begin(), at.end());
      ++table.size_;
    }
  };
  if (kind != Neighbourhood::kHamming) {
    for (size_t p = 0; p < indices.size(); ++p) {
      allowed[p] = space_internal::WithinOneStep(values[p], indices[p], kind == Neighbourhood::kStrictlyAdjacent);
    }
    ASSIGN_OR_RETURN(const ConfigTable found, impl_->EnumerateComponents(impl_->Narrowed(allowed), room));
    append(found);
  } else {
    // In the order of the space: smaller values of the first parameters, ..., then larger values of the first ones
    // last.
    std::vector<ConfigTable> larger;
    for (size_t p = 0; p < indices.size(); ++p) {
      for (const bool is_larger : {false, true}) {
        allowed[p].clear();
        for (const uint16_t value : values[p]) {
          if (is_larger ? value > indices[p] : value < indices[p]) allowed[p].push_back(value);
        }
        ASSIGN_OR_RETURN(ConfigTable found, impl_->EnumerateComponents(impl_->Narrowed(allowed), room));
        if (is_larger) {
          larger.push_back(std::move(found));
        } else {
          append(found);
        }
      }
      allowed[p] = {indices[p]};
    }
    for (size_t i = larger.size(); i-- > 0;) append(larger[i]);
  }
  if (table.size_ > limit) {
    return ResourceExhausted("the config has more than {} neighbours",
                             space_internal::CountText(static_cast<double>(limit), true));
  }
  return table;
}

absl::StatusOr<std::vector<uint16_t>> Space::SampleNeighbour(std::span<const uint16_t> indices, Neighbourhood kind,
                                                             PhiloxStream& random) const {
  ASSIGN_OR_RETURN(const ConfigTable near, Neighbours(indices, kind));
  if (near.empty()) return NotFound("the config has no valid neighbour");
  const auto row = near.Row(random.UniformInt(near.size()));
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
