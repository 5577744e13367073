// absl::Status to grpc::Status, with the reason as a serialized tunefarm.v1.ErrorDetail in the details.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"
#include "server/base/status.h"
#include "tunefarm/v1/error.pb.h"

namespace tunefarm {

inline grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  v1::ErrorDetail detail;
  detail.set_reason(ReasonOf(status));
  for (const auto& [name, value] : MetadataOf(status)) (*detail.mutable_metadata())[name] = value;
  // The codes of absl are those of gRPC.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(MessageOf(status)),
                      detail.reason().empty() ? "" : detail.SerializeAsString());
}

}  // namespace tunefarm
