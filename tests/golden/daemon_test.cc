#include <gtest/gtest.h>

#include "tests/golden/command_line.h"

namespace tunefarm::golden {
namespace {

TEST(DaemonTest, StatusAndDatabase) {
  CommandLine cli;
  cli.Record({"status"});
  cli.Record({"status", "--output", "json"});
  cli.Record({"db", "status"});
  cli.Record({"db", "backup", "before.db"});
  cli.Record({"stop"});
  cli.Record({"stop", "--now"});
  cli.ExpectMatches("daemon");
}

TEST(DaemonTest, Devices) {
  CommandLine cli;
  cli.Record({"devices"});
  cli.Record({"devices", "--output", "csv"});
  cli.Record({"devices", "--known"});
  cli.Record({"doctor"});
  cli.Record({"doctor"}, {.color = true});
  cli.ExpectMatches("devices");
}

TEST(DaemonTest, Unreachable) {
  CommandLine cli;
  (*cli.environment())["TUNEFARM_SERVER"] = "unix:" + cli.directory().File("nobody");
  EXPECT_EQ(cli.Record({"jobs", "list"}).code, 4);
  EXPECT_EQ(cli.Record({"doctor"}).code, 4);
  cli.Comment("The flag wins over the variable, before and after the verb.");
  EXPECT_EQ(cli.Record({"--server", cli.daemon()->address(), "db", "status"}).code, 0);
  EXPECT_EQ(cli.Record({"db", "status", "--server", cli.daemon()->address()}).code, 0);
  cli.Comment("Asking for the state of the private daemon does not start one.");
  cli.environment()->erase("TUNEFARM_SERVER");
  EXPECT_EQ(cli.Record({"status"}).code, 4);
  cli.ExpectMatches("unreachable");
}

}  // namespace
}  // namespace tunefarm::golden
