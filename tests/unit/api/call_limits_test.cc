#include "server/api/call_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/base/status.h"
#include "server/base/thread.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

Principal Token(const std::string& name) { return {name, PrincipalKind::kToken, *ParseRoles("submit")}; }

CallLimitOptions Few() {
  CallLimitOptions options;
  options.calls_max = 3;
  options.calls_per_principal_max = 2;
  options.agent_calls_max = 2;
  options.streams_max = 3;
  options.streams_per_principal_max = 2;
  options.received_bytes_max = options.stream_bytes_max = 8 << 20;
  options.parsed_bytes_max = 4 << 20;
  return options;
}

TEST(CallLimitsTest, CallsAndStreamsAreBoundedForEachPrincipalAndInAll) {
  for (const CallKind kind : {CallKind::kCall, CallKind::kStream}) {
    CallLimits limits(Few());
    std::vector<CallLimits::Ticket> tickets;
    const auto begin = [&](const Principal& principal) {
      auto ticket = limits.Begin(principal, kind);
      if (ticket.ok()) tickets.push_back(*std::move(ticket));
      return ticket.status();
    };
    EXPECT_TRUE(begin(Token("a")).ok());
    EXPECT_TRUE(begin(Token("a")).ok());
    const absl::Status own = begin(Token("a"));
    EXPECT_EQ(own.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(ReasonOf(own), kind == CallKind::kCall ? "TOO_MANY_CALLS" : "TOO_MANY_WATCHERS");
    EXPECT_THAT(std::string(MessageOf(own)), HasSubstr("the token a has 2"));
    EXPECT_TRUE(begin(ClientSocket()).ok());
    EXPECT_EQ(ReasonOf(begin(ClientSocket())), ReasonOf(own)) << "all have three";
    EXPECT_EQ(kind == CallKind::kCall ? limits.calls() : limits.streams(), 3);
    // What was refused counts nowhere.
    tickets.clear();
    EXPECT_EQ(limits.calls() + limits.streams(), 0);
    EXPECT_TRUE(begin(ClientSocket()).ok());
    EXPECT_TRUE(begin(ClientSocket()).ok());
    EXPECT_FALSE(begin(ClientSocket()).ok());
    EXPECT_TRUE(begin(AdminSocket()).ok()) << "another socket is another principal";
  }
}

TEST(CallLimitsTest, AgentsAreCountedForThemselvesAndComeBack) {
  CallLimits limits(Few());
  const Principal agent{"agent/gpu7", PrincipalKind::kCertificate, *ParseRoles("agent")};
  auto first = limits.Begin(agent, CallKind::kAgentCall);
  auto second = limits.Begin(agent, CallKind::kAgentCall);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(limits.Begin(agent, CallKind::kAgentCall).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(limits.Begin(agent, CallKind::kCall).ok());
}

TEST(CallLimitsTest, RequestsOfOnePrincipalArriveAFewAtATime) {
  CallLimitOptions options;
  options.arriving_per_principal_max = 2;
  CallLimits limits(options);
  std::vector<CallLimits::Ticket> tickets;
  std::string begun;
  const auto begin = [&](const Principal& principal, CallKind kind, char name) {
    auto ticket = limits.Begin(principal, kind);
    ASSERT_TRUE(ticket.ok()) << ticket.status();
    tickets.push_back(*std::move(ticket));
    tickets.back().BeginRead([&begun, name] { begun += name; });
  };
  for (const char name : {'0', '1', '2', '3', '4'}) begin(Token("a"), CallKind::kCall, name);
  EXPECT_EQ(begun, "01");
  begin(Token("b"), CallKind::kStream, 'b');
  EXPECT_EQ(begun, "01b") << "another principal";
  tickets[1].EndRead();
  EXPECT_EQ(begun, "01b2") << "in their order";
  tickets[2].EndRead();
  tickets[0].EndRead();
  EXPECT_EQ(begun, "01b234");
  begin(Token("a"), CallKind::kCall, '5');
  tickets[3].EndRead();
  tickets[4].EndRead();
  EXPECT_EQ(begun, "01b2345");
  tickets[6].EndRead();
  for (const char name : {'6', '7', '8'}) begin(Token("a"), CallKind::kCall, name);
  EXPECT_EQ(begun, "01b234567") << "two, as before";
  // Who shares an identity with others does not wait for them.
  begun.clear();
  const Principal agent{"agent/gpu7", PrincipalKind::kCertificate, *ParseRoles("agent")};
  for (const char name : {'a', 'b', 'c'}) begin(agent, CallKind::kAgentCall, name);
  for (const char name : {'d', 'e', 'f'}) begin(ClientSocket(), CallKind::kCall, name);
  EXPECT_EQ(begun, "abcdef");
}

TEST(CallLimitsTest, MemoryIsBoundedForEachPrincipalAndInAll) {
  CallLimits limits(Few());
  const auto a = limits.Begin(Token("a"), CallKind::kCall);
  const auto b = limits.Begin(Token("b"), CallKind::kCall);
  ASSERT_TRUE(a.ok() && b.ok());
  {
    const auto held = a->HoldReceived(3 << 20);
    ASSERT_TRUE(held.ok());
    EXPECT_EQ(ReasonOf(a->HoldReceived(2 << 20).status()), "OVERLOADED") << "half of all is one principal's share";
    EXPECT_TRUE(a->HoldReceived(kUncountedBytes).ok());
    const auto other = b->HoldReceived(4 << 20);
    EXPECT_TRUE(other.ok());
    EXPECT_EQ(limits.held_bytes(), size_t{7} << 20);
    const auto parsed = limits.HoldParsed(3 << 20);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(ReasonOf(limits.HoldParsed(2 << 20).status()), "OVERLOADED");
    EXPECT_TRUE(limits.HoldParsed(kUncountedBytes).ok());
    EXPECT_FALSE(limits.HoldParsed(size_t{1} << 60).ok());
    const MemoryShare stream = a->HoldForStream(4 << 20);
    EXPECT_TRUE(stream.is_held());
    EXPECT_FALSE(a->HoldForStream(1).is_held());
    EXPECT_TRUE(b->HoldForStream(1).is_held());
  }
  EXPECT_EQ(limits.held_bytes(), 0u);
}

TEST(CallLimitsTest, AShareIsReturnedOnce) {
  CallMemory budget(100);
  MemoryShare share = MemoryShare::Take(&budget, nullptr, 60);
  EXPECT_TRUE(share.is_held());
  EXPECT_FALSE(MemoryShare::Take(&budget, nullptr, 60).is_held());
  MemoryShare other = std::move(share);
  share.Reset();
  EXPECT_EQ(budget.used(), 60u);
  other = MemoryShare::Take(&budget, nullptr, 10);
  EXPECT_EQ(budget.used(), 10u);
  // Where the second has none, the first keeps nothing.
  CallMemory small(5);
  EXPECT_FALSE(MemoryShare::Take(&budget, &small, 10).is_held());
  EXPECT_EQ(budget.used(), 10u);
}

TEST(CallLimitsTest, ManyThreadsNeverGetMore) {
  CallLimits limits(Few());
  std::atomic<int> inside{0};
  std::vector<Thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back("caller", [&, i] {
      for (int k = 0; k < 2000; ++k) {
        const auto ticket = limits.Begin(Token(std::to_string((i + k) % 3)), CallKind::kCall);
        if (!ticket.ok()) continue;
        EXPECT_LE(inside.fetch_add(1) + 1, 3);
        inside.fetch_sub(1);
      }
    });
  }
  for (Thread& thread : threads) thread.Join();
  EXPECT_EQ(limits.calls(), 0);
}

}  // namespace
}  // namespace tunefarm
