#pragma once

#include "absl/status/statusor.h"
#include "server/exec/process_evaluator.h"

namespace tunefarm {

// Asks one probe worker per backend what devices there are and waits for the answers, each at most deadlines.start_ms.
// A backend whose probe dies or hangs becomes a note; FailedPrecondition when none answers. Blocking; from any thread
// but an evaluator's.
absl::StatusOr<ProbeResult> ProbeDevices(const ProcessEvaluatorOptions& options);

}  // namespace tunefarm
