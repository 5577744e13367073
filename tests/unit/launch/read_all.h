// Reads everything that a launch could.
#pragma once

#include "client/launch/package.h"

namespace tunefarm::launch {

// The number of formulas that have a value, for slots that are all 64.
inline int ReadAll(const Package& package) {
  expression::Cell slots[kSlotsMax];
  for (expression::Cell& slot : slots) slot = expression::Cell::Int(64);
  int values = 0;
  const auto run = [&](uint32_t formula) {
    if (formula == package::kNone) return;
    expression::Cell result = expression::Cell::Int(0);
    expression::Fault fault = expression::Fault::kNone;
    if (Evaluate(package.Formula(formula), slots, &result, &fault)) ++values;
    (void)package.Formula(formula).text[0];
  };
  const auto run_step = [&](const package::StepRecord& step) {
    run(step.when);
    if (step.kind != package::kKernelStep) return;
    (void)package.String(step.entry)[0];
    for (int axis = 0; axis < 3; ++axis) run(step.grid[axis]), run(step.block[axis]), run(step.cluster[axis]);
    run(step.dynamic_shared_bytes);
    for (const auto& argument : package.arguments().subspan(step.first_argument, step.arguments)) {
      if (argument.kind == package::kScalarArgument) run(argument.target);
    }
  };
  for (const package::KernelRecord& kernel : package.kernels()) {
    (void)package.String(kernel.name)[0];
    for (const auto& choice : package.choices().subspan(kernel.first_choice, kernel.choices)) {
      for (const auto& pair : package.pairs().subspan(choice.first_parameter, choice.parameters)) {
        (void)package.String(pair.name)[0];
        (void)package.ValueOf(pair.value);
      }
      for (const auto& buffer : package.buffers().subspan(choice.first_buffer, choice.buffers)) run(buffer.length);
      for (const auto& step : package.steps().subspan(choice.first_prepare, choice.prepares)) run_step(step);
      for (const auto& step : package.steps().subspan(choice.first_step, choice.steps)) run_step(step);
      for (uint32_t i = 0; i < choice.constraints; ++i) run(choice.first_constraint + i);
      if (choice.binary != package::kNone) (void)package.Bytes(package.binaries()[choice.binary]).back();
    }
  }
  return values;
}

}  // namespace tunefarm::launch
