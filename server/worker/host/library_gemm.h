// C = A * B on the host for references: plain loops that accumulate in double, right before fast. Never a baseline.
//
// Pure but for the buffers; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm {

struct BufferView;

struct HostGemm {
  const BufferView* a = nullptr;
  const BufferView* b = nullptr;
  const BufferView* c = nullptr;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
};

// The views must outlive the plan. InvalidArgument for a buffer that is missing or too short; Unimplemented for the
// grouped forms.
absl::StatusOr<HostGemm> PlanHostGemm(const StepPlan& step, const std::map<std::string, BufferView>& buffers);

void RunHostGemm(const HostGemm& gemm);

}  // namespace tunefarm
