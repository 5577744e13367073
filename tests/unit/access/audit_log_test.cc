#include "server/access/audit_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "server/base/file.h"
#include "server/base/status.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/log_capture.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

class AuditLogTest : public testing::Test {
 protected:
  std::unique_ptr<AuditLog> Open(int64_t bytes_max = 1 << 20, int files_max = 3) {
    AuditOptions options;
    options.path = directory_.File("audit.log");
    options.bytes_max = bytes_max;
    options.files_max = files_max;
    options.clock = &clock_;
    auto log = AuditLog::Open(options);
    EXPECT_TRUE(log.ok()) << log.status().ToString();
    return *std::move(log);
  }
  static AuditEntry Entry(const absl::Status& outcome = absl::OkStatus(),
                          const std::string& peer = "ipv4:10.0.0.7:5000") {
    AuditEntry entry;
    entry.principal = "submit/bob";
    entry.kind = "certificate";
    entry.peer = peer;
    entry.call = "tunefarm.v1.TuningService/CreateJob";
    entry.resource = "jobs/12";
    entry.outcome = outcome;
    return entry;
  }
  static absl::Status Refusal() { return WithReason(PermissionDenied("no \"kernels\"\nfor you"), "RIGHT_MISSING"); }
  std::vector<nlohmann::json> Lines(const std::string& name = "audit.log") {
    const std::string text = ReadFile(directory_.File(name), 64 << 20).value();
    std::vector<nlohmann::json> lines;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      EXPECT_NE(end, std::string::npos);
      lines.push_back(nlohmann::json::parse(text.substr(begin, end - begin)));
      begin = end + 1;
    }
    return lines;
  }

  TemporaryDirectory directory_;
  FakeClock clock_;
};

TEST_F(AuditLogTest, ALineSaysWhoDidWhat) {
  auto log = Open();
  log->Record(Entry());
  log->Record(Entry(Refusal()));
  log.reset();
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["time"], "2026-01-01T00:00:00.000Z");
  EXPECT_EQ(lines[0]["principal"], "submit/bob");
  EXPECT_EQ(lines[0]["kind"], "certificate");
  EXPECT_EQ(lines[0]["peer"], "ipv4:10.0.0.7:5000");
  EXPECT_EQ(lines[0]["call"], "tunefarm.v1.TuningService/CreateJob");
  EXPECT_EQ(lines[0]["resource"], "jobs/12");
  EXPECT_EQ(lines[0]["outcome"], "OK");
  EXPECT_EQ(lines[0]["reason"], "");
  EXPECT_EQ(lines[1]["outcome"], "PERMISSION_DENIED");
  EXPECT_EQ(lines[1]["reason"], "RIGHT_MISSING");
  EXPECT_EQ(lines[1]["message"], "no \"kernels\"\nfor you");
  struct stat info = {};
  ASSERT_EQ(stat(directory_.File("audit.log").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(AuditLogTest, LinesAreBoundedWhateverIsInThem) {
  auto log = Open();
  AuditEntry entry = Entry(InvalidArgument("{}", std::string(1 << 20, '\x01')));
  entry.principal = std::string(1 << 20, '\xff');
  entry.resource = std::string(1 << 20, '"');
  entry.call = entry.peer = std::string(1 << 20, '\n');
  log->Record(entry);
  log.reset();
  EXPECT_LT(ReadFile(directory_.File("audit.log"), 1 << 20).value().size(), 10'000u);
  EXPECT_EQ(Lines().size(), 1u);
}

TEST_F(AuditLogTest, AFloodOfOnePeersRefusalsIsCountedAndOthersAreHeard) {
  auto log = Open();
  for (int i = 0; i < 1000; ++i) log->Record(Entry(Refusal(), "ipv4:10.0.0.7:" + std::to_string(i)));
  log->Record(Entry(Refusal(), "ipv4:10.0.0.8:1"));
  log->Record(Entry());  // a change is never left out
  clock_.Advance(std::chrono::seconds(1));
  log->Record(Entry(Refusal()));
  const AuditStats stats = log->stats();
  EXPECT_EQ(stats.refusals, 1002u);
  EXPECT_EQ(stats.left_out, 980u);
  log.reset();
  const auto lines = Lines();
  ASSERT_EQ(lines.size(), 23u);
  EXPECT_EQ(lines[20]["peer"], "ipv4:10.0.0.8:1");
  EXPECT_EQ(lines[22]["left_out"], 980);
}

TEST_F(AuditLogTest, FilesAreBoundedAndTheOldestGoes) {
  auto log = Open(/*bytes_max=*/1000, /*files_max=*/3);
  for (int i = 0; i < 100; ++i) {
    AuditEntry entry = Entry();
    entry.resource = std::to_string(i);
    log->Record(entry);
  }
  log.reset();
  int last = 100;
  for (const char* const name : {"audit.log", "audit.1.log", "audit.2.log"}) {
    struct stat info = {};
    ASSERT_EQ(stat(directory_.File(name).c_str(), &info), 0) << name;
    EXPECT_LE(info.st_size, 1000);
    const auto lines = Lines(name);
    EXPECT_EQ(lines.back()["resource"], std::to_string(last - 1));
    last -= static_cast<int>(lines.size());
  }
  struct stat info = {};
  EXPECT_NE(stat(directory_.File("audit.3.log").c_str(), &info), 0);
  // One that is opened again goes on.
  Open(1000, 3)->Record(Entry());
  EXPECT_EQ(Lines().back()["resource"], "jobs/12");
}

TEST_F(AuditLogTest, WhatCannotBeWrittenIsCountedSaidAndDoesNotStopTheRest) {
  LogCapture capture;
  auto log = Open();
  log->Record(Entry());
  log.reset();
  log = Open();
  // No file of this process may grow beyond what it is now.
  struct stat info = {};
  ASSERT_EQ(stat(directory_.File("audit.log").c_str(), &info), 0);
  signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit small = before;
  small.rlim_cur = static_cast<rlim_t>(info.st_size) + 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  log->Record(Entry());
  log.reset();  // written, or tried, by now
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(Lines().size(), 1u);  // nothing of half a line
  log = Open();
  log->Record(Entry());
  log.reset();
  EXPECT_EQ(Lines().size(), 2u);
}

TEST_F(AuditLogTest, AFolderThatIsNotThereIsSaid) {
  AuditOptions options;
  options.path = directory_.File("none/audit.log");
  options.clock = &clock_;
  const auto log = AuditLog::Open(options);
  EXPECT_EQ(log.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(MessageOf(log.status())), HasSubstr("audit.log"));
}

}  // namespace
}  // namespace tunefarm
