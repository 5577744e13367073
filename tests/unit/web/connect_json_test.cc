#include "server/web/connect_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "server/base/status.h"
#include "tunefarm/v1/error.pb.h"
#include "tunefarm/v1/study_service.pb.h"
#include "tunefarm/v1/tuning_service.pb.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

template <typename Message>
absl::StatusOr<Message> FromJson(const std::string& json) {
  const absl::StatusOr<std::string> wire = JsonToWire(*Message::descriptor(), json);
  if (!wire.ok()) return wire.status();
  Message message;
  EXPECT_TRUE(message.ParseFromString(*wire));
  return message;
}

TEST(ConnectJsonTest, LongNumbersAreStringsEnumsNamesAndBytesBase64) {
  v1::Job job;
  job.set_name("jobs/7");
  job.set_created_at_ms(std::numeric_limits<int64_t>::max());
  job.set_state(v1::JOB_STATE_RUNNING);
  const nlohmann::json json = nlohmann::json::parse(*ToJson(job));
  EXPECT_EQ(json, nlohmann::json(
                      {{"name", "jobs/7"}, {"createdAtMs", "9223372036854775807"}, {"state", "JOB_STATE_RUNNING"}}));
  EXPECT_EQ(FromJson<v1::Job>(json.dump())->created_at_ms(), std::numeric_limits<int64_t>::max());
  v1::GetStudyChartResponse chart;
  chart.set_density(std::string("\x00\x01\xff", 3));
  EXPECT_EQ(nlohmann::json::parse(*ToJson(chart))["density"], "AAH/");
  EXPECT_EQ(*ToJson(v1::GetJobRequest()), "{}");
}

TEST(ConnectJsonTest, RequestsAreReadAsPeopleWriteThem) {
  const auto request =
      FromJson<v1::ListJobsRequest>(R"({"pageSize": 5, "states": ["JOB_STATE_RUNNING", 4], "page_token": "x"})");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->page_size(), 5);
  EXPECT_EQ(request->states_size(), 2);
  EXPECT_EQ(request->page_token(), "x");
}

TEST(ConnectJsonTest, WhatIsWrongIsNamed) {
  const auto error = [](const std::string& json) {
    const absl::Status status = FromJson<v1::CreateJobRequest>(json).status();
    EXPECT_EQ(ReasonOf(status), "MESSAGE_INVALID") << json;
    return std::string(MessageOf(status));
  };
  EXPECT_THAT(error(R"({"job": {"kernal": "x"}})"), HasSubstr("kernal"));
  EXPECT_THAT(error(R"({"job": 7})"), HasSubstr("CreateJobRequest"));
  for (const char* const wrong :
       {"", "{", "{}}", "\xff", R"({"job": {"priority": "x"}})", R"({"job": {"priority": 1e99}})"}) {
    EXPECT_THAT(error(wrong), HasSubstr("is no CreateJobRequest in JSON")) << wrong;
  }
  // Half a surrogate pair: JSON, and no text.
  const absl::StatusOr<std::string> half = JsonToWire(*v1::GetJobRequest::descriptor(), R"({"name": "\udc00"})");
  EXPECT_TRUE(!half.ok() || !v1::GetJobRequest().ParseFromString(*half));
  // Deeper than any message.
  error(R"({"job": )" + std::string(10'000, '['));
}

TEST(ConnectJsonTest, ErrorsHaveTheReasonInWordsAndForLibraries) {
  const absl::Status status =
      WithMetadata(WithReason(ResourceExhausted("slowly, \"ci\"; \xff"), "RATE_LIMIT"), "retry_after_ms", "12");
  const nlohmann::json json = nlohmann::json::parse(ErrorJson(status));
  EXPECT_EQ(json["code"], "resource_exhausted");
  EXPECT_THAT(json["message"].get<std::string>(), HasSubstr("slowly, \"ci\"; "));
  ASSERT_EQ(json["details"].size(), 1u);
  const nlohmann::json detail = json["details"][0];
  EXPECT_EQ(detail["type"], "tunefarm.v1.ErrorDetail");
  EXPECT_EQ(detail["reason"], "RATE_LIMIT");
  EXPECT_EQ(detail["metadata"]["retry_after_ms"], "12");
  EXPECT_FALSE(detail["value"].get<std::string>().empty());
  EXPECT_FALSE(nlohmann::json::parse(ErrorJson(Internal("x"))).contains("details"));
}

TEST(ConnectJsonTest, StatusesAreThoseOfConnect) {
  EXPECT_EQ(HttpStatusOf(absl::StatusCode::kOk), 200);
  EXPECT_EQ(HttpStatusOf(absl::StatusCode::kFailedPrecondition), 400);
  EXPECT_EQ(HttpStatusOf(absl::StatusCode::kUnauthenticated), 401);
  EXPECT_EQ(HttpStatusOf(absl::StatusCode::kPermissionDenied), 403);
  EXPECT_EQ(HttpStatusOf(absl::StatusCode::kNotFound), 404);
  EXPECT_EQ(HttpStatusOf(absl::StatusCode::kResourceExhausted), 429);
  EXPECT_EQ(HttpStatusOf(absl::StatusCode::kUnimplemented), 501);
  EXPECT_EQ(HttpStatusOf(absl::StatusCode::kUnavailable), 503);
  EXPECT_EQ(HttpStatusOf(absl::StatusCode::kInternal), 500);
}

TEST(ConnectJsonTest, AnswersHaveASize) {
  v1::GetStudyChartResponse chart;
  chart.set_density(std::string(kAnswerBytesMax + 1, 'x'));
  EXPECT_EQ(ReasonOf(ToJson(chart).status()), "ANSWER_TOO_LARGE");
}

}  // namespace
}  // namespace tunefarm
