// SearchSpace: a space as strategies see it: points of value indices, which are valid, random ones, and coordinates for
// models. Spaces of up to kSearchSpaceListMax configs are listed and indexed; larger ones are sampled and judged point
// by point, so that memory does not grow with the space. A SearchSpace may also be a list of rows from a recording.
//
// Threads: never changes after it was made; const use from any thread. Shared by strategies through shared_ptr.
#pragma once

#include <cstdint>
#include <functional>
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
// before, or are none that a narrowed space keeps, there is practically nothing left. Some tenths of a second.
inline constexpr int kDrawsMax = 100'000;

// Above, sampling with a memory of what was seen is cheaper than a list of all.
inline constexpr uint64_t kSearchSpaceListMax = 1'000'000;

// The index into Parameter::values of each parameter, in declared order.
using Point = std::vector<uint16_t>;

std::string_view PointBytes(std::span<const uint16_t> point);

class SearchSpace {
 public:
  // FailedPrecondition with the reason EMPTY_SPACE for a space without configs; otherwise fails as Space::Enumerate.
  static absl::StatusOr<std::shared_ptr<const SearchSpace>> Make(const Space& space);

  // Only these rows, whatever rules `space` has. InvalidArgument when there is none or when two are the same.
  static absl::StatusOr<std::shared_ptr<const SearchSpace>> MakeOfRows(const Space& space, std::vector<Point> rows);

  // Only the valid configs that `keeps` says yes to, a pure function that may be called from any thread. Listed like
  // any other space where they all can be; else Sample rejects until one is kept, so those must not be rare, and
  // `default_point` is the default config, which is kept whatever `keeps` says. Fails as Make does.
  static absl::StatusOr<std::shared_ptr<const SearchSpace>> MakeNarrowed(
      const Space& space, std::function<bool(std::span<const uint16_t>)> keeps);

  const Space& space() const { return space_; }
  // Not all valid configs of space(): it is recorded, or narrowed.
  bool is_part() const { return is_part_; }
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
  // Uniform over the space. Fails as Space::SampleUniform does, and with ResourceExhausted where what is kept is too
  // rare; never for a listed space.
  absl::StatusOr<Point> Sample(PhiloxStream& random) const;
  // The same with at most *draws_left (above 0) valid configs drawn, which are taken off it; nullopt where none of them
  // is kept.
  absl::StatusOr<std::optional<Point>> Sample(int* draws_left, PhiloxStream& random) const;
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
  // Of a valid point, in a space that is not listed.
  bool IsKept(std::span<const uint16_t> point) const;

  const Space space_;
  bool is_listed_ = false;
  bool is_part_ = false;
  std::function<bool(std::span<const uint16_t>)> keeps_;  // of a narrowed space that is not listed
  ConfigTable table_;                                     // of a listed space, else empty
  std::optional<ConfigIndex> index_;                      // of table_
  std::vector<std::vector<uint16_t>> ranks_, values_;
  std::vector<std::vector<double>> numbers_;
  std::vector<bool> is_ordered_;
  std::vector<int> varying_;
  std::optional<Point> default_point_;
};

}  // namespace tunefarm
