// Evaluates the formulas of choices.
//
// Threads: one; const use of the kernel.
#pragma once

#include <cstdint>

#include "client/launch/formula.h"
#include "client/launch/kernel.h"
#include "client/launch/lane.h"

namespace tunefarm::launch {

class Evaluation {
 public:
  // `slots` has kSlotsMax cells, filled by Kernel::FillSlots.
  Evaluation(const Kernel& kernel, expression::Cell* slots, tunefarm_error* error)
      : kernel_(kernel), slots_(slots), error_(error) {}

  // Whether a formula holds; false too where it fails.
  bool Holds(uint32_t formula) const;
  // INVALID_ARGUMENT where a result is none, or outside [lowest, highest]. `what` is for messages: "the grid".
  tunefarm_status Int(uint32_t formula, const char* what, int64_t lowest, int64_t highest, int64_t* value) const;
  // Lengths and work space.
  tunefarm_status Buffers(Selection* selection) const;
  // How many blocks of each entry a multiprocessor holds, for the choice's steps at these dims.
  tunefarm_status Occupancy(const std::vector<LoadedStep>& steps, Selection* selection) const;
  tunefarm_status Step(const LoadedStep& step, const Selection& selection, StepValues* values) const;

 private:
  tunefarm_status Runs(const LoadedStep& step, bool* runs) const;
  tunefarm_status Extents(const uint32_t formulas[3], const char* what, uint32_t extents[3]) const;
  tunefarm_status SharedBytes(const LoadedStep& step, uint32_t* bytes) const;
  tunefarm_status Argument(const package::ArgumentRecord& record, ArgumentValue* value) const;
  tunefarm_status TensorMap(const package::TensorMapRecord& record, TensorMapValues* values) const;
  // The number of the text among "a|b|c".
  tunefarm_status Mode(uint32_t formula, const char* what, const char* const* choices, int count, int* mode) const;

  const Kernel& kernel_;
  expression::Cell* const slots_;
  tunefarm_error* const error_;
};

}  // namespace tunefarm::launch
