#include "server/base/status.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "server/base/check.h"
#include "server/base/status_macros.h"

namespace tunefarm {
namespace {

TEST(StatusTest, ConstructorsSetCodeAndMessage) {
  const std::pair<absl::Status, absl::StatusCode> cases[] = {
      {InvalidArgument("x={}", 1), absl::StatusCode::kInvalidArgument},
      {NotFound("x={}", 1), absl::StatusCode::kNotFound},
      {AlreadyExists("x={}", 1), absl::StatusCode::kAlreadyExists},
      {FailedPrecondition("x={}", 1), absl::StatusCode::kFailedPrecondition},
      {ResourceExhausted("x={}", 1), absl::StatusCode::kResourceExhausted},
      {Unavailable("x={}", 1), absl::StatusCode::kUnavailable},
      {Aborted("x={}", 1), absl::StatusCode::kAborted},
      {DeadlineExceeded("x={}", 1), absl::StatusCode::kDeadlineExceeded},
      {PermissionDenied("x={}", 1), absl::StatusCode::kPermissionDenied},
      {Unauthenticated("x={}", 1), absl::StatusCode::kUnauthenticated},
      {DataLoss("x={}", 1), absl::StatusCode::kDataLoss},
      {Unimplemented("x={}", 1), absl::StatusCode::kUnimplemented},
      {OutOfRange("x={}", 1), absl::StatusCode::kOutOfRange},
      {Cancelled("x={}", 1), absl::StatusCode::kCancelled},
      {Internal("x={}", 1), absl::StatusCode::kInternal},
  };
  for (const auto& [status, code] : cases) {
    EXPECT_EQ(status.code(), code);
    EXPECT_EQ(MessageOf(status), "x=1");
  }
}

TEST(StatusTest, AnnotateKeepsCodeAndReason) {
  const absl::Status status = WithReason(NotFound("no row {}", 7), "NO_ROW");
  const absl::Status annotated = Annotate(status, "reading {}", "jobs");
  EXPECT_EQ(annotated.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MessageOf(annotated), "reading jobs: no row 7");
  EXPECT_EQ(ReasonOf(annotated), "NO_ROW");
  EXPECT_TRUE(Annotate(absl::OkStatus(), "reading").ok());
}

TEST(StatusTest, MessageIsNotTakenForAFormat) {
  const absl::Status status = InvalidArgument("{}", "a {} b");
  EXPECT_EQ(MessageOf(Annotate(status, "{}", "{x}")), "{x}: a {} b");
}

TEST(StatusTest, Reason) {
  EXPECT_EQ(ReasonOf(NotFound("x")), "");
  EXPECT_EQ(ReasonOf(WithReason(WithReason(NotFound("x"), "A"), "B")), "B");
  EXPECT_TRUE(WithReason(absl::OkStatus(), "A").ok());
  EXPECT_EQ(ReasonOf(WithReason(absl::OkStatus(), "A")), "");
}

TEST(StatusTest, ErrnoMap) {
  EXPECT_EQ(fmt::format("{}", ErrnoStatus(ENOENT, "cannot open {}", "/x")),
            "NOT_FOUND: cannot open /x: No such file or directory");
  EXPECT_EQ(ErrnoStatus(ENOSPC, "x").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrnoStatus(EMFILE, "x").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrnoStatus(EACCES, "x").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ErrnoStatus(EEXIST, "x").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ErrnoStatus(EAGAIN, "x").code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrnoStatus(EIO, "x").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ErrnoStatus(0, "x").code(), absl::StatusCode::kInternal);
  EXPECT_EQ(MessageOf(ErrnoStatus(99999, "x")), "x: unknown error 99999");
}

TEST(StatusTest, Format) {
  EXPECT_EQ(fmt::format("{}", absl::OkStatus()), "OK");
  EXPECT_EQ(fmt::format("[{}]", DataLoss("gone")), "[DATA_LOSS: gone]");
}

absl::StatusOr<int> Positive(int value) {
  if (value <= 0) return InvalidArgument("{} is not positive", value);
  return value;
}

absl::StatusOr<int> Sum(int a, int b, int* evaluations) {
  ASSIGN_OR_RETURN(const int first, Positive(a));
  int second = 0;
  ASSIGN_OR_RETURN(second, Positive(b));
  RETURN_IF_ERROR((++*evaluations, Positive(first + second).status()));
  return first + second;
}

TEST(StatusMacrosTest, ReturnEarly) {
  int evaluations = 0;
  EXPECT_EQ(*Sum(1, 2, &evaluations), 3);
  EXPECT_EQ(evaluations, 1);
  EXPECT_EQ(MessageOf(Sum(0, 2, &evaluations).status()), "0 is not positive");
  EXPECT_EQ(MessageOf(Sum(1, -2, &evaluations).status()), "-2 is not positive");
  EXPECT_EQ(evaluations, 1);
}

TEST(StatusMacrosTest, MoveOnlyValues) {
  const auto make = [](bool ok) -> absl::StatusOr<std::unique_ptr<int>> {
    if (!ok) return Unavailable("none");
    return std::make_unique<int>(5);
  };
  const auto use = [&make](bool ok) -> absl::Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<int> value, make(ok));
    return *value == 5 ? absl::OkStatus() : Internal("wrong");
  };
  EXPECT_TRUE(use(true).ok());
  EXPECT_EQ(use(false).code(), absl::StatusCode::kUnavailable);
}

class CheckDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(CheckDeathTest, AbortWithTheConditionAndThePlace) {
  EXPECT_DEATH(TUNEFARM_CHECK(1 + 1 == 3), "critical base .*status_test.cc:[0-9]+: check failed: 1 \\+ 1 == 3");
  EXPECT_DEATH(TUNEFARM_CHECK_OK(NotFound("no {}", "x")), "NotFound\\(.*is NOT_FOUND: no x");
  EXPECT_DEATH(TUNEFARM_CHECK_OK(Positive(-1)), "INVALID_ARGUMENT: -1 is not positive");
}

TEST(CheckTest, PassesAndEvaluatesOnce) {
  int count = 0;
  TUNEFARM_CHECK(++count == 1);
  TUNEFARM_CHECK_OK(Positive(++count));
  TUNEFARM_CHECK_OK((++count, absl::OkStatus()));
  EXPECT_EQ(count, 3);
}

}  // namespace
}  // namespace tunefarm
