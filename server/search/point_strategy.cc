#include "server/search/point_strategy.h"

#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/search/random_streams.h"

namespace tunefarm {

PointStrategy::PointStrategy(std::string name, int version, std::shared_ptr<const SearchSpace> space, uint64_t seed,
                             std::vector<Point> first, std::unique_ptr<Proposer> proposer)
    : name_(std::move(name)),
      version_(version),
      seed_(seed),
      history_(std::move(space)),
      proposer_(std::move(proposer)) {
  const SearchSpace& whole = history_.space();
  if (whole.default_point().has_value()) first_.push_back(*whole.default_point());
  for (const Config& config : whole.space().starting_configs()) {
    // What is declared need not be of this space.
    absl::StatusOr<Point> point = whole.space().IndicesOf(config);
    if (point.ok() && whole.Contains(*point)) first_.push_back(*std::move(point));
  }
  first_.insert(first_.end(), first.begin(), first.end());
}

void PointStrategy::Mark(std::span<const uint16_t> point) {
  if (proposer_ != nullptr) proposer_->Proposed(history_, point);
  history_.Propose(point);
  while (!first_.empty() && history_.IsProposed(first_.front())) first_.pop_front();
}

absl::StatusOr<std::optional<Point>> PointStrategy::Next() {
  if (history_.IsExhausted()) return std::nullopt;
  if (!first_.empty()) return first_.front();
  // A stream per proposal: what was drawn for earlier ones, and how often Ask was called, does not matter.
  PhiloxStream random(seed_, StreamOf(StreamUse::kProposal, history_.proposed_count()));
  if (proposer_ != nullptr) {
    std::optional<Point> point = proposer_->Propose(history_, random);
    if (point.has_value() && !history_.IsProposed(*point)) return point;
  }
  return history_.DrawUnproposed(random);
}

absl::StatusOr<std::vector<Config>> PointStrategy::Ask(int n) {
  std::vector<Config> configs;
  while (static_cast<int>(configs.size()) < n) {
    ASSIGN_OR_RETURN(const std::optional<Point> point, Next());
    if (!point.has_value()) break;
    Mark(*point);
    configs.push_back(history_.space().space().MakeConfig(*point));
  }
  return configs;
}

absl::Status PointStrategy::MarkProposed(const Config& config) {
  const auto point = history_.space().space().IndicesOf(config);
  if (!point.ok()) return point.status();
  if (!history_.space().Contains(*point)) {
    return InvalidArgument("the recorded proposal {} is not in the space", config.ToText());
  }
  if (!history_.IsProposed(*point)) Mark(*point);
  return absl::OkStatus();
}

void PointStrategy::Tell(const Told& told) {
  const auto point = history_.space().space().IndicesOf(told.config);
  if (!point.ok()) return;
  const std::optional<size_t> observation = history_.Tell(*point, told.outcome, told.objective_ns);
  if (!observation.has_value() || proposer_ == nullptr) return;
  PhiloxStream random(seed_, StreamOf(StreamUse::kObservation, *observation));
  proposer_->Observed(history_, *observation, random);
}

std::optional<uint64_t> PointStrategy::Total() const {
  if (!history_.space().is_listed()) return std::nullopt;
  return history_.space().size();
}

}  // namespace tunefarm
