#include "server/base/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "server/base/file.h"
#include "server/base/log_escape.h"
#include "server/base/log_file.h"
#include "server/base/status.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/log_capture.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm {
namespace {

// Restores the defaults, so that no test depends on another.
class LogTest : public testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(InitLogging({}).ok()); }
};

struct Counted {
  int* formatted;
};

}  // namespace
}  // namespace tunefarm

template <>
struct fmt::formatter<tunefarm::Counted> {
  constexpr auto parse(format_parse_context& context) -> decltype(context.begin()) { return context.begin(); }
  template <typename Context>
  auto format(const tunefarm::Counted& counted, Context& context) const -> decltype(context.out()) {
    ++*counted.formatted;
    return context.out();
  }
};

namespace tunefarm {
namespace {

TEST_F(LogTest, DefaultsToInfo) {
  EXPECT_FALSE(LogEnabled(LogLevel::kDebug, "exec"));
  EXPECT_TRUE(LogEnabled(LogLevel::kInfo, "exec"));
  LogCapture capture;
  LogDebug("exec", "hidden");
  LogInfo("exec", "job={} started", 7);
  LogWarn("store", "slow");
  LogError("rpc", "{}", NotFound("gone"));
  const std::vector<LogCapture::Line> lines = capture.lines();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].level, LogLevel::kInfo);
  EXPECT_EQ(lines[0].subsystem, "exec");
  EXPECT_EQ(lines[0].message, "job=7 started");
  EXPECT_EQ(lines[1].level, LogLevel::kWarn);
  EXPECT_EQ(lines[2].message, "NOT_FOUND: gone");
}

TEST_F(LogTest, LevelsBySubsystem) {
  ASSERT_TRUE(InitLogging({.level = LogLevel::kError, .subsystem_levels = "exec=debug,warn,store=off"}).ok());
  EXPECT_TRUE(LogEnabled(LogLevel::kDebug, "exec"));
  EXPECT_FALSE(LogEnabled(LogLevel::kError, "store"));
  EXPECT_FALSE(LogEnabled(LogLevel::kInfo, "rpc"));
  EXPECT_TRUE(LogEnabled(LogLevel::kWarn, "rpc"));
  ASSERT_TRUE(InitLogging({.subsystem_levels = "exec=debug,exec=error"}).ok());
  EXPECT_FALSE(LogEnabled(LogLevel::kWarn, "exec"));
}

TEST_F(LogTest, BadLevelsChangeNothing) {
  std::string many;
  for (int i = 0; i < 65; ++i) many += fmt::format("s{}=debug,", i);
  for (const std::string& bad : {std::string("exec=loud"), std::string("=debug"), std::string("exec="),
                                 std::string("exec"), std::string(",exec=debug"), many}) {
    EXPECT_EQ(InitLogging({.level = LogLevel::kDebug, .subsystem_levels = bad}).code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
    EXPECT_FALSE(LogEnabled(LogLevel::kDebug, "exec"));
  }
}

TEST_F(LogTest, FormatsOnceAndOnlyWhenEnabled) {
  LogCapture capture;
  int formatted = 0;
  LogDebug("exec", "{}", Counted{&formatted});
  EXPECT_EQ(formatted, 0);
  LogInfo("exec", "{}", Counted{&formatted});
  EXPECT_EQ(formatted, 1);
}

TEST_F(LogTest, LongMessagesAreCut) {
  LogCapture capture;
  LogInfo("exec", "{}", std::string(100000, 'x'));
  EXPECT_EQ(capture.lines()[0].message, std::string(16384, 'x') + " [cut]");
}

TEST_F(LogTest, TextLine) {
  testing::internal::CaptureStderr();
  LogWarn("exec", "worker said \"{}\"", "a\nb");
  const std::string line = testing::internal::GetCapturedStderr();
  const std::regex expected(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warn exec worker said "a\\nb")"
                            "\n");
  EXPECT_TRUE(std::regex_match(line, expected)) << line;
}

TEST_F(LogTest, JsonLine) {
  ASSERT_TRUE(InitLogging({.json_lines = true}).ok());
  testing::internal::CaptureStderr();
  LogError("exec", "said \"{}\" 100% %v", "a\nb");
  const std::string line = testing::internal::GetCapturedStderr();
  const std::regex expected(R"(\{"ts":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z","level":"error","subsystem":"exec",)"
                            R"("message":"said \\"a\\u000ab\\" 100% %v"\})"
                            "\n");
  EXPECT_TRUE(std::regex_match(line, expected)) << line;
}

