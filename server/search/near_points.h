// Points near a point. All results are valid points of the space other than the point itself. Pure functions.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "server/base/random.h"
#include "server/search/search_space.h"

namespace tunefarm {

enum class Moves {
  kAnyValue,   // one parameter has another value
  kNextValue,  // one parameter has the next value up or down that is valid with the others
};

// All neighbours, in a fixed order. Of a parameter with more than `values_max` values, as many random ones.
std::vector<Point> NearPoints(const SearchSpace& space, std::span<const uint16_t> point, Moves moves, int values_max,
                              PhiloxStream& random);

// For each value of a parameter that is not valid with the point's other values: one of the points with that value that
// differ from this one in the fewest parameters. Rules that tie parameters together separate a space into parts between
// which no neighbour leads; these points do. Of a listed space, in a fixed order and distinct; of others none. Reads
// all rows.
std::vector<Point> NearestWithOtherValues(const SearchSpace& space, std::span<const uint16_t> point,
                                          PhiloxStream& random);

// Another value of a parameter that has more than one: of numbers a near one with probability `near`, else any.
uint16_t OtherValue(const SearchSpace& space, int parameter, uint16_t own, double near, PhiloxStream& random);

// A copy with `changes` (1 or more) random parameters changed; if that finds nothing valid in `tries` tries, with more
// changed. Empty when nothing was found. Ordered parameters move near with probability `near`, else anywhere.
std::optional<Point> Mutated(const SearchSpace& space, std::span<const uint16_t> point, int changes, double near,
                             int tries, PhiloxStream& random);

// n valid points that together use each parameter's range evenly: a Latin hypercube over the parameters' values, each
// of its points replaced by the nearest of a number of uniform samples of the space. Distinct; fewer where the space is
// smaller. Fails as SearchSpace::Sample.
absl::StatusOr<std::vector<Point>> LatinHypercube(const SearchSpace& space, int n, PhiloxStream& random);

}  // namespace tunefarm
