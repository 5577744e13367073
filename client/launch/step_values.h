// Evaluates the formulas of a choice for the dims of a launch: what buffers must hold, and how each step is launched.
//
// Threads: an evaluation belongs to one thread; any number of them may use a kernel at once.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

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
  // An int in [lowest, highest]. `what` is for messages: "the grid".
  tunefarm_status Int(uint32_t formula, const char* what, int64_t lowest, int64_t highest, int64_t* value) const;
  // Whether the step's condition holds; true without one.
  tunefarm_status Runs(const LoadedStep& step, bool* runs) const;
  tunefarm_status Extents(const uint32_t formulas[3], const char* what, uint32_t extents[3]) const;
  tunefarm_status SharedBytes(const LoadedStep& step, uint32_t* bytes) const;
  tunefarm_status Argument(const package::ArgumentRecord& record, ArgumentValue* value) const;
  tunefarm_status TensorMap(const package::TensorMapRecord& record, TensorMapValues* values) const;
  // The number of the name that the formula gives; 0 without a formula.
  tunefarm_status Mode(uint32_t formula, const char* what, std::span<const std::string_view> names, int* mode) const;

  const Kernel& kernel_;
  expression::Cell* const slots_;
  tunefarm_error* const error_;
};

}  // namespace tunefarm::launch
