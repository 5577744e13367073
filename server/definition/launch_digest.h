// What a config makes the device do, apart from its binary: the evaluated launch sequence as one digest.
//
// Pure; any thread.
#pragma once

#include "absl/status/statusor.h"
#include "server/base/hash.h"
#include "server/definition/kernel_plan.h"

namespace tunefarm {

// Two configs of one plan, problem and device class whose binaries are equal byte for byte and whose digests are equal
// do exactly the same work: the same prepare steps and launches with the same entries, grids, blocks, clusters, shared
// memory, attributes, scalars and tensor maps over buffers of the same type, length, content and restore rule.
//
// Formulas over kernel.* are known only after loading. They are functions of the binary and of the other names in them,
// whose values go into the digest instead.
//
// Errors: those of evaluating a formula; such a config must run to get its outcome.
absl::StatusOr<Digest> LaunchDigest(const KernelPlan& plan, const ResolvedProblem& problem, const Config& config,
                                    const DeviceClass& device);

}  // namespace tunefarm
