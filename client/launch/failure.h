// Errors of the library: a status and one sentence, in the caller's memory. Nothing is allocated.
#pragma once

#include "client/launch/include/tunefarm/launch.h"

namespace tunefarm::launch {

// Writes the sentence, where there is an `error`, and returns `status`. Longer sentences are cut.
[[gnu::format(printf, 3, 4)]] tunefarm_status Fail(tunefarm_error* error, tunefarm_status status, const char* format,
                                                   ...);
// An empty sentence.
tunefarm_status Succeed(tunefarm_error* error);

}  // namespace tunefarm::launch
