// How soon a search came near to the best that it found. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "server/analysis/selection.h"

namespace tunefarm {

// A step of the best-so-far: the evaluation that brought it, and what it is from there on.
struct BestStep {
  int64_t evaluation = 0;  // how many of the study had ended then, this one included
  int64_t ordinal = 0;
  int64_t ended_ms = 0;
  double best_ns = 0;
};

// The steps of the best-so-far, each better than the one before it; empty when nothing is OK.
std::vector<BestStep> BestSoFar(const Selection& trials);

struct Convergence {
  double within = 0;  // share above the best
  BestStep step;      // the first that is at most best x (1 + within)
};

// One for each share; empty when nothing is OK.
std::vector<Convergence> ConvergenceOf(const Selection& trials, std::span<const double> shares);

}  // namespace tunefarm
