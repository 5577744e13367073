// Formulas of a package: checked once, so that they can be run without any check.
//
// Threads: any; there is no state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/launch/package_format.h"
#include "server/expression/machine.h"

namespace tunefarm::launch {

// One past the highest slot that a formula may read in any kernel.
inline constexpr uint32_t kSlotsMax = package::kDimsMax + package::kDeviceSlots + package::kKernelSlots;

// Whether the machine can run `count` instructions with no more checks: operations exist, jumps go forward, constants
// and slots exist, every operation finds its operands, the stack suffices, and one value is left. `*slots` is then one
// past the highest slot that is read. `depths` is room that is used again.
bool IsProgram(const package::InstructionRecord* code, uint32_t count, uint64_t constants, uint32_t* slots,
               std::vector<int32_t>* depths);

// A formula that IsProgram has accepted, ready to be run.
struct Program {
  const expression::Instruction* code = nullptr;
  const expression::Cell* constants = nullptr;
  uint32_t instructions = 0;
  const char* text = "";  // for messages
};

// False with *fault where there is no result.
bool Evaluate(const Program& program, const expression::Cell* slots, expression::Cell* result,
              expression::Fault* fault);
// "it divides by zero".
const char* FaultText(expression::Fault fault);

}  // namespace tunefarm::launch
