#include "server/catalog/shape_index.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "server/base/hash.h"
#include "server/catalog/match_rules.h"

namespace tunefarm {
namespace {

uint64_t Join(uint64_t hash, uint64_t next) { return hash * 0x9E3779B97F4A7C15u + next; }

uint64_t HashOf(const Value& value) {
  if (!value.is_int()) return Xxh3(value.ToText());
  const int64_t number = value.int_value();
  return Xxh3({reinterpret_cast<const char*>(&number), sizeof(number)});
}

// Ratios are of positive numbers: another value is as good as exact.
bool Scales(const ScalingDim& dim, const Value& value) {
  return value.is_int() && (dim.kind == ScalingDim::Kind::kBucket || value.int_value() > 0);
}

std::optional<ScalingDim::Kind> KindOf(const tunefarm::v1::Dim& dim) {
  if (dim.inputs_only()) return ScalingDim::Kind::kIgnored;
  switch (dim.lookup()) {
    case tunefarm::v1::LOOKUP_RULE_LOG:
    case tunefarm::v1::LOOKUP_RULE_NEXT_POWER_OF_TWO:
      return ScalingDim::Kind::kRatio;
    case tunefarm::v1::LOOKUP_RULE_BUCKET:
      return ScalingDim::Kind::kBucket;
    case tunefarm::v1::LOOKUP_RULE_PRODUCT:
      return ScalingDim::Kind::kFactor;
    default:
      return std::nullopt;
  }
}

bool IsBefore(const std::shared_ptr<const PlacedShape>& a, const std::shared_ptr<const PlacedShape>& b) {
  return std::tie(a->group, a->values) < std::tie(b->group, b->values);
}

}  // namespace

ScalingDims ScalingDimsOf(const tunefarm::v1::Kernel& kernel) {
  ScalingDims dims;
  for (const auto& dim : kernel.dims()) {
    if (const auto kind = KindOf(dim)) dims.push_back({dim.name(), *kind});
  }
  std::sort(dims.begin(), dims.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return dims;
}

ShapeIndex::ShapeIndex(ScalingDims scaling_dims, const std::vector<std::shared_ptr<const CatalogEntry>>& entries)
    : scaling_dims_(std::move(scaling_dims)) {
  std::array<std::shared_ptr<Part>, kParts> parts;
  for (const auto& entry : entries) {
    auto placed = std::make_shared<PlacedShape>(Place(entry->class_id, entry->dims));
    placed->entry = entry;
    std::shared_ptr<Part>& part = parts[placed->group % kParts];
    if (part == nullptr) part = std::make_shared<Part>();
    part->push_back(std::move(placed));
  }
  for (const auto& part : parts) {
    if (part != nullptr) std::sort(part->begin(), part->end(), IsBefore);
  }
  std::copy(parts.begin(), parts.end(), parts_.begin());
}

void ShapeIndex::Insert(std::shared_ptr<const CatalogEntry> entry) {
  auto placed = std::make_shared<PlacedShape>(Place(entry->class_id, entry->dims));
  placed->entry = std::move(entry);
  std::shared_ptr<const Part>& shared = parts_[placed->group % kParts];
  auto part = shared == nullptr ? std::make_shared<Part>() : std::make_shared<Part>(*shared);
  const std::shared_ptr<const PlacedShape> added = std::move(placed);
  part->insert(std::upper_bound(part->begin(), part->end(), added, IsBefore), added);
  shared = std::move(part);
}

void ShapeIndex::Erase(const CatalogEntry& entry) {
  const auto placed = std::make_shared<const PlacedShape>(Place(entry.class_id, entry.dims));
  std::shared_ptr<const Part>& shared = parts_[placed->group % kParts];
  if (shared == nullptr) return;
  auto part = std::make_shared<Part>(*shared);
  const auto [first, last] = std::equal_range(part->begin(), part->end(), placed, IsBefore);
  part->erase(std::remove_if(first, last, [&entry](const auto& shape) { return shape->entry.get() == &entry; }), last);
  shared = std::move(part);
}

PlacedShape ShapeIndex::Place(std::string_view class_id, const Config& dims) const {
  PlacedShape placed;
  placed.group = Xxh3(class_id);
  placed.values.assign(scaling_dims_.size(), 0);
  const auto first_factor = std::find_if(scaling_dims_.begin(), scaling_dims_.end(),
                                         [](const ScalingDim& dim) { return dim.kind == ScalingDim::Kind::kFactor; });
  int64_t product = 1;
  for (const auto& [name, value] : dims) {
    const auto scaling = std::lower_bound(scaling_dims_.begin(), scaling_dims_.end(), name,
                                          [](const ScalingDim& dim, const std::string& key) { return dim.name < key; });
    const bool is_scaling = scaling != scaling_dims_.end() && scaling->name == name;
    if (is_scaling && scaling->kind == ScalingDim::Kind::kIgnored) continue;
    placed.group = Join(placed.group, Xxh3(name));
    if (!is_scaling || !Scales(*scaling, value)) {
      placed.group = Join(placed.group, HashOf(value));
    } else if (scaling->kind == ScalingDim::Kind::kFactor) {
      product = BoundedProduct(product, value.int_value());
    } else {
      placed.values[static_cast<size_t>(scaling - scaling_dims_.begin())] = value.int_value();
    }
  }
  if (first_factor != scaling_dims_.end()) {
    placed.values[static_cast<size_t>(first_factor - scaling_dims_.begin())] = product;
  }
  return placed;
}

ShapeIndex::Shapes ShapeIndex::Group(uint64_t group) const {
  const Part* const part = parts_[group % kParts].get();
  if (part == nullptr) return {};
  const auto first = std::partition_point(part->begin(), part->end(), [&](const auto& s) { return s->group < group; });
  const auto last = std::partition_point(first, part->end(), [&](const auto& s) { return s->group == group; });
  return {first, last};
}

}  // namespace tunefarm
