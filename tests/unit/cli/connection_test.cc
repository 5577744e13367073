#include "client/cli/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>

#include "server/dial/dial.h"
#include "tunefarm/v1/error.pb.h"

namespace tunefarm::cli {
namespace {

using ::testing::HasSubstr;

struct FakeStub {
  grpc::Status GetJob(grpc::ClientContext*, const v1::GetJobRequest&, v1::GetJobResponse*) { return status; }
  grpc::Status status;
};

absl::Status EndOf(const grpc::Status& status) {
  FakeStub stub = {status};
  return Connection::Call(&stub, &FakeStub::GetJob, v1::GetJobRequest(), std::chrono::seconds(90)).status();
}

TEST(ConnectionTest, WhatIsLateIsSaidInASentence) {
  const absl::Status late = EndOf({grpc::StatusCode::DEADLINE_EXCEEDED, "Deadline Exceeded"});
  EXPECT_TRUE(absl::IsDeadlineExceeded(late));
  EXPECT_THAT(std::string(late.message()), HasSubstr("did not answer within 90 s"));
}

TEST(ConnectionTest, WhatTheDaemonSaysStays) {
  v1::ErrorDetail detail;
  detail.set_reason("SPACE_TIME");
  const absl::Status said =
      EndOf({grpc::StatusCode::DEADLINE_EXCEEDED, "the space is too large", detail.SerializeAsString()});
  EXPECT_THAT(std::string(said.message()), HasSubstr("the space is too large"));
  EXPECT_TRUE(EndOf(grpc::Status::OK).ok());
}

TEST(ConnectionTest, PausesBetweenAttemptsHaveBounds) {
  grpc::ChannelArguments arguments;
  SetReconnectPauses(std::chrono::milliseconds(100), std::chrono::seconds(1), &arguments);
  const grpc_channel_args set = arguments.c_channel_args();
  std::map<std::string, int> values;
  for (size_t i = 0; i < set.num_args; ++i) {
    if (set.args[i].type == GRPC_ARG_INTEGER) values[set.args[i].key] = set.args[i].value.integer;
  }
  EXPECT_EQ(values[GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS], 100);
  EXPECT_EQ(values[GRPC_ARG_MAX_RECONNECT_BACKOFF_MS], 1000);
}

}  // namespace
}  // namespace tunefarm::cli
