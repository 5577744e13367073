// The A/A test's configs: a definition with one more parameter, bound at run time and used by nothing, so that each of
// its values is the same binary, the same launches and yet a config of its own.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tunefarm/v1/kernel.pb.h"
#include "tunefarm/v1/problem.pb.h"
#include "tunefarm/v1/trial.pb.h"

namespace tunefarm::cli {

inline constexpr int kTwinsMax = 32;  // as many as a final takes

// `kernel` with `twins` twins, under a name of its own, so that bests of the kernel itself are not touched.
v1::Kernel WithTwins(v1::Kernel kernel, int twins);

// The problem with every parameter but the twin pinned: to its default, or as the problem already pins it. Errors of
// the definition.
absl::StatusOr<v1::Problem> PinnedToDefault(const v1::Kernel& kernel, const v1::Problem& problem);

// Which twin a config is; -1: none.
int TwinOf(const v1::Config& config);
// The config as the kernel itself knows it.
v1::Config WithoutTwin(v1::Config config);

}  // namespace tunefarm::cli
