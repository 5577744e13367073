#include "server/access/rate_limit.h"

#include <gtest/gtest.h>

#include <string>

#include "server/base/status.h"
#include "tests/fakes/fake_clock.h"

namespace tunefarm {
namespace {

Principal Token(const std::string& name) { return {name, PrincipalKind::kToken, Rights().With(Right::kAdmin)}; }

TEST(RateLimitTest, ABucketHoldsItsRoomAndFillsAtItsRate) {
  FakeClock clock;
  TokenBucket bucket(2, 3, clock.Now());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bucket.Take(clock.Now()), Duration::zero());
  const Duration wait = bucket.Take(clock.Now());
  EXPECT_GE(wait, std::chrono::milliseconds(500));
  EXPECT_LE(wait, std::chrono::milliseconds(501));
  clock.Advance(wait);
  EXPECT_EQ(bucket.Take(clock.Now()), Duration::zero());
  EXPECT_NE(bucket.Take(clock.Now()), Duration::zero());
  // However long it is left alone, it holds no more than its room.
  clock.Advance(std::chrono::hours(1000));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(bucket.Take(clock.Now()), Duration::zero());
  EXPECT_NE(bucket.Take(clock.Now()), Duration::zero());
}

TEST(RateLimitTest, EachPrincipalHasItsOwnAndLookupsAreCountedApart) {
  FakeClock clock;
  RateLimits limits(1, 5, &clock);
  const Principal alice = Token("alice");
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(limits.Take(alice, CallRate::kCalls).ok());
  const absl::Status refused = limits.Take(alice, CallRate::kCalls);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused), "RATE_LIMIT");
  const int wait_ms = std::stoi(MetadataOf(refused).at("retry_after_ms"));
  EXPECT_GE(wait_ms, 1000);
  EXPECT_LE(wait_ms, 1002);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(limits.Take(alice, CallRate::kLookups).ok()) << i;
  EXPECT_FALSE(limits.Take(alice, CallRate::kLookups).ok());
  EXPECT_TRUE(limits.Take(alice, CallRate::kUnlimited).ok());
  EXPECT_TRUE(limits.Take(Token("bob"), CallRate::kCalls).ok());
  // A certificate of the same name is somebody else.
  EXPECT_TRUE(limits.Take({"alice", PrincipalKind::kCertificate, {}}, CallRate::kCalls).ok());
  clock.Advance(std::chrono::milliseconds(wait_ms));
  EXPECT_TRUE(limits.Take(alice, CallRate::kCalls).ok());
}

TEST(RateLimitTest, SocketsHaveNone) {
  FakeClock clock;
  RateLimits limits(1, 1, &clock);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(limits.Take(ClientSocket(), CallRate::kCalls).ok());
}

TEST(RateLimitTest, ZeroIsNoLimit) {
  FakeClock clock;
  RateLimits limits(0, 0, &clock);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(limits.Take(Token("a"), CallRate::kCalls).ok());
}

TEST(RateLimitTest, ItForgetsThoseWhoWereSilent) {
  FakeClock clock;
  RateLimits limits(1, 1, &clock);
  for (int i = 0; i < 50'000; ++i) EXPECT_TRUE(limits.Take(Token(std::to_string(i)), CallRate::kCalls).ok());
}

}  // namespace
}  // namespace tunefarm
