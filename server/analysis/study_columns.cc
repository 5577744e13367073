#include "server/analysis/study_columns.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr size_t kValueBytes = 200;  // of a value, its text and its place in the map, about

bool EndsBefore(const Evaluation& a, const Evaluation& b) {
  return a.ended_ms != b.ended_ms ? a.ended_ms < b.ended_ms : a.ordinal < b.ordinal;
}

// Takes the next "NAME=VALUE" off the text of a config.
std::string_view TakeAssignment(std::string_view* text) {
  size_t end = 0;
  while (end < text->size() && (*text)[end] != ',') end += (*text)[end] == '\\' ? 2 : 1;
  const std::string_view assignment = text->substr(0, end);
  text->remove_prefix(std::min(text->size(), end + 1));
  return assignment;
}

}  // namespace

absl::Status StudyColumns::AddParameters(std::string_view config) {
  ASSIGN_OR_RETURN(const Config first, Config::FromText(config));
  for (const auto& [name, value] : first) parameters_.push_back({name, {}, {}, 0});
  return absl::OkStatus();
}

absl::Status StudyColumns::AddValue(ParameterSeen* seen, std::string_view assignment, int64_t ordinal) {
  ASSIGN_OR_RETURN(Config one, Config::FromText(assignment));
  if (one.size() != 1 || one.begin()->first != seen->name) {
    return InvalidArgument("trial {} has '{}', those before it have a value of {} in its place", ordinal, assignment,
                           seen->name);
  }
  if (types_.find(seen->name) != types_.end()) {
    ASSIGN_OR_RETURN(one, Config::FromText(assignment, types_));
  }
  if (seen->values.size() > std::numeric_limits<uint16_t>::max())
    return InvalidArgument("the parameter {} has more than 65,536 values", seen->name);
  seen->index_of.emplace(assignment, static_cast<uint16_t>(seen->values.size()));
  seen->values.push_back(one.begin()->second);
  return absl::OkStatus();
}

absl::Status StudyColumns::Add(const EndedTrial& trial) {
  if (trial.ordinal < 0 || trial.ordinal > std::numeric_limits<uint32_t>::max())
    return InvalidArgument("trial {} is beyond the {} that are looked at", trial.ordinal, uint64_t{1} << 32);
  if (evaluations_.empty() && parameters_.empty()) RETURN_IF_ERROR(AddParameters(trial.config));
  const size_t start = indices_.size();
  std::string_view left = trial.config;
  size_t p = 0;
  absl::Status status;
  for (; status.ok() && p < parameters_.size() && !left.empty(); ++p) {
    const std::string_view assignment = TakeAssignment(&left);
    auto found = parameters_[p].index_of.find(assignment);
    if (found == parameters_[p].index_of.end()) {
      status = AddValue(&parameters_[p], assignment, trial.ordinal);
      found = parameters_[p].index_of.find(assignment);
    }
    if (status.ok()) indices_.push_back(found->second);
  }
  if (status.ok() && (p < parameters_.size() || !left.empty())) {
    status = InvalidArgument("trial {} has other parameters ({}) than the {} of those before it", trial.ordinal,
                             trial.config, parameters_.size());
  }
  if (!status.ok()) {
    indices_.resize(start);
    return status;
  }
  Evaluation evaluation;
  evaluation.ended_ms = trial.ended_ms;
  evaluation.objective_ns = trial.objective_ns > 0 ? trial.objective_ns : 0;
  evaluation.ordinal = static_cast<uint32_t>(trial.ordinal);
  evaluation.outcome = static_cast<uint8_t>(trial.outcome);
  if (!evaluation.is_ok()) evaluation.reason = reasons_.NumberOf(trial.outcome, trial.message);
  evaluations_.push_back(evaluation);
  return absl::OkStatus();
}

