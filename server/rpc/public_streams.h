// The public calls of a listener that have many answers.
#pragma once

#include "server/api/public_calls.h"
#include "server/api/router.h"
#include "server/base/executor.h"

namespace tunefarm {

// What `services` names, and `read_threads`, which read the store, outlive the router's calls.
void AddPublicStreams(const RpcServices& services, TaskRunner* read_threads, Router* router);

}  // namespace tunefarm
