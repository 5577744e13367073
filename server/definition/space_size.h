// How large a space is and what its rules remove, as the API and the command line tell it.
#pragma once

#include "absl/status/statusor.h"
#include "server/space/space.h"
#include "tunefarm/v1/job.pb.h"

namespace tunefarm {

// `valid` is counted wherever that can be done, whatever the size of the space, and INT64_MAX stands for that many and
// more; `approximate` says that it had to be sampled. What each rule removes is counted in spaces of up to
// kSpaceListMax points: there the rules' counts and `valid` add up to all points. In larger ones it is sampled and
// rounded to three digits. A space whose options have a limit is sampled as well where counting takes more than a few
// seconds. Errors of the rules' evaluation, and of the limit.
absl::StatusOr<v1::SpaceSize> SizeOfSpace(const Space& space);

}  // namespace tunefarm
