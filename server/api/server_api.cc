#include "server/api/server_api.h"

#include <string>

#include "server/base/status.h"
#include "server/base/status_macros.h"
#include "server/store/store_maintenance.h"

namespace tunefarm {

absl::StatusOr<v1::GetServerInfoResponse> ServerApi::GetServerInfo(const v1::GetServerInfoRequest& /*request*/) {
  v1::GetServerInfoResponse response = hooks_.info();
  response.set_catalog_age_ms(node_watch_->AgeMs());
  absl::Status away = node_watch_->LastStatus();
  const absl::StatusOr<StoreStatus> status = store_->maintenance()->Status();
  if (status.ok()) {
    response.set_active_jobs(status->active_jobs);
    response.set_stored_trials(status->stored_trials);
    response.set_schema_version(status->schema_version);
    response.set_database_bytes(status->database_bytes);
  } else {
    away = status.status();
  }
  if (!away.ok()) response.set_database_away(std::string(MessageOf(away)));
  return response;
}

absl::StatusOr<v1::OpenDashboardResponse> ServerApi::OpenDashboard(const Principal& caller,
                                                                   const v1::OpenDashboardRequest& /*request*/) {
  v1::OpenDashboardResponse response;
  if (!caller.IsOfSocket() && !caller.Has(Right::kAdmin)) {
    response.set_address(hooks_.info().dashboard_address());
    if (!response.address().empty()) return response;
    return WithReason(PermissionDenied("the dashboard is not served, and {} may not open it; set dashboard_listen, or "
                                       "run tunefarm dashboard on the daemon's machine",
                                       caller.Text()),
                      "DASHBOARD_CLOSED");
  }
  ASSIGN_OR_RETURN(*response.mutable_address(), hooks_.open_dashboard());
  return response;
}

}  // namespace tunefarm
