// A Proposer is what makes one strategy differ from another: given the history, one more point.
//
// Purity, on which replay rests: what Propose returns may depend only on the history, on the calls Proposed and
// Observed in their order, and on the random stream given; Propose itself changes no state that later proposals depend
// on (it may keep what can be computed again). A restarted daemon calls Proposed and Observed, but not Propose, for
// what it has on record.
#pragma once

#include <optional>
#include <span>

#include "server/base/random.h"
#include "server/search/history.h"

namespace tunefarm {

class Proposer {
 public:
  virtual ~Proposer() = default;

  // A valid point that was not proposed before; none when the proposer has no better idea than a random one.
  virtual std::optional<Point> Propose(const History& history, PhiloxStream& random) = 0;

  // After each proposal, whichever strategy made it, and before it is in the history.
  virtual void Proposed(const History& /*history*/, std::span<const uint16_t> /*point*/) {}

  // After each observation (never of lost trials). `random` is a stream of its own.
  virtual void Observed(const History& /*history*/, size_t /*observation*/, PhiloxStream& /*random*/) {}
};

}  // namespace tunefarm
