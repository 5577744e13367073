// Monitoring: the pages /metrics and /healthz. Off unless an address is configured.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/daemon/control_plane.h"
#include "server/http/http_server.h"
#include "server/http/metrics.h"
#include "server/store/store.h"

namespace tunefarm {

// `plane` and `store` outlive the pages. `fill` adds what only the daemon knows: evaluator, retention, process, bounds.
// listen: "127.0.0.1:PORT", "localhost:PORT" or "[::1]:PORT", checked by the configuration.
absl::StatusOr<std::unique_ptr<HttpServer>> StartMonitoring(const std::string& listen, ControlPlane* plane,
                                                            Store* store, std::function<void(MetricsSnapshot*)> fill);

}  // namespace tunefarm
