#include <gtest/gtest.h>

#include "tests/golden/command_line.h"

namespace tunefarm::golden {
namespace {

TEST(BestsTest, List) {
  CommandLine cli;
  cli.Record({"best", "list", "annotated"});
  cli.Record({"best", "list", "annotated", "--output", "csv"});
  cli.Record({"best", "list", "annotated", "--limit", "1", "--output", "json"});
  cli.Record({"best", "list", "nothing"});
  cli.Comment("The answer for a problem says it too.");
  cli.Record({"best", "scale_host", "--device", "pinned"});
  // Without a kernel all of them.
  EXPECT_EQ(cli.Run({"best"}).out, cli.Run({"best", "list"}).out);
  EXPECT_EQ(cli.Run({"best", "--exact"}).code, 2);
  EXPECT_NE(cli.Run({"bests", "list"}).err.find("did you mean 'best'?"), std::string::npos);
  cli.ExpectMatches("bests_list");
}

TEST(BestsTest, Changes) {
  CommandLine cli;
  cli.Record({"best", "pin", "scale_host", "--dim", "N=1", "--reason", "in production", "--device", "pinned"});
  cli.Record({"best", "pin", "scale_host", "--from-revision", "11", "--output", "json", "--reason", "as before"});
  cli.Record({"best", "unpin", "scale_host", "--dim", "N=2", "--device", "pinned"});
  cli.Record({"best", "note", "scale_host", "slow below 600 W", "--device", "pinned"});
  cli.Record({"best", "note", "scale_host", ""});
  cli.Record({"best", "retire", "scale_host", "--device", "pinned", "--reason", "wrong for NaN"});
  cli.Comment("Only what is exactly of this problem and device is changed.");
  for (const char* verb : {"pin", "unpin", "retire"}) {
    EXPECT_EQ(cli.Record({"best", verb, "scale_host", "--dim", "N=4"}).code, 3);
  }
  EXPECT_EQ(cli.Record({"best", "pin", "scale_host", "--from-revision", "8"}).code, 3);
  EXPECT_EQ(cli.Record({"best", "pin", "scale_host", "--from-revision", "11", "--dim", "N=1"}).code, 2);
  EXPECT_EQ(cli.Record({"best", "retire"}).code, 2);
  EXPECT_EQ(cli.Record({"best", "retire", "scale_host", "--output", "csv"}).code, 2);
  cli.ExpectMatches("bests_changes");
}

TEST(BestsTest, History) {
  CommandLine cli;
  cli.Record({"best", "history", "scale_host"});
  cli.Record({"best", "history", "--limit", "2", "--output", "csv"});
  cli.Record({"best", "history", "scale_host", "--dim", "N=1", "--output", "json"});
  cli.Record({"best", "history", "nothing"});
  EXPECT_EQ(cli.Record({"best", "history", "--dim", "N=1"}).code, 2);
  cli.ExpectMatches("bests_history");
}

TEST(BestsTest, Watch) {
  CommandLine cli;
  cli.Comment("The stream breaks off and is resumed; the fake one ends with an error.");
  cli.Record({"best", "watch", "scale_host"});
  cli.Record({"best", "watch", "--output", "json"});
  cli.ExpectMatches("bests_watch");
}

TEST(BestsTest, Completion) {
  CommandLine cli;
  cli.Record({"__complete", "best", ""});
  cli.Record({"__complete", "best", "pin", "--"});
  cli.Record({"__complete", "best", "pin", "--device", ""});
  cli.Record({"__complete", "best", "retire", "sc"});
  cli.ExpectMatches("bests_completion");
}

}  // namespace
}  // namespace tunefarm::golden
