#include "server/rpc/status.h"

#include <gtest/gtest.h>

namespace tunefarm {
namespace {

TEST(ToGrpcTest, EveryCodeKeepsItsMeaning) {
  const std::pair<absl::Status, grpc::StatusCode> cases[] = {
      {InvalidArgument("x"), grpc::StatusCode::INVALID_ARGUMENT},
      {NotFound("x"), grpc::StatusCode::NOT_FOUND},
      {AlreadyExists("x"), grpc::StatusCode::ALREADY_EXISTS},
      {FailedPrecondition("x"), grpc::StatusCode::FAILED_PRECONDITION},
      {ResourceExhausted("x"), grpc::StatusCode::RESOURCE_EXHAUSTED},
      {Unavailable("x"), grpc::StatusCode::UNAVAILABLE},
      {Aborted("x"), grpc::StatusCode::ABORTED},
      {DeadlineExceeded("x"), grpc::StatusCode::DEADLINE_EXCEEDED},
      {PermissionDenied("x"), grpc::StatusCode::PERMISSION_DENIED},
      {Unauthenticated("x"), grpc::StatusCode::UNAUTHENTICATED},
      {DataLoss("x"), grpc::StatusCode::DATA_LOSS},
      {Unimplemented("x"), grpc::StatusCode::UNIMPLEMENTED},
      {OutOfRange("x"), grpc::StatusCode::OUT_OF_RANGE},
      {Cancelled("x"), grpc::StatusCode::CANCELLED},
      {Internal("x"), grpc::StatusCode::INTERNAL},
  };
  for (const auto& [status, code] : cases) {
    EXPECT_EQ(ToGrpc(status).error_code(), code) << status.ToString();
    EXPECT_EQ(ToGrpc(status).error_message(), "x");
    EXPECT_EQ(ToGrpc(status).error_details(), "");
  }
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
}

TEST(ToGrpcTest, TheReasonTravelsAsADetail) {
  const grpc::Status status = ToGrpc(Annotate(WithReason(NotFound("no job 7"), "JOB_NOT_FOUND"), "show"));
  EXPECT_EQ(status.error_message(), "show: no job 7");
  v1::ErrorDetail detail;
  ASSERT_TRUE(detail.ParseFromString(status.error_details()));
  EXPECT_EQ(detail.reason(), "JOB_NOT_FOUND");
}

}  // namespace
}  // namespace tunefarm
