#include "server/agent/report_spool.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/base/check.h"
#include "server/base/failpoint.h"
#include "server/base/file.h"
#include "server/base/random.h"
#include "server/base/status.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;

constexpr uint64_t kBytesMax = 1 << 20;

class ReportSpoolTest : public testing::Test {
 protected:
  std::unique_ptr<ReportSpool> Open(uint64_t bytes_max = kBytesMax) {
    auto spool = ReportSpool::Open(path_, bytes_max);
    TUNEFARM_CHECK_OK(spool);
    return *std::move(spool);
  }
  std::vector<std::string> Drain(ReportSpool* spool) {
    std::vector<std::string> all;
    while (!spool->empty()) {
      const auto front = spool->Front(2, kBytesMax);
      if (!front.ok()) break;
      for (const std::string& report : *front) all.push_back(report);
      EXPECT_TRUE(spool->Pop(front->size()).ok());
    }
    return all;
  }
  std::string Bytes() { return *ReadFile(path_, 1 << 22); }
  void Write(const std::string& bytes) { std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes; }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.File("reports.spool");
};

TEST_F(ReportSpoolTest, KeepsIdentityAndReportsOverARestart) {
  {
    auto spool = Open();
    EXPECT_TRUE(spool->empty());
    EXPECT_EQ(spool->identity(), "");
    ASSERT_TRUE(spool->SetIdentity("agent-1").ok());
    for (const char* report : {"one", "two", "three"}) ASSERT_TRUE(spool->Append(report).ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(spool->SetIdentity("agent-2")));
  }
  auto spool = Open();
  EXPECT_EQ(spool->identity(), "agent-1");
  EXPECT_THAT(Drain(spool.get()), ElementsAre("one", "two", "three"));
  EXPECT_TRUE(spool->SetIdentity("agent-2").ok());
  spool = nullptr;
  spool = Open();
  EXPECT_EQ(spool->identity(), "agent-2");
  EXPECT_TRUE(spool->empty());
}

TEST_F(ReportSpoolTest, WhatWasTakenInPartComesAgain) {
  auto spool = Open();
  for (const char* report : {"one", "two", "three"}) ASSERT_TRUE(spool->Append(report).ok());
  ASSERT_EQ(spool->Front(10, kBytesMax)->size(), 3);
  ASSERT_TRUE(spool->Pop(1).ok());
  EXPECT_EQ(spool->Front(1, kBytesMax)->at(0), "two");
  spool = nullptr;
  spool = Open();  // a process that dies before the last one is taken sends all again
  EXPECT_THAT(Drain(spool.get()), ElementsAre("one", "two", "three"));
}

TEST_F(ReportSpoolTest, AnswersAtMostSoManyBytesButAlwaysOne) {
  auto spool = Open();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(spool->Append(std::string(100, 'x')).ok());
  EXPECT_EQ(spool->Front(10, 10)->size(), 1);
  EXPECT_EQ(spool->Front(10, 250)->size(), 2);
}

// However the file is cut, everything before the cut is there, and it can be written to again.
TEST_F(ReportSpoolTest, ATornTailIsCut) {
  {
    auto spool = Open();
    ASSERT_TRUE(spool->SetIdentity("agent").ok());
    for (const char* report : {"one", "two", "three"}) ASSERT_TRUE(spool->Append(report).ok());
  }
  const std::string whole = Bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    Write(whole.substr(0, size));
    auto spool = Open();
    std::vector<std::string> got = Drain(spool.get());
    ASSERT_LE(got.size(), 2) << size;
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i == 0 ? "one" : "two");
    ASSERT_TRUE(spool->Append("again").ok()) << size;
    spool = nullptr;
    spool = Open();
    EXPECT_THAT(Drain(spool.get()), ElementsAre("again")) << size;
  }
}

TEST_F(ReportSpoolTest, DamageEndsTheFileThere) {
  {
    auto spool = Open();
    ASSERT_TRUE(spool->SetIdentity("agent").ok());
    for (const char* report : {"one", "two", "three"}) ASSERT_TRUE(spool->Append(report).ok());
  }
  const std::string whole = Bytes();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    Write(damaged);
    auto spool = Open();
    for (const std::string& report : Drain(spool.get())) {
      EXPECT_TRUE(report == "one" || report == "two" || report == "three") << at;
    }
  }
  // A file that is something else is not touched.
  Write("this is a letter to my mother, and no spool");
  auto spool = Open();
  EXPECT_TRUE(spool->empty());
  EXPECT_EQ(*ReadFile(path_ + ".damaged", 1000), "this is a letter to my mother, and no spool");
}

TEST_F(ReportSpoolTest, DamageUnderARunningAgentIsSaidOnce) {
  auto spool = Open();
  for (const char* report : {"one", "two"}) ASSERT_TRUE(spool->Append(report).ok());
  std::string bytes = Bytes();
  bytes[bytes.find("one")] = 'X';
  std::fstream(path_, std::ios::binary | std::ios::in | std::ios::out) << bytes;
  EXPECT_TRUE(absl::IsDataLoss(spool->Front(1, kBytesMax).status()));
  EXPECT_TRUE(spool->empty());
  ASSERT_TRUE(spool->Append("three").ok());
  EXPECT_THAT(Drain(spool.get()), ElementsAre("three"));
}

TEST_F(ReportSpoolTest, IsBounded) {
  auto spool = Open(500);
  int taken = 0;
  while (spool->Append(std::string(100, 'x')).ok()) ++taken;
  EXPECT_EQ(taken, 4);
  EXPECT_TRUE(absl::IsResourceExhausted(spool->Append(std::string(100, 'x'))));
  Drain(spool.get());
  EXPECT_TRUE(spool->Append(std::string(100, 'x')).ok());
}

TEST_F(ReportSpoolTest, AFailedWriteChangesNothing) {
  auto spool = Open();
  ASSERT_TRUE(spool->Append("one").ok());
  ASSERT_TRUE(ArmFailpoints("agent.spool.before=error").ok());
  EXPECT_TRUE(absl::IsUnavailable(spool->Append("two")));
  ASSERT_TRUE(ArmFailpoints("").ok());
  ASSERT_TRUE(spool->Append("three").ok());
  EXPECT_THAT(Drain(spool.get()), ElementsAre("one", "three"));
}

}  // namespace
}  // namespace tunefarm
