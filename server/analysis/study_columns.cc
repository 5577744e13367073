#include "server/analysis/study_columns.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>

#include "server/base/status.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

constexpr size_t kValueBytes = 200;  // of a value, its text and its place in the map, about

// Takes the next "NAME=VALUE" off the text of a config.
std::string_view TakeAssignment(std::string_view* text) {
  size_t end = 0;
  while (end < text->size() && (*text)[end] != ',') end += (*text)[end] == '\\' ? 2 : 1;
  const std::string_view assignment = text->substr(0, end);
  text->remove_prefix(std::min(text->size(), end + 1));
  return assignment;
}

// The elements from `first` on become those at the positions that `order` lists.
template <typename T>
void Reorder(size_t first, const std::vector<uint32_t>& order, std::vector<T>* column) {
  std::vector<T> ordered;
  ordered.reserve(order.size());
  for (const uint32_t from : order) ordered.push_back((*column)[from]);
  std::copy(ordered.begin(), ordered.end(), column->begin() + static_cast<ptrdiff_t>(first));
}

}  // namespace

absl::Status StudyColumns::AddParameters(std::string_view config) {
  ASSIGN_OR_RETURN(const Config first, Config::FromText(config));
  for (const auto& [name, value] : first) parameters_.emplace_back().name = name;
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
  if (ordinals_.empty() && parameters_.empty()) RETURN_IF_ERROR(AddParameters(trial.config));
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
    if (status.ok()) parameters_[p].indices.push_back(found->second);
  }
  if (status.ok() && (p < parameters_.size() || !left.empty())) {
    status = InvalidArgument("trial {} has other parameters ({}) than the {} of those before it", trial.ordinal,
                             trial.config, parameters_.size());
  }
  if (!status.ok()) {
    for (ParameterSeen& seen : parameters_) seen.indices.resize(size());
    return status;
  }
  const bool is_ok = trial.objective_ns > 0;
  if (is_ok) ++measured_added_;
  ended_ms_.push_back(trial.ended_ms);
  objectives_ns_.push_back(is_ok ? trial.objective_ns : 0);
  ordinals_.push_back(static_cast<uint32_t>(trial.ordinal));
  reason_of_.push_back(is_ok ? uint16_t{0} : reasons_.NumberOf(trial.outcome, trial.message));
  outcomes_.push_back(static_cast<uint8_t>(trial.outcome));
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
  for (uint16_t& index : seen.indices) index = place[index];
  seen.ordered = seen.values.size();
}

bool StudyColumns::EndsBefore(size_t a, size_t b) const {
  return ended_ms_[a] != ended_ms_[b] ? ended_ms_[a] < ended_ms_[b] : ordinals_[a] < ordinals_[b];
}

void StudyColumns::OrderEvaluations() {
  if (ordered_ == size()) return;
  const auto by_end = [this](uint32_t a, uint32_t b) { return EndsBefore(a, b); };
  std::vector<uint32_t> added(size() - ordered_);
  std::iota(added.begin(), added.end(), static_cast<uint32_t>(ordered_));
  std::sort(added.begin(), added.end(), by_end);
  // What ended before all of them stays where it is.
  size_t first = ordered_;
  while (first > 0 && EndsBefore(added[0], first - 1)) --first;
  std::vector<uint32_t> before(ordered_ - first), order;
  std::iota(before.begin(), before.end(), static_cast<uint32_t>(first));
  std::merge(before.begin(), before.end(), added.begin(), added.end(), std::back_inserter(order), by_end);
  Reorder(first, order, &ended_ms_);
  Reorder(first, order, &objectives_ns_);
  Reorder(first, order, &ordinals_);
  Reorder(first, order, &reason_of_);
  Reorder(first, order, &outcomes_);
  for (ParameterSeen& seen : parameters_) Reorder(first, order, &seen.indices);
  Summarize(first);
  ordered_ = size();
}

void StudyColumns::Summarize(size_t first) {
  // A best that stood behind `first` still does, wherever.
  if (measured_.best.has_value() && *measured_.best >= first) measured_.best.reset();
  for (size_t at = first; at < size(); ++at) measured_.Add(static_cast<uint32_t>(at), objectives_ns_[at]);
  measured_.count = measured_added_;  // some from `first` on had been counted before
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
  size_t bytes = ended_ms_.capacity() * sizeof(int64_t) + objectives_ns_.capacity() * sizeof(double) +
                 ordinals_.capacity() * sizeof(uint32_t) + reason_of_.capacity() * sizeof(uint16_t) +
                 outcomes_.capacity() * sizeof(uint8_t);
  for (const ParameterSeen& seen : parameters_)
    bytes += seen.values.size() * kValueBytes + seen.indices.capacity() * sizeof(uint16_t);
  return bytes;
}

}  // namespace tunefarm
