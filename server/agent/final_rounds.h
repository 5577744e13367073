// The rounds of a unit whose trials are measured against each other (a final): whose turn it is, and how a run of a
// round differs from one of a search.
//
// In each round every trial runs once, in an order drawn for the round. On GPUs every run is measured beside the same
// yardstick, the first trial's config, so that two trials can be compared by the ratios of neighbouring launches. What
// fails beside the yardstick runs once more without it, since the failure may be the yardstick's; from then on the
// unit's runs have none.
//
// The agent's executor only. The unit is the caller's.
#pragma once

#include "server/agent/unit_work.h"
#include "server/device/device_class.h"
#include "server/exec/evaluator.h"

namespace tunefarm {

// The trial whose turn it is; null where there is none: all have run, or one is still compiled or waits for a retry.
TrialWork* NextInRounds(UnitWork* unit);

// What the trial's next round asks for beyond what every run does: inputs, kept samples, yardstick.
void AddRound(const TrialWork& trial, const DeviceClass& device_class, UnitWork* unit, RunRequest* request);

// Whether the trial is to run again because of what its last run, which counts nothing then, has come to.
bool RunsAgainAlone(const RunResult& result, UnitWork* unit);

}  // namespace tunefarm
