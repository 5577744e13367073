// Errors as the daemon sends them: with a reason in the binary details.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>

#include "tunefarm/v1/error.pb.h"

namespace tunefarm::golden {

inline grpc::Status Refused(grpc::StatusCode code, const std::string& message, const std::string& reason) {
  v1::ErrorDetail detail;
  detail.set_reason(reason);
  return grpc::Status(code, message, detail.SerializeAsString());
}

inline grpc::Status Missing(const std::string& message, const std::string& reason) {
  return Refused(grpc::StatusCode::NOT_FOUND, message, reason);
}

}  // namespace tunefarm::golden
