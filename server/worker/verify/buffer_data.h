// What the buffers of a problem hold before launches and what is looked at after them, for every kind of worker.
//
// Pure functions; any thread.
#pragma once

#include "server/definition/kernel_plan.h"

namespace tunefarm {

// Read only.
inline bool IsInput(const BufferPlan& plan) {
  return plan.is_constant_symbol || plan.access == tunefarm::v1::ACCESS_IN;
}
// Compared with what the reference leaves, or with a file.
inline bool IsOutput(const BufferPlan& plan) {
  return !plan.is_constant_symbol &&
         (plan.access == tunefarm::v1::ACCESS_OUT || plan.access == tunefarm::v1::ACCESS_INOUT);
}
inline bool IsScratch(const BufferPlan& plan) {
  return !plan.is_constant_symbol && plan.access == tunefarm::v1::ACCESS_SCRATCH;
}

// Where the data come from that a buffer holds before launches.
enum class BufferData {
  kFormula,      // PlanFill of its fill
  kFile,         // a file of the user's
  kPrepareStep,  // a step for the problem writes them; until then it reads as unwritten
  kZeros,
  kPoison,
};
inline BufferData BufferDataOf(const BufferPlan& plan) {
  if (!IsInput(plan) && plan.access != tunefarm::v1::ACCESS_INOUT && plan.init != tunefarm::v1::INIT_FILL) {
    return plan.init == tunefarm::v1::INIT_ZERO ? BufferData::kZeros : BufferData::kPoison;
  }
  if (plan.fill.has_file()) return BufferData::kFile;
  return plan.fill.has_prepare_step() ? BufferData::kPrepareStep : BufferData::kFormula;
}
inline bool IsPoisoned(const BufferPlan& plan) { return BufferDataOf(plan) == BufferData::kPoison; }
inline bool StartsWithData(const BufferPlan& plan) {
  return BufferDataOf(plan) != BufferData::kZeros && !IsPoisoned(plan);
}

// Whether a launch after others finds it as the first did, where what is restored per sample is restored and outputs
// are poisoned again.
inline bool IsRepeatable(const BufferPlan& plan) {
  return IsInput(plan) || IsPoisoned(plan) || plan.restore == tunefarm::v1::RESTORE_PER_SAMPLE;
}

}  // namespace tunefarm