void StudyColumns::OrderValues(size_t parameter) {
  ParameterSeen& seen = parameters_[parameter];
  if (seen.ordered == seen.values.size()) return;
  std::vector<uint16_t> order(seen.values.size());
  std::iota(order.begin(), order.end(), uint16_t{0});
  std::sort(order.begin(), order.end(),
            [&](uint16_t a, uint16_t b) { return ValueLess(seen.values[a], seen.values[b]); });
  std::vector<Value> sorted;
  std::vector<uint16_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    sorted.push_back(seen.values[order[i]]);
    place[order[i]] = static_cast<uint16_t>(i);
  }
  seen.values = std::move(sorted);
  for (auto& [text, index] : seen.index_of) index = place[index];
  for (size_t at = parameter; at < indices_.size(); at += parameters_.size()) indices_[at] = place[indices_[at]];
  seen.ordered = seen.values.size();
}

void StudyColumns::OrderEvaluations() {
  if (ordered_ == evaluations_.size()) return;
  std::vector<uint32_t> added(evaluations_.size() - ordered_);
  std::iota(added.begin(), added.end(), static_cast<uint32_t>(ordered_));
  const auto by_end = [this](uint32_t a, uint32_t b) { return EndsBefore(evaluations_[a], evaluations_[b]); };
  std::sort(added.begin(), added.end(), by_end);
  // What ended before all of them stays where it is.
  const auto ordered_end = evaluations_.begin() + static_cast<ptrdiff_t>(ordered_);
  const auto first = static_cast<size_t>(
      std::upper_bound(evaluations_.begin(), ordered_end, evaluations_[added[0]], EndsBefore) - evaluations_.begin());
  std::vector<uint32_t> before(ordered_ - first), order;
  std::iota(before.begin(), before.end(), static_cast<uint32_t>(first));
  std::merge(before.begin(), before.end(), added.begin(), added.end(), std::back_inserter(order), by_end);
  const size_t columns = parameters_.size();
  std::vector<Evaluation> evaluations;
  std::vector<uint16_t> indices;
  evaluations.reserve(order.size());
  indices.reserve(order.size() * columns);
  for (const uint32_t from : order) {
    evaluations.push_back(evaluations_[from]);
    const auto row = indices_.begin() + static_cast<ptrdiff_t>(from * columns);
    indices.insert(indices.end(), row, row + static_cast<ptrdiff_t>(columns));
  }
  std::copy(evaluations.begin(), evaluations.end(), evaluations_.begin() + static_cast<ptrdiff_t>(first));
  std::copy(indices.begin(), indices.end(), indices_.begin() + static_cast<ptrdiff_t>(first * columns));
  ordered_ = evaluations_.size();
}

void StudyColumns::Settle() {
  for (size_t p = 0; p < parameters_.size(); ++p) OrderValues(p);
  OrderEvaluations();
}

std::optional<size_t> StudyColumns::FindParameter(std::string_view name) const {
  for (size_t p = 0; p < parameters_.size(); ++p) {
    if (parameters_[p].name == name) return p;
  }
  return std::nullopt;
}

std::optional<uint16_t> StudyColumns::FindValue(size_t parameter, std::string_view text) const {
  // Beside the type, which texts of configs do not have.
  const std::string assignment = Config({{parameters_[parameter].name, Value(text)}}).ToText();
  const auto found = parameters_[parameter].index_of.find(assignment);
  if (found == parameters_[parameter].index_of.end()) return std::nullopt;
  return found->second;
}

Config StudyColumns::ConfigOf(size_t at) const {
  Config config;
  for (size_t p = 0; p < parameters_.size(); ++p)
    config.Set(parameters_[p].name, parameters_[p].values[ValueIndex(at, p)]);
  return config;
}

size_t StudyColumns::bytes() const {
  size_t bytes = evaluations_.capacity() * sizeof(Evaluation) + indices_.capacity() * sizeof(uint16_t);
  for (const ParameterSeen& seen : parameters_) bytes += seen.values.size() * kValueBytes;
  return bytes;
}

}  // namespace tunefarm