TEST(LogEscapeTest, Text) {
  EXPECT_EQ(internal::EscapeForText("plain µ 漢 😀"), "plain µ 漢 😀");
  EXPECT_EQ(internal::EscapeForText("a\nb\tc\x1b[31m\x7f"), "a\\nb\\tc\\x1b[31m\\x7f");
  EXPECT_EQ(internal::EscapeForText("\xc2\x9b"), "\\xc2\\x9b");                    // A terminal's CSI.
  EXPECT_EQ(internal::EscapeForText("\xff\xc3"), "\\xff\\xc3");                    // Never UTF-8; cut short.
  EXPECT_EQ(internal::EscapeForText("\xc0\xaf"), "\\xc0\\xaf");                    // Overlong.
  EXPECT_EQ(internal::EscapeForText("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");           // Overlong.
  EXPECT_EQ(internal::EscapeForText("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // A surrogate.
  EXPECT_EQ(internal::EscapeForText("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // Above U+10FFFF.
}

TEST(LogEscapeTest, MarksOfDirectionAndSeparatorsOfLines) {
  EXPECT_EQ(internal::EscapeForText("a\xe2\x80\xae"
                                    "b"),
            "a\\xe2\\x80\\xae"
            "b");  // U+202E turns the text around.
  EXPECT_EQ(internal::EscapeForText("\xe2\x81\xa6|\xd8\x9c"), "\\xe2\\x81\\xa6|\\xd8\\x9c");  // U+2066, U+061C.
  EXPECT_EQ(internal::EscapeForText("\xe2\x80\xa8"), "\\xe2\\x80\\xa8");  // U+2028, a separator of lines.
  EXPECT_EQ(internal::EscapeForText("\xe2\x80\xa6"), "\xe2\x80\xa6");     // "…" is none of them.
  EXPECT_EQ(internal::EscapeForJson("\xe2\x80\xae"), "\\u202e");
}

TEST(LogEscapeTest, LinesStay) {
  EXPECT_EQ(internal::EscapeLinesForText("a\n\tb\r\x1b[2J\n"), "a\n\tb\\x0d\\x1b[2J\n");
}

TEST(LogEscapeTest, Json) {
  EXPECT_EQ(internal::EscapeForJson("µ \"quoted\" back\\slash"), "µ \\\"quoted\\\" back\\\\slash");
  EXPECT_EQ(internal::EscapeForJson("a\n\x01\xff"), "a\\u000a\\u0001\\ufffd");
}

TEST(LogLevelTest, NamesRoundTrip) {
  for (const LogLevel level : {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError, LogLevel::kOff}) {
    EXPECT_EQ(*ParseLogLevel(LogLevelName(level)), level);
  }
  EXPECT_FALSE(ParseLogLevel("INFO").ok());
}

TEST(LogRateLimitTest, CountsWhatItSkips) {
  FakeClock clock;
  LogRateLimit limit(&clock, std::chrono::seconds(10));
  uint64_t skipped = 99;
  EXPECT_TRUE(limit.Allow(&skipped));
  EXPECT_EQ(skipped, 0u);
  EXPECT_FALSE(limit.Allow(&skipped));
  clock.Advance(std::chrono::seconds(9));
  EXPECT_FALSE(limit.Allow(nullptr));
  clock.Advance(std::chrono::seconds(1));
  EXPECT_TRUE(limit.Allow(&skipped));
  EXPECT_EQ(skipped, 2u);
  clock.Advance(std::chrono::seconds(10));
  EXPECT_TRUE(limit.Allow(&skipped));
  EXPECT_EQ(skipped, 0u);
}

TEST_F(LogTest, FilesAreBoundedInSizeAndNumber) {
  const TemporaryDirectory directory;
  constexpr auto private_file = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  const std::string path = directory.File("d.log");
  ASSERT_TRUE(LogToFile(path, 1000, 3).ok());
  for (int i = 0; i < 200; ++i) LogInfo("base", "line {}", i);
  ASSERT_TRUE(LogToFile("", 0, 0).ok());
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    names.push_back(entry.path().filename());
    EXPECT_LE(entry.file_size(), 1000u);
    EXPECT_EQ(entry.status().permissions(), private_file) << entry.path();
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"d.1.log", "d.2.log", "d.log"}));
  const std::string last = ReadFile(path, 1 << 20).value();
  EXPECT_NE(last.find("info base line 199\n"), std::string::npos);
  // What is there already counts, and stays, closed to others.
  std::filesystem::permissions(path, private_file | std::filesystem::perms::others_read);
  ASSERT_TRUE(LogToFile(path, 1000, 3).ok());
  EXPECT_EQ(std::filesystem::status(path).permissions(), private_file);
  LogInfo("base", "after");
  ASSERT_TRUE(LogToFile("", 0, 0).ok());
  EXPECT_NE(ReadFile(path, 1 << 20)->find("after"), std::string::npos);
}

TEST_F(LogTest, AFileThatCannotBeOpenedIsRefused) {
  const TemporaryDirectory directory;
  const absl::Status status = LogToFile(directory.File("missing/d.log"), 1000, 3);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::string(MessageOf(status)).find("missing/d.log"), std::string::npos);
  EXPECT_TRUE(absl::IsInvalidArgument(LogToFile(directory.File("d.log"), 0, 3)));
  EXPECT_TRUE(absl::IsInvalidArgument(LogToFile(directory.File("d.log"), 1000, 0)));
}

}  // namespace
}  // namespace tunefarm
