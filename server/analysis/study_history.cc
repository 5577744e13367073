#include "server/analysis/study_history.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "server/base/status.h"

namespace tunefarm {
namespace {

double NumberOf(const Value& value) {
  switch (value.type()) {
    case ValueType::kBool:
      return value.bool_value() ? 1 : 0;
    case ValueType::kInt:
      return static_cast<double>(value.int_value());
    case ValueType::kFloat:
      return value.float_value();
    case ValueType::kString:
      break;
  }
  return 0;
}

bool IsBefore(const Value& a, const Value& b) {
  if (a.type() != b.type()) return a.type() < b.type();
  return a.is_string() ? a.string_value() < b.string_value() : NumberOf(a) < NumberOf(b);
}

}  // namespace

absl::Status StudyHistory::Add(int64_t ordinal, int64_t ended_ms, int outcome, const Config& config,
                               std::optional<double> objective_ns) {
  if (evaluations_.empty() && parameters_.empty()) {
    for (const auto& [name, value] : config) parameters_.push_back({name, {}, {}});
  }
  if (config.size() != parameters_.size()) {
    return InvalidArgument("trial {} has {} parameters, those before it have {}", ordinal, config.size(),
                           parameters_.size());
  }
  const size_t start = indices_.size();
  size_t p = 0;
  for (const auto& [name, value] : config) {
    ParameterSeen& seen = parameters_[p++];
    if (seen.name != name) {
      indices_.resize(start);
      return InvalidArgument("trial {} has a parameter {}, those before it have {} in its place", ordinal, name,
                             seen.name);
    }
    std::string text = value.ToText();
    auto found = seen.index_of.find(text);
    if (found == seen.index_of.end()) {
      if (seen.values.size() > std::numeric_limits<uint16_t>::max()) {
        indices_.resize(start);
        return InvalidArgument("the parameter {} has more than 65,536 values", name);
      }
      found = seen.index_of.emplace(std::move(text), static_cast<uint16_t>(seen.values.size())).first;
      seen.values.push_back(value);
    }
    indices_.push_back(found->second);
  }
  evaluations_.push_back({ordinal, ended_ms, outcome, objective_ns.value_or(0) > 0 ? *objective_ns : 0});
  return absl::OkStatus();
}

void StudyHistory::Settle() {
  const size_t columns = parameters_.size();
  for (size_t p = 0; p < columns; ++p) {
    ParameterSeen& seen = parameters_[p];
    std::vector<uint16_t> order(seen.values.size());
    std::iota(order.begin(), order.end(), uint16_t{0});
    std::sort(order.begin(), order.end(),
              [&](uint16_t a, uint16_t b) { return IsBefore(seen.values[a], seen.values[b]); });
    std::vector<Value> sorted;
    std::vector<uint16_t> place(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      sorted.push_back(seen.values[order[i]]);
      place[order[i]] = static_cast<uint16_t>(i);
    }
    seen.values = std::move(sorted);
    seen.index_of.clear();
    for (size_t at = p; at < indices_.size(); at += columns) indices_[at] = place[indices_[at]];
  }
  std::vector<uint32_t> order(evaluations_.size());
  std::iota(order.begin(), order.end(), uint32_t{0});
  std::sort(order.begin(), order.end(), [this](uint32_t a, uint32_t b) {
    const Evaluation &first = evaluations_[a], &second = evaluations_[b];
    return first.ended_ms != second.ended_ms ? first.ended_ms < second.ended_ms : first.ordinal < second.ordinal;
  });
  std::vector<Evaluation> evaluations;
  std::vector<uint16_t> indices;
  evaluations.reserve(evaluations_.size());
  indices.reserve(indices_.size());
  for (const uint32_t from : order) {
    evaluations.push_back(evaluations_[from]);
    const auto row = indices_.begin() + static_cast<ptrdiff_t>(from * columns);
    indices.insert(indices.end(), row, row + static_cast<ptrdiff_t>(columns));
  }
  evaluations_ = std::move(evaluations);
  indices_ = std::move(indices);
  for (uint32_t at = 0; at < evaluations_.size(); ++at) {
    if (!evaluations_[at].is_ok()) continue;
    measured_.push_back(at);
    if (!best_.has_value() || evaluations_[at].objective_ns < evaluations_[*best_].objective_ns) best_ = at;
  }
}

Config StudyHistory::ConfigOf(size_t at) const {
  Config config;
  for (size_t p = 0; p < parameters_.size(); ++p)
    config.Set(parameters_[p].name, parameters_[p].values[ValueIndex(at, p)]);
  return config;
}

}  // namespace tunefarm
