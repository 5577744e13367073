// The shapes of a group from the nearest to the farthest, one by one, so that the nearest that will do is found without
// a look at the others. Best first: what is open is a range of shapes that agree in the dims so far and a direction in
// the next dim, under the least distance that anything in it can have. One thread; the index must live as long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "server/catalog/shape_index.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm {

class NearestShapes {
 public:
  // `asked`: as the index places it. Distances as ShapeDistance (match_rules.h) gives them.
  NearestShapes(const KernelPlan& plan, const ShapeIndex& index, PlacedShape asked);

  // All shapes of the next distance, in no order; empty at the end, which is where the definition ends it.
  std::vector<const CatalogEntry*> Next();

 private:
  // Shapes [begin, end) agree in the dims before `dim`, in which they are `before` from the asked one. Next among them
  // is the run of those that agree in `dim` too, at `begin`, or, downwards, at `end`: `distance` away.
  struct Open {
    double distance = 0, before = 0;
    size_t dim = 0, begin = 0, end = 0;
    bool downwards = false;

    friend bool operator>(const Open& a, const Open& b) { return a.distance > b.distance; }
  };

  // Opens both directions from the asked value in `dim`, or in the next one in which shapes differ.
  void Enter(double before, size_t dim, size_t begin, size_t end);
  // One of them, unless it is empty or too far.
  void Push(Open open);
  // Among shapes [begin, end), which agree in the dims before: the first with this value of `dim` or a greater one, and
  // the first with a greater one.
  size_t FirstFrom(int64_t value, size_t dim, size_t begin, size_t end) const;
  size_t FirstAfter(int64_t value, size_t dim, size_t begin, size_t end) const;
  int64_t Value(size_t shape, size_t dim) const { return shapes_[shape]->values[dim]; }
  // Of a value of one dim from the asked one; infinite if they do not answer for each other.
  double Distance(size_t dim, int64_t value) const;

  const PlacedShape asked_;
  const ShapeIndex::Shapes shapes_;
  const double farthest_;
  std::vector<const tunefarm::v1::Dim*> dims_;  // null: all shapes have the same value
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
};

}  // namespace tunefarm
