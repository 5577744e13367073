#include "server/api/server_api.h"

#include <utility>

#include "server/base/status.h"

namespace tunefarm {

ServerApi::ServerApi(Store* store, const NodeWatch* node_watch, ServerHooks hooks)
    : store_(store), node_watch_(node_watch), hooks_(std::move(hooks)) {}

absl::StatusOr<v1::GetServerInfoResponse> ServerApi::GetServerInfo(const v1::GetServerInfoRequest& /*request*/) {
  v1::GetServerInfoResponse response = hooks_.info();
  response.set_catalog_age_ms(node_watch_->AgeMs());
  absl::Status away = node_watch_->LastStatus();
  const absl::StatusOr<StoreStatus> status = store_->Status();
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

absl::StatusOr<v1::CreateBackupResponse> ServerApi::CreateBackup(const v1::CreateBackupRequest& request) {
  return hooks_.backup(request.file_name());
}

absl::StatusOr<v1::ShutdownResponse> ServerApi::Shutdown(const v1::ShutdownRequest& request) {
  hooks_.shutdown(request.immediately());
  return v1::ShutdownResponse();
}

}  // namespace tunefarm
