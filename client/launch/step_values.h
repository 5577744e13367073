// Evaluates the formulas of a choice for the dims of a launch: what buffers must hold, and how each step is launched.
//
// Threads: an evaluation belongs to one thread; any number of them may use a kernel at once.
#pragma once

#include <cstdint>
#include <vector>

#include "client/launch/formula.h"
#include "client/launch/kernel.h"
#include "client/launch/lane.h"

namespace tunefarm::launch {

class Evaluation {
 public:
  // `slots` has kSlotsMax cells, filled by Kernel::FillSlots.
  Evaluation(const Kernel& kernel, expression::Cell* slots, tunefarm_error* error)
      : kernel_(kernel), slots_(slots), error_(error) {}

  // Whether a constraint holds; false too where it has no value.
  bool Holds(uint32_t formula) const;
  // The other functions return INVALID_ARGUMENT where a formula has no value, or one of a wrong type or out of its
  // bounds.

  // Fills lengths, scratch_offsets and workspace_bytes for the selection's choice.
  tunefarm_status Buffers(Selection* selection) const;
  // Fills max_active_blocks: how many blocks of each entry a multiprocessor holds when these steps launch it.
  tunefarm_status Occupancy(const std::vector<LoadedStep>& steps, Selection* selection) const;
  // Everything of a step but its addresses. Needs max_active_blocks.
  tunefarm_status Step(const LoadedStep& step, const Selection& selection, StepValues* values) const;

 private:
  const Kernel& kernel_;
  expression::Cell* const slots_;
  tunefarm_error* const error_;
};

}  // namespace tunefarm::launch
