#include "server/search/history.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

// After so many misses a listed space is searched for what is left.
constexpr int kRowTriesMax = 16;

}  // namespace

History::History(std::shared_ptr<const SearchSpace> space) : space_(std::move(space)) {
  if (space_->is_listed()) row_states_.assign(space_->size(), static_cast<char>(kFree));
}

char* History::StateOf(std::span<const uint16_t> point) {
  if (space_->is_listed()) {
    const uint64_t row = space_->FindRow(point);
    return row < space_->size() ? &row_states_[row] : nullptr;
  }
  const auto found = states_.find(std::string(PointBytes(point)));
  return found == states_.end() ? nullptr : &found->second;
}

bool History::IsProposed(std::span<const uint16_t> point) const {
  const char* state = const_cast<History*>(this)->StateOf(point);
  return state != nullptr && *state != kFree;
}

bool History::Propose(std::span<const uint16_t> point) {
  if (IsProposed(point)) return false;
  if (space_->is_listed()) {
    row_states_[space_->FindRow(point)] = kInFlight;
  } else {
    states_.emplace(PointBytes(point), static_cast<char>(kInFlight));
  }
  ++proposed_count_;
  ++in_flight_;
  return true;
}

bool History::IsExhausted() const { return space_->is_listed() ? proposed_count_ == space_->size() : is_exhausted_; }

std::optional<size_t> History::Tell(std::span<const uint16_t> point, ToldOutcome outcome, double objective_ns) {
  char* state = StateOf(point);
  if (state == nullptr || *state != kInFlight) return std::nullopt;
  *state = kTold;
  --in_flight_;
  if (outcome == ToldOutcome::kLost) return std::nullopt;
  const bool ok = outcome == ToldOutcome::kOk && objective_ns > 0 && std::isfinite(objective_ns);
  const size_t observation = size();
  points_.insert(points_.end(), point.begin(), point.end());
  values_.push_back(ok ? std::log(objective_ns) : std::numeric_limits<double>::infinity());
  if (!ok) return observation;
  const auto place = std::upper_bound(elite_.begin(), elite_.end(), values_.back(),
                                      [&](double value, uint32_t other) { return value < values_[other]; });
  elite_.insert(place, static_cast<uint32_t>(observation));
  if (elite_.size() > kEliteMax) elite_.pop_back();
  return observation;
}

std::span<const uint16_t> History::PointOf(size_t observation) const {
  const auto count = static_cast<size_t>(space_->parameter_count());
  return {points_.data() + observation * count, count};
}

bool History::IsOk(size_t observation) const { return std::isfinite(values_[observation]); }

absl::StatusOr<std::optional<Point>> History::DrawUnproposed(PhiloxStream& random) {
  if (IsExhausted()) return std::nullopt;
  if (space_->is_listed()) {
    uint64_t row = 0;
    for (int i = 0; i < kRowTriesMax; ++i) {
      row = random.UniformInt(space_->size());
      if (row_states_[row] == kFree) break;
    }
    // The next free one, around the end.
    size_t found = row_states_.find(static_cast<char>(kFree), row);
    if (found == std::string::npos) found = row_states_.find(static_cast<char>(kFree));
    const auto point = space_->Row(found);
    return Point(point.begin(), point.end());
  }
  for (int draw = 0; draw < kDrawsMax; ++draw) {
    ASSIGN_OR_RETURN(Point point, space_->Sample(random));
    if (!IsProposed(point)) return point;
  }
  is_exhausted_ = true;
  return std::nullopt;
}

}  // namespace tunefarm
