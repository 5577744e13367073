#include "server/search/listed_strategy.h"

#include <algorithm>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/search/random_streams.h"

namespace tunefarm {
ListedStrategy::ListedStrategy(std::string name, int version, const Space& space, ConfigTable table,
                               std::vector<uint32_t> order)
    : name_(std::move(name)),
      version_(version),
      space_(space),
      table_(std::move(table)),
      order_(std::move(order)),
      is_proposed_(table_.size(), false) {
  const std::optional<Config> config = space_.DefaultConfig();
  if (!config.has_value()) return;
  const auto indices = space_.IndicesOf(*config);
  if (!indices.ok()) return;
  const uint64_t row = FindRow(*indices);
  if (row < table_.size()) default_row_ = row;
}

uint64_t ListedStrategy::FindRow(const std::vector<uint16_t>& indices) const {
  // Rows ascend lexicographically: that is the order of a space.
  uint64_t low = 0;
  uint64_t high = table_.size();
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    const auto row = table_.Row(middle);
    if (std::lexicographical_compare(row.begin(), row.end(), indices.begin(), indices.end())) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == table_.size()) return low;
  const auto row = table_.Row(low);
  return std::equal(row.begin(), row.end(), indices.begin(), indices.end()) ? low : table_.size();
}

void ListedStrategy::Mark(uint64_t row) {
  if (is_proposed_[row]) return;
  is_proposed_[row] = true;
  ++proposed_count_;
}

absl::StatusOr<std::vector<Config>> ListedStrategy::Ask(int n) {
  std::vector<Config> configs;
  while (static_cast<int>(configs.size()) < n && !Exhausted()) {
    uint64_t row = 0;
    if (default_row_.has_value() && !is_proposed_[*default_row_]) {
      row = *default_row_;
    } else {
      row = order_.empty() ? next_ : order_[next_];
      ++next_;
    }
    if (is_proposed_[row]) continue;
    Mark(row);
    configs.push_back(space_.ConfigAt(table_, row));
  }
  return configs;
}

absl::Status ListedStrategy::MarkProposed(const Config& config) {
  ASSIGN_OR_RETURN(const std::vector<uint16_t> indices, space_.IndicesOf(config));
  const uint64_t row = FindRow(indices);
  if (row == table_.size()) {
    return InvalidArgument("the recorded proposal {} is not in the space", config.ToText());
  }
  Mark(row);
  return absl::OkStatus();
}

SampledStrategy::SampledStrategy(std::string name, int version, const Space& space, uint64_t seed)
    : name_(std::move(name)), version_(version), space_(space), seed_(seed) {}

bool SampledStrategy::Mark(const std::vector<uint16_t>& indices) {
  return proposed_.emplace(PointBytes(indices)).second;
}

absl::StatusOr<std::optional<Point>> SampledStrategy::Draw() const {
  // A stream per proposal: nothing that was drawn before a restart has to be drawn again.
  PhiloxStream random(seed_, StreamOf(StreamUse::kProposal, proposed_.size()));
  for (int draw = 0; draw < kDrawsMax; ++draw) {
    ASSIGN_OR_RETURN(Point point, space_.SampleUniform(random));
    if (!proposed_.contains(std::string(PointBytes(point)))) return point;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<Config>> SampledStrategy::Ask(int n) {
  std::vector<Config> configs;
  if (!is_default_considered_) {
    is_default_considered_ = true;
    const std::optional<Config> config = space_.DefaultConfig();
    if (n > 0 && config.has_value() && space_.Contains(*config)) {
      const auto indices = space_.IndicesOf(*config);
      if (indices.ok() && Mark(*indices)) configs.push_back(*config);
    }
  }
  while (static_cast<int>(configs.size()) < n && !is_exhausted_) {
    ASSIGN_OR_RETURN(const std::optional<Point> point, Draw());
    if (!point.has_value()) {
      is_exhausted_ = true;
      break;
    }
    Mark(*point);
    configs.push_back(space_.MakeConfig(*point));
  }
  return configs;
}

absl::Status SampledStrategy::MarkProposed(const Config& config) {
  const absl::Status status = space_.Check(config);
  if (!status.ok()) return Annotate(status, "the recorded proposal {} is not in the space", config.ToText());
  ASSIGN_OR_RETURN(const std::vector<uint16_t> indices, space_.IndicesOf(config));
  Mark(indices);
  return absl::OkStatus();
}

}  // namespace tunefarm
