// Evaluates the formulas of a choice for the dims of a launch: what buffers must hold, and how each step is launched.
//
// Threads: an evaluation belongs to one thread; any number of them may use a kernel at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "client/launch/formula.h"
#include "client/launch/kernel.h"
#include "client/launch/lane.h"
#include "server/driver_step/step_evaluator.h"

namespace tunefarm::launch {

// The formulas of a kernel's package for the evaluator of steps, with the values of a launch. What goes wrong is
// written to `error`, with INVALID_ARGUMENT.
class PackageFormulas {
 public:
  // `slots` has kSlotsMax cells, filled by Kernel::FillSlots.
  PackageFormulas(const Kernel& kernel, expression::Cell* slots, tunefarm_error* error)
      : kernel_(kernel), slots_(slots), error_(error) {}

  std::optional<Program> At(uint32_t formula) const;
  template <size_t size>
  std::optional<Program> At(const uint32_t (&list)[size], size_t number) const {
    return At(list[number]);
  }
  bool Int(const Program& program, const char* what, int64_t* value) const;
  bool Truth(const Program& program, bool* value) const;
  bool Text(const Program& program, const char* what, std::string_view* value) const;
  // As an element of the type in 8 bytes.
  bool Scalar(const Program& program, uint32_t data_type, void* bytes) const;
  bool OutOfRange(const Program& program, const char* what, int64_t value, int64_t lowest, int64_t highest) const;
  bool NoMultiple(const Program& program, const char* what, int64_t value, int64_t divisor) const;
  bool NoMode(const Program& program, const char* what, std::string_view text,
              std::span<const std::string_view> modes) const;

 private:
  const Kernel& kernel_;
  expression::Cell* const slots_;
  tunefarm_error* const error_;
};

class Evaluation {
 public:
  // As PackageFormulas.
  Evaluation(const Kernel& kernel, expression::Cell* slots, tunefarm_error* error)
      : kernel_(kernel), slots_(slots), formulas_(kernel, slots, error) {}

  // Whether a constraint holds; false too where it has no value.
  bool Holds(uint32_t formula) const;
  // The other functions return INVALID_ARGUMENT where a formula has no value, or one of a wrong type or out of its
  // bounds.

  // Fills lengths, scratch_offsets and workspace_bytes for the selection's choice.
  tunefarm_status Buffers(Selection* selection);
  // Fills max_active_blocks: how many blocks of each entry a multiprocessor holds when these steps launch it.
  tunefarm_status Occupancy(const std::vector<LoadedStep>& steps, Selection* selection);
  // Everything of a step but its addresses. Needs max_active_blocks.
  tunefarm_status Step(const LoadedStep& step, const Selection& selection, StepValues* values);

 private:
  bool Argument(const package::ArgumentRecord& record, ArgumentValue* value);

  const Kernel& kernel_;
  expression::Cell* const slots_;
  PackageFormulas formulas_;
  driver_step::StepEvaluator<PackageFormulas> evaluator_{&formulas_};
};

}  // namespace tunefarm::launch
