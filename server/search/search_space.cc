#include "server/search/search_space.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/base/work_limit.h"

namespace tunefarm {
namespace {

double NumberOf(const Value& value, size_t index) {
  switch (value.type()) {
    case ValueType::kBool:
      return value.bool_value() ? 1 : 0;
    case ValueType::kInt:
      return static_cast<double>(value.int_value());
    case ValueType::kFloat:
      return value.float_value();
    default:
      return static_cast<double>(index);
  }
}

}  // namespace

std::string_view PointBytes(std::span<const uint16_t> point) {
  return {reinterpret_cast<const char*>(point.data()), point.size_bytes()};
}

SearchSpace::SearchSpace(const Space& space) : space_(space), table_(static_cast<int>(space.parameters().size())) {
  for (const Parameter& parameter : space_.parameters()) {
    const size_t count = parameter.values.size();
    const bool ordered = std::none_of(parameter.values.begin(), parameter.values.end(),
                                      [](const Value& value) { return value.is_string(); });
    std::vector<double> numbers(count);
    for (size_t i = 0; i < count; ++i) numbers[i] = ordered ? NumberOf(parameter.values[i], i) : static_cast<double>(i);
    std::vector<uint16_t> values(count), ranks(count);
    std::iota(values.begin(), values.end(), uint16_t{0});
    std::stable_sort(values.begin(), values.end(), [&](uint16_t a, uint16_t b) { return numbers[a] < numbers[b]; });
    for (size_t i = 0; i < count; ++i) ranks[values[i]] = static_cast<uint16_t>(i);
    if (count > 1) varying_.push_back(static_cast<int>(ranks_.size()));
    ranks_.push_back(std::move(ranks));
    values_.push_back(std::move(values));
    numbers_.push_back(std::move(numbers));
    is_ordered_.push_back(ordered);
  }
}

absl::StatusOr<std::shared_ptr<const SearchSpace>> SearchSpace::Make(const Space& space) {
  std::shared_ptr<SearchSpace> made(new SearchSpace(space));
  auto table = space.Enumerate(kSearchSpaceListMax, kListTime);
  if (table.ok()) {
    if (table->empty()) return WithReason(FailedPrecondition("{}", space.ExplainEmpty()), "EMPTY_SPACE");
    made->List(*std::move(table));
  } else if (!absl::IsResourceExhausted(table.status()) || ReasonOf(table.status()) == kWorkLimitReason) {
    return table.status();
  } else {
    RETURN_IF_ERROR(space.PrepareSampling());
  }
  const std::optional<Config> config = space.DefaultConfig();
  if (config.has_value() && space.Contains(*config)) {
    ASSIGN_OR_RETURN(made->default_point_, space.IndicesOf(*config));
  }
  return made;
}

absl::StatusOr<std::shared_ptr<const SearchSpace>> SearchSpace::MakeOfRows(const Space& space,
                                                                           std::vector<Point> rows) {
  if (rows.empty()) return InvalidArgument("a space of recorded configs needs at least one");
  std::shared_ptr<SearchSpace> made(new SearchSpace(space));
  std::sort(rows.begin(), rows.end());
  if (const auto twice = std::adjacent_find(rows.begin(), rows.end()); twice != rows.end()) {
    return InvalidArgument("the config {} is recorded twice", space.MakeConfig(*twice).ToText());
  }
  std::vector<uint16_t> indices;
  for (const Point& row : rows) indices.insert(indices.end(), row.begin(), row.end());
  made->List(ConfigTable(made->parameter_count(), rows.size(), std::move(indices)));
  if (const std::optional<Config> config = space.DefaultConfig()) {
    ASSIGN_OR_RETURN(Point point, space.IndicesOf(*config));
    if (made->Contains(point)) made->default_point_ = std::move(point);
  }
  return made;
}

void SearchSpace::List(ConfigTable table) {
  is_listed_ = true;
  table_ = std::move(table);
  index_.emplace(table_);
}

uint64_t SearchSpace::FindRow(std::span<const uint16_t> point) const { return index_->Find(point).value_or(size()); }

bool SearchSpace::Contains(std::span<const uint16_t> point) const {
  if (point.size() != ranks_.size()) return false;
  if (is_listed_) return FindRow(point) < size();
  for (size_t i = 0; i < point.size(); ++i) {
    if (point[i] >= ranks_[i].size()) return false;
  }
  return space_.IsValid(point);
}

absl::StatusOr<Point> SearchSpace::Sample(PhiloxStream& random) const {
  if (!is_listed_) return space_.SampleUniform(random);
  const auto row = Row(random.UniformInt(size()));
  return Point(row.begin(), row.end());
}

}  // namespace tunefarm
