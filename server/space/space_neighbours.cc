#include <algorithm>

#include "server/base/status_macros.h"
#include "server/space/space_rules.h"

namespace tunefarm::space_internal {

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

absl::StatusOr<ConfigTable> ListHamming(const SpaceRules& rules, std::span<const uint16_t> indices) {
  Binding binding = rules.BindAll(indices);
  std::vector<uint16_t> rows;
  // What does not hold here must come to hold by the one change.
  std::vector<int> broken;
  for (size_t rule = 0; rule < rules.size(); ++rule) {
    if (rules.Judge(static_cast<int>(rule), binding) != Verdict::kPass) broken.push_back(static_cast<int>(rule));
  }
  const auto try_value = [&](size_t p, size_t value) -> absl::Status {
    const std::vector<int>& concerned = rules.RulesOf(p);
    rules.Bind(static_cast<int>(p), static_cast<uint16_t>(value), &binding);
    int faulty = -1;
    for (const int rule : concerned) {
      const Verdict verdict = rules.Judge(rule, binding);
      if (verdict == Verdict::kReject) return absl::OkStatus();
      if (verdict == Verdict::kFault) faulty = rule;
    }
    for (const int rule : broken) {
      if (std::binary_search(concerned.begin(), concerned.end(), rule)) continue;
      if (rules.Judge(rule, binding) == Verdict::kReject) return absl::OkStatus();
      faulty = rule;
    }
    if (faulty >= 0) return rules.FaultStatus(faulty, binding);
    const size_t begin = rows.size();
    rows.insert(rows.end(), indices.begin(), indices.end());
    rows[begin + p] = static_cast<uint16_t>(value);
    return absl::OkStatus();
  };
  // In the order of the space: smaller values of the first parameters, ..., and larger values of the first ones last.
  for (size_t p = 0; p < indices.size(); ++p) {
    for (size_t value = 0; value < indices[p]; ++value) RETURN_IF_ERROR(try_value(p, value));
    rules.Bind(static_cast<int>(p), indices[p], &binding);
  }
  for (size_t p = indices.size(); p-- > 0;) {
    const size_t values = rules.parameters()[p].values.size();
    for (size_t value = indices[p] + size_t{1}; value < values; ++value) RETURN_IF_ERROR(try_value(p, value));
    rules.Bind(static_cast<int>(p), indices[p], &binding);
  }
  const uint64_t count = rows.size() / indices.size();
  return ConfigTable(static_cast<int>(indices.size()), count, std::move(rows));
}

}  // namespace tunefarm::space_internal
