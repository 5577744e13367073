#include <gtest/gtest.h>

#include "tests/golden/command_line.h"

namespace tunefarm::golden {
namespace {

TEST(BestsTest, List) {
  CommandLine cli;
  cli.Record({"bests", "list", "annotated"});
  cli.Record({"bests", "list", "annotated", "--output", "csv"});
  cli.Record({"bests", "list", "annotated", "--limit", "1", "--output", "json"});
  cli.Record({"bests", "list", "nothing"});
  cli.Comment("best says it too.");
  cli.Record({"best", "scale_host", "--device", "pinned"});
  cli.ExpectMatches("bests_list");
}

TEST(BestsTest, Changes) {
  CommandLine cli;
  cli.Record({"bests", "pin", "scale_host", "--dim", "N=1", "--reason", "in production", "--device", "pinned"});
  cli.Record({"bests", "pin", "scale_host", "--from-revision", "11", "--output", "json", "--reason", "as before"});
  cli.Record({"bests", "unpin", "scale_host", "--dim", "N=2", "--device", "pinned"});
  cli.Record({"bests", "note", "scale_host", "slow below 600 W", "--device", "pinned"});
  cli.Record({"bests", "note", "scale_host", ""});
  cli.Record({"bests", "retire", "scale_host", "--device", "pinned", "--reason", "wrong for NaN"});
  cli.Comment("Only what is exactly of this problem and device is changed.");
  for (const char* verb : {"pin", "unpin", "retire"}) {
    EXPECT_EQ(cli.Record({"bests", verb, "scale_host", "--dim", "N=4"}).code, 3);
  }
  EXPECT_EQ(cli.Record({"bests", "pin", "scale_host", "--from-revision", "8"}).code, 3);
  EXPECT_EQ(cli.Record({"bests", "pin", "scale_host", "--from-revision", "11", "--dim", "N=1"}).code, 2);
  EXPECT_EQ(cli.Record({"bests", "retire"}).code, 2);
  EXPECT_EQ(cli.Record({"bests", "retire", "scale_host", "--output", "csv"}).code, 2);
  cli.ExpectMatches("bests_changes");
}

TEST(BestsTest, History) {
  CommandLine cli;
  cli.Record({"bests", "history", "scale_host"});
  cli.Record({"bests", "history", "--limit", "2", "--output", "csv"});
  cli.Record({"bests", "history", "scale_host", "--dim", "N=1", "--output", "json"});
  cli.Record({"bests", "history", "nothing"});
  EXPECT_EQ(cli.Record({"bests", "history", "--dim", "N=1"}).code, 2);
  cli.ExpectMatches("bests_history");
}

TEST(BestsTest, Watch) {
  CommandLine cli;
  cli.Comment("The stream breaks off and is resumed; the fake one ends with an error.");
  cli.Record({"bests", "watch", "scale_host"});
  cli.Record({"bests", "watch", "--output", "json"});
  cli.ExpectMatches("bests_watch");
}

TEST(BestsTest, Completion) {
  CommandLine cli;
  cli.Record({"__complete", "bests", ""});
  cli.Record({"__complete", "bests", "pin", "--"});
  cli.Record({"__complete", "bests", "pin", "--device", ""});
  cli.Record({"__complete", "bests", "retire", "sc"});
  cli.ExpectMatches("bests_completion");
}

}  // namespace
}  // namespace tunefarm::golden
