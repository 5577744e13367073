#include <gtest/gtest.h>

#include "server/base/check.h"
#include "server/base/file.h"
#include "tests/golden/command_line.h"

namespace tunefarm::golden {
namespace {

TEST(RecordingsTest, ListShowAndDelete) {
  CommandLine cli;
  cli.Comment("The table says how long ago instead.");
  cli.Record({"recordings", "list", "--output", "csv"});
  cli.Record({"recordings", "list", "--output", "json"});
  cli.Comment("There are more than are shown.");
  cli.Record({"recordings", "list", "--limit", "1", "--output", "csv"});
  cli.Record({"recordings", "show", "3"});
  cli.Record({"recordings", "show", "convolution_A100_T4", "--output", "json"});
  cli.Record({"recordings", "delete", "convolution_A100_T4"});
  EXPECT_EQ(cli.Record({"recordings", "show", "nothing"}).code, 3);
  EXPECT_EQ(cli.Record({"recordings", "show", "3", "--output", "csv"}).code, 2);
  cli.ExpectMatches("recordings");
}

TEST(RecordingsTest, Import) {
  CommandLine cli;
  const std::string file = cli.directory().File("results.json");
  TUNEFARM_CHECK_OK(WriteFileAtomically(file, "{}"));
  const Result stored = cli.Run({"import", "t4", file});
  EXPECT_EQ(stored.code, 0) << stored.err;
  EXPECT_EQ(stored.out, "recording 3: convolution_A100_T4, 4,362 configs, 161 failed, best 554 µs\n");
  EXPECT_NE(stored.err.find("Next: tunefarm simulate --recording convolution_A100_T4"), std::string::npos);
  const Result again = cli.Run({"import", "cache", file, "--name", "again"});
  EXPECT_NE(again.err.find("nothing was changed"), std::string::npos) << again.err;
  EXPECT_EQ(cli.Run({"import", "t4", cli.directory().File("nowhere.json")}).code, 3);
}

}  // namespace
}  // namespace tunefarm::golden
