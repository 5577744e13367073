#include "server/base/work_limit.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "server/base/status.h"
#include "server/base/thread.h"

namespace tunefarm {
namespace {

WorkLimit::Bounds Within(Duration processor_time) {
  WorkLimit::Bounds bounds;
  bounds.subject = "counting sheep";
  bounds.advice = "keep fewer";
  bounds.grant.processor_time = processor_time;
  return bounds;
}

// Works until it must not any more.
void UseUp(const WorkLimit& limit) {
  while (limit.GoOn()) continue;
}

TEST(WorkLimitTest, WithoutBoundsItGoesOn) {
  const WorkLimit limit(WorkLimit::Bounds{});
  EXPECT_TRUE(limit.GoOn());
  EXPECT_TRUE(limit.Why().ok());
}

TEST(WorkLimitTest, EndsWithItsProcessorTimeAndSaysWhatToDo) {
  WorkLimit limit(Within(std::chrono::milliseconds(1)));
  UseUp(limit);
  EXPECT_GT(limit.Spent(), std::chrono::milliseconds(1));
  const absl::Status why = limit.Why();
  EXPECT_TRUE(absl::IsResourceExhausted(why));
  EXPECT_EQ(ReasonOf(why), kWorkLimitReason);
  EXPECT_EQ(MessageOf(why), "counting sheep takes more than 1.00 ms of processor time; keep fewer");
  limit.Begin(Duration::max());
  EXPECT_TRUE(limit.GoOn());
}

TEST(WorkLimitTest, ACancelledLimitStaysCancelled) {
  WorkLimit limit(Within(Duration::max()));
  limit.Cancel();
  EXPECT_FALSE(limit.GoOn());
  limit.Begin(Duration::max());
  EXPECT_TRUE(absl::IsCancelled(limit.Why()));

  bool is_gone = false;
  WorkLimit::Bounds bounds;
  bounds.grant.is_cancelled = [&is_gone] { return is_gone; };
  const WorkLimit asked(std::move(bounds));
  EXPECT_TRUE(asked.GoOn());
  is_gone = true;
  EXPECT_TRUE(absl::IsCancelled(asked.Why()));
}

TEST(WorkLimitTest, APartEndsAloneOrWithTheWhole) {
  WorkLimit whole(Within(Duration::max()));
  const WorkLimit part(&whole, std::chrono::milliseconds(1)), other(&whole, Duration::max());
  UseUp(part);
  EXPECT_EQ(ReasonOf(part.Why()), kWorkLimitReason);
  EXPECT_TRUE(whole.GoOn());
  EXPECT_TRUE(other.GoOn());
  whole.Cancel();
  EXPECT_TRUE(absl::IsCancelled(other.Why()));
  EXPECT_TRUE(absl::IsCancelled(part.Why()));
}

TEST(WorkLimitTest, WhatIsGivenUpEarlyHasMoreTimeLeft) {
  WorkLimit limit(Within(std::chrono::hours(1)));
  const WorkLimit part(&limit, std::chrono::hours(2)), unbounded(&limit, Duration::max());
  EXPECT_LE(part.Left(), std::chrono::hours(1)) << "no more than the whole has";
  EXPECT_LE(unbounded.Left(), std::chrono::hours(1));
  limit.Begin(std::chrono::hours(1), std::chrono::milliseconds(1));
  UseUp(limit);
  EXPECT_EQ(ReasonOf(limit.Why()), kWorkLimitReason);
  EXPECT_GT(limit.Left(), std::chrono::minutes(59));
  limit.Begin(Duration::zero());
  UseUp(limit);
  EXPECT_EQ(limit.Left(), Duration::zero());
  EXPECT_EQ(WorkLimit(WorkLimit::Bounds{}).Left(), Duration::max());
}

TEST(WorkLimitTest, EachThreadHasTheTime) {
  WorkLimit limit(Within(std::chrono::milliseconds(50)));
  // What this thread has worked before counts for nobody else.
  while (limit.Spent() < std::chrono::milliseconds(40)) continue;
  bool goes_on = false;
  Thread thread("part", [&] { goes_on = limit.GoOn(); });
  thread.Join();
  EXPECT_TRUE(goes_on);
}

TEST(WorkPaceTest, AsksAfterSoMuchWork) {
  WorkPace unlimited(nullptr);
  EXPECT_TRUE(unlimited.Spend(UINT64_MAX));
  WorkLimit limit(Within(Duration::max()));
  limit.Cancel();
  WorkPace pace(&limit);
  EXPECT_TRUE(pace.Spend(1));
  int times = 0;
  while (pace.Spend(1000)) ++times;
  EXPECT_GT(times, 10);
  EXPECT_FALSE(pace.Spend(1)) << "work whose answer was not looked at";
  EXPECT_FALSE(WorkPace(&limit).Spend(UINT64_MAX));
}

TEST(MemoryBudgetTest, IsSharedAndGivenBack) {
  const auto whole = std::make_shared<MemoryBudget>(100);
  const auto part = std::make_shared<MemoryBudget>(80, whole);
  {
    MemoryUse one(part), two(whole);
    EXPECT_TRUE(one.AtLeast(50));
    EXPECT_TRUE(one.AtLeast(40)) << "it holds more already";
    EXPECT_EQ(one.bytes(), 50u);
    EXPECT_FALSE(one.AtLeast(81));
    EXPECT_TRUE(one.is_refused());
    EXPECT_TRUE(two.AtLeast(50));
    EXPECT_FALSE(one.AtLeast(60)) << "the whole is full";
    EXPECT_EQ(part->used(), 50u);
    EXPECT_EQ(whole->used(), 100u);
    two.AtMost(10);
    EXPECT_TRUE(one.AtLeast(60));
    EXPECT_EQ(whole->used(), 70u);
    EXPECT_FALSE(two.is_refused());
  }
  EXPECT_EQ(part->used(), 0u);
  EXPECT_EQ(whole->used(), 0u);
  MemoryUse unbounded(nullptr);
  EXPECT_TRUE(unbounded.AtLeast(UINT64_MAX));
}

}  // namespace
}  // namespace tunefarm
