// SearchSpace: a space as strategies see it: points of value indices, which are valid, random ones, and coordinates for
// models. Spaces of up to kSearchSpaceListMax configs are listed and indexed; larger ones are sampled and judged point
// by point, so that memory does not grow with the space. A SearchSpace may also be a list of rows from a recording.
//
// Threads: never changes after it was made; const use from any thread. Shared by strategies through shared_ptr.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/random.h"
#include "server/space/config_index.h"
#include "server/space/space.h"

namespace tunefarm {

// So many valid configs are drawn for one proposal of a space that is not listed; when all of them were proposed
// before, there is practically nothing left. Some tenths of a second.
inline constexpr int kDrawsMax = 100'000;

// Above, sampling with a memory of what was seen is cheaper than a list of all.
inline constexpr uint64_t kSearchSpaceListMax = 1'000'000;

// The part of a limited time (SpaceOptions::limit) that such a list may take; beyond, spaces are sampled.
inline constexpr Duration kListTime = std::chrono::seconds(20);

// The index into Parameter::values of each parameter, in declared order.
using Point = std::vector<uint16_t>;
using PointView = std::span<const uint16_t>;

std::string_view PointBytes(std::span<const uint16_t> point);

class SearchSpace {
 public:
  // FailedPrecondition with the reason EMPTY_SPACE for a space without configs; otherwise fails as Space::Enumerate,
  // and as Space::PrepareSampling where the space is not listed.
  static absl::StatusOr<std::shared_ptr<const SearchSpace>> Make(const Space& space);

  // Only these rows, whatever rules `space` has. InvalidArgument when there is none or when two are the same.
  static absl::StatusOr<std::shared_ptr<const SearchSpace>> MakeOfRows(const Space& space, std::vector<Point> rows);

  const Space& space() const { return space_; }
  int parameter_count() const { return static_cast<int>(space_.parameters().size()); }
  int ValueCount(int parameter) const { return static_cast<int>(ranks_[static_cast<size_t>(parameter)].size()); }
  // Parameters with more than one value.
  const std::vector<int>& varying() const { return varying_; }

  bool is_listed() const { return is_listed_; }
  // Of a listed space.
  uint64_t size() const { return table_.size(); }
  std::span<const uint16_t> Row(uint64_t row) const { return table_.Row(row); }
  const ConfigTable& table() const { return table_; }
  // The row of a point; size() when there is none.
  uint64_t FindRow(std::span<const uint16_t> point) const;

  // Every index in range and, in a space that is not listed, no rule that rejects the point.
  bool Contains(std::span<const uint16_t> point) const;
  // Uniform over the space. Fails as Space::SampleUniform does; never for a listed space.
  absl::StatusOr<Point> Sample(PhiloxStream& random) const;
  // The declared default, where it is of this space.
  const std::optional<Point>& default_point() const { return default_point_; }

  // Whether the values of a parameter have an order: numbers and bools do, strings do not.
  bool IsOrdered(int parameter) const { return is_ordered_[static_cast<size_t>(parameter)]; }
  // The place of a value among the parameter's values in ascending order; of strings their declared index.
  uint16_t Rank(int parameter, uint16_t value) const { return ranks_[static_cast<size_t>(parameter)][value]; }
  // The value at a place of that order.
  uint16_t ValueAtRank(int parameter, uint16_t rank) const { return values_[static_cast<size_t>(parameter)][rank]; }
  // The value as a number, strings by their declared index.
  double Number(int parameter, uint16_t value) const { return numbers_[static_cast<size_t>(parameter)][value]; }

 private:
  explicit SearchSpace(const Space& space);
  void List(ConfigTable table);

  const Space space_;
  bool is_listed_ = false;
  ConfigTable table_;                 // of a listed space, else empty
  std::optional<ConfigIndex> index_;  // of table_
  std::vector<std::vector<uint16_t>> ranks_, values_;
  std::vector<std::vector<double>> numbers_;
  std::vector<bool> is_ordered_;
  std::vector<int> varying_;
  std::optional<Point> default_point_;
};

}  // namespace tunefarm
