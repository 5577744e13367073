// What a config does on a device, as data that is complete without the definition.
//
// Pure; any thread.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "server/definition/kernel_plan.h"
#include "tunefarm/v1/launch_sequence.pb.h"

namespace tunefarm {

// Whether a launch gives the dim its value: it is an INT dim of bind RUN, and says more than how inputs are made. All
// others are fixed when a config is chosen.
bool IsOpenDim(const tunefarm::v1::Dim& dim);

// The launches of a config for the problem, and for all that differ from it in open dims alone. `symbols`: entries as
// the definition writes them, to their names in the binary. Its constraints are the definition's and the limits of the
// device, as far as open dims decide whether they hold.
//
// IN, OUT and INOUT buffers are the caller's, whatever fills them in a tuning: prepare steps per PROBLEM only make test
// data and are left out. So is work space that no step uses.
//
// InvalidArgument with the field's path: the config breaks a constraint or a limit of the device, or a formula cannot
// be evaluated for it; or the definition does what only a worker can (reason NOT_SUPPORTED): it is written in Python,
// runs a library operation, or needs an OUT or SCRATCH buffer that begins with something else than one value in every
// element.
absl::StatusOr<tunefarm::v1::LaunchSequence> MakeLaunchSequence(const KernelPlan& plan, const ResolvedProblem& problem,
                                                                const Config& config, const DeviceClass& device,
                                                                const std::map<std::string, std::string>& symbols);

}  // namespace tunefarm
