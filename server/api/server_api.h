// ServerApi: the calls of ServerService. The daemon is shown, its database copied, and its end requested.
//
// Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/access/principal.h"
#include "server/nodes/node_watch.h"
#include "server/store/store.h"
#include "tunefarm/v1/server_service.pb.h"

namespace tunefarm {

// What the process knows of itself, and what can be asked of it. All functions are set and callable from any thread.
struct ServerHooks {
  std::function<v1::GetServerInfoResponse()> info;
  std::function<absl::StatusOr<v1::CreateBackupResponse>(const std::string& file_name)> backup;
  // Returns at once; the daemon ends on its own.
  std::function<void(bool immediately)> shutdown;
  // Serves the dashboard, where it is not served yet; says where.
  std::function<absl::StatusOr<std::string>()> open_dashboard;
};

class ServerApi {
 public:
  // All outlive it, and what the hooks use.
  ServerApi(Store* store, const NodeWatch* node_watch, ServerHooks hooks)
      : store_(store), node_watch_(node_watch), hooks_(std::move(hooks)) {}

  // While the store does not answer, database_away says why and the counts are 0.
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const v1::GetServerInfoRequest& request);
  // The errors of the hook.
  absl::StatusOr<v1::CreateBackupResponse> CreateBackup(const v1::CreateBackupRequest& request) {
    return hooks_.backup(request.file_name());
  }
  // Opened by sockets and administrators alone; others learn where it is served: PermissionDenied (DASHBOARD_CLOSED).
  // The errors of the hook.
  absl::StatusOr<v1::OpenDashboardResponse> OpenDashboard(const Principal& caller,
                                                          const v1::OpenDashboardRequest& request);
  absl::StatusOr<v1::ShutdownResponse> Shutdown(const v1::ShutdownRequest& request) {
    hooks_.shutdown(request.immediately());
    return v1::ShutdownResponse();
  }

 private:
  Store* const store_;
  const NodeWatch* const node_watch_;
  const ServerHooks hooks_;
};

}  // namespace tunefarm
