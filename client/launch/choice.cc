#include "client/launch/choice.h"

#include <optional>

#include "server/definition/dim_distance.h"

namespace tunefarm::launch {

void ChoiceTable::Add(size_t choice, bool is_default, bool is_own_class, std::vector<int64_t> values) {
  rows_.push_back({choice, is_default, is_own_class, std::move(values)});
}

tunefarm_match ChoiceTable::MatchOf(Kind kind) {
  switch (kind) {
    case Kind::kNearest:
      return TUNEFARM_MATCH_NEAREST;
    case Kind::kSameArch:
      return TUNEFARM_MATCH_SAME_ARCH;
    case Kind::kOwnDefault:
    case Kind::kOtherDefault:
      return TUNEFARM_MATCH_DEFAULT;
    default:
      return TUNEFARM_MATCH_EXACT;
  }
}

size_t ChoiceTable::Best(const int64_t* asked, const Rank& after, size_t most, Rank* ranks) const {
  size_t count = 0;
  for (size_t row = 0; row < rows_.size(); ++row) {
    const Rank own = RankOf(asked, row);
    if (own.kind == Kind::kNothing) continue;
    if (after.kind != Kind::kNothing && !(after < own)) continue;
    if (count == most && !(own < ranks[most - 1])) continue;
    size_t at = count < most ? count++ : most - 1;
    for (; at > 0 && own < ranks[at - 1]; --at) ranks[at] = ranks[at - 1];
    ranks[at] = own;
  }
  return count;
}

ChoiceTable::Rank ChoiceTable::RankOf(const int64_t* asked, size_t number) const {
  const Row& row = rows_[number];
  if (row.is_default) return {row.is_own_class ? Kind::kOwnDefault : Kind::kOtherDefault, 0, number};
  double distance = 0;
  bool is_exact = true, products_differ = false;
  int64_t asked_product = 1, tuned_product = 1;
  for (size_t i = 0; i < dims_.size(); ++i) {
    const int64_t tuned = row.values[i];
    const bool is_factor = dims_[i].rule == package::kProduct;
    if (is_factor) {
      asked_product = BoundedProduct(asked_product, asked[i]);
      tuned_product = BoundedProduct(tuned_product, tuned);
    }
    if (asked[i] == tuned) continue;
    is_exact = false;
    if (!row.is_own_class) return {};
    if (is_factor) {
      if (asked[i] <= 0 || tuned <= 0) return {};
      products_differ = true;
      continue;
    }
    const std::optional<double> own = DimDistance(dims_[i].rule, dims_[i].bounds, asked[i], tuned);
    if (!own) return {};
    distance += *own;
  }
  if (products_differ) distance += DimDistance(package::kProduct, {}, asked_product, tuned_product).value_or(0);
  if (is_exact) return {row.is_own_class ? Kind::kExact : Kind::kSameArch, 0, number};
  if (!(distance <= farthest_)) return {};
  return {Kind::kNearest, distance, number};
}

}  // namespace tunefarm::launch
