// ShapeIndex: the bests of one kernel name by shape, for the search of the nearest one.
//
// A group is what agrees in all that must be equal for one problem's best to answer for another: the device class and
// the dims that do not scale, but for those that only describe inputs. Inside a group shapes are sorted by the dims
// that scale, one after the other, so that the nearest ones are found from the asked shape outwards (nearest_shapes.h)
// among however many there are.
//
// Which dims scale is the asked definition's to say, and definitions of one name may differ: there is an index for each
// set of scaling dims that was asked for. A value type that is made to be copied, like EntryMap: copies share parts, a
// part is one or more groups, and a change copies the part that it is in.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/catalog/catalog_entry.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm {

// A dim in which problems may differ and still answer for each other.
struct ScalingDim {
  enum class Kind {
    kRatio,
    kBucket,
    kFactor,  // the product of all these counts, in the place of the first of them
    kIgnored  // describes inputs
  };
  std::string name;
  Kind kind = Kind::kRatio;

  friend bool operator==(const ScalingDim&, const ScalingDim&) = default;
};
using ScalingDims = std::vector<ScalingDim>;  // by name

ScalingDims ScalingDimsOf(const tunefarm::v1::Kernel& kernel);

// One best, placed. `values`: of the scaling dims, in their order; 0 for one that the problem lacks, that is no number,
// that is ignored, or whose value is in the product.
struct PlacedShape {
  uint64_t group = 0;
  std::vector<int64_t> values;
  std::shared_ptr<const CatalogEntry> entry;  // null in a question
};

class ShapeIndex {
 public:
  using Shapes = std::span<const std::shared_ptr<const PlacedShape>>;

  ShapeIndex(ScalingDims scaling_dims, const std::vector<std::shared_ptr<const CatalogEntry>>& entries);

  const ScalingDims& scaling_dims() const { return scaling_dims_; }

  void Insert(std::shared_ptr<const CatalogEntry> entry);
  void Erase(const CatalogEntry& entry);

  // Where a problem would be. Problems whose other dims differ are in different groups but for accidents of hashing:
  // look before an answer is given.
  PlacedShape Place(std::string_view class_id, const Config& dims) const;
  // All of a group, sorted by values; valid as long as the index.
  Shapes Group(uint64_t group) const;

 private:
  using Part = std::vector<std::shared_ptr<const PlacedShape>>;  // by group, then values
  static constexpr size_t kParts = 256;

  ScalingDims scaling_dims_;
  std::array<std::shared_ptr<const Part>, kParts> parts_;  // null: empty
};

}  // namespace tunefarm
