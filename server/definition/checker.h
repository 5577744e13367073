// Checks a definition, writes its defaults out and compiles its expressions: the work of KernelPlan::Compile. Private
// to this folder; used by one thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/definition/plan_draft.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::definition {

inline constexpr int kSourcesMax = 64;
inline constexpr size_t kSourcesBytesMax = 8 << 20;  // of all together

// The first error of a definition that has some; all of them, at least one, are added to `errors` where it is given.
// What only follows from another error is none.
absl::StatusOr<std::shared_ptr<const KernelPlanAccess::Impl>> CheckDefinition(
    const tunefarm::v1::Kernel& kernel, std::vector<absl::Status>* errors = nullptr);

// Whether the path may name a source or a data file: relative, '/' between its parts, none of them "." or "..".
absl::Status CheckSourcePath(std::string_view field, std::string_view path);

// ---- The parts of CheckDefinition, in the order in which the fields depend on each other. Those without a result give
// their errors to the draft ----

// What a kernel in Python names and must not have, and that one in another language has no module. Sets the module's
// name where it is left out.
absl::Status CheckPython(tunefarm::v1::Kernel* kernel);
// The sources and options of a kernel in Triton, before CheckNames; nothing for others.
absl::Status CheckTriton(const tunefarm::v1::Kernel& kernel);
// Dims, parameters, starting configs and derived values: the names of a definition, which share one name space. The
// order in which they are added is that of the slots of all expressions.
void CheckNames(PlanDraft* draft);
// Buffers, scalars, constant symbols, tensor maps and tensor descriptors.
void CheckArguments(PlanDraft* draft);
// One file of a definition, of a buffer of the type, which is unspecified where a dim decides it.
absl::Status CheckDataFile(const std::string& path, tunefarm::v1::DataType type, const tunefarm::v1::DataFile& file);
// The files that outputs must equal, and how many files there are in all. After CheckArguments.
void CheckExpectedFiles(PlanDraft* draft);
// Launches, memsets and library operations of every sequence.
void CheckSteps(PlanDraft* draft);
// The rules that launches imply for a device: written as rules of the space, so that what cannot run is pruned (and
// counted) like what breaks a constraint. What depends on kernel.* is known only after compiling and is left out.
absl::Status MakeDeviceRules(PlanDraft* draft);

}  // namespace tunefarm::definition
