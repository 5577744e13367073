#include <gtest/gtest.h>

#include "tests/golden/command_line.h"

namespace tunefarm::golden {
namespace {

const std::vector<std::vector<std::string>>& AllCommands() {
  static const auto& commands = *new std::vector<std::vector<std::string>>{{"tune"},
                                                                           {"submit"},
                                                                           {"run"},
                                                                           {"tune-moe"},
                                                                           {"jobs"},
                                                                           {"jobs", "list"},
                                                                           {"jobs", "show"},
                                                                           {"jobs", "watch"},
                                                                           {"jobs", "cancel"},
                                                                           {"jobs", "pause"},
                                                                           {"jobs", "resume"},
                                                                           {"jobs", "delete"},
                                                                           {"results"},
                                                                           {"best"},
                                                                           {"best", "list"},
                                                                           {"best", "pin"},
                                                                           {"best", "unpin"},
                                                                           {"best", "retire"},
                                                                           {"best", "note"},
                                                                           {"best", "history"},
                                                                           {"best", "watch"},
                                                                           {"misses"},
                                                                           {"kernels"},
                                                                           {"kernels", "list"},
                                                                           {"kernels", "show"},
                                                                           {"kernels", "check"},
                                                                           {"kernels", "space"},
                                                                           {"kernels", "new"},
                                                                           {"kernels", "delete"},
                                                                           {"devices"},
                                                                           {"db"},
                                                                           {"db", "status"},
                                                                           {"db", "backup"},
                                                                           {"db", "copy"},
                                                                           {"token"},
                                                                           {"token", "create"},
                                                                           {"token", "list"},
                                                                           {"token", "revoke"},
                                                                           {"certs"},
                                                                           {"certs", "init"},
                                                                           {"certs", "issue"},
                                                                           {"certs", "show"},
                                                                           {"import"},
                                                                           {"import", "t1"},
                                                                           {"export"},
                                                                           {"export", "t4"},
                                                                           {"export", "csv"},
                                                                           {"export", "json"},
                                                                           {"export", "markdown"},
                                                                           {"export", "header"},
                                                                           {"export", "bests"},
                                                                           {"export", "aiter"},
                                                                           {"export", "snapshot"},
                                                                           {"export", "package"},
                                                                           {"inspect"},
                                                                           {"simulate"},
                                                                           {"dashboard"},
                                                                           {"status"},
                                                                           {"stop"},
                                                                           {"doctor"},
                                                                           {"completion"},
                                                                           {"version"},
                                                                           {"help"}};
  return commands;
}

size_t Columns(const std::string& line) {
  size_t columns = 0;
  for (const char c : line) columns += (c & 0xC0) != 0x80 ? 1 : 0;
  return columns;
}

TEST(HelpTest, NoArguments) {
  CommandLine cli;
  EXPECT_EQ(cli.Record({}).out, cli.Run({"--help"}).out);
  EXPECT_EQ(cli.Run({"help"}).out, cli.Run({"--help"}).out);
  cli.Record({"help", "exit-codes"});
  cli.ExpectMatches("help");
}

TEST(HelpTest, EveryCommand) {
  CommandLine cli;
  for (std::vector<std::string> command : AllCommands()) {
    command.push_back("--help");
    cli.Record(command);
  }
  cli.ExpectMatches("help_of_commands");
}

TEST(HelpTest, EveryCommandHasAnExampleAndFitsTheScreen) {
  CommandLine cli;
  for (std::vector<std::string> command : AllCommands()) {
    std::vector<std::string> asked = {"help"};
    asked.insert(asked.end(), command.begin(), command.end());
    const Result help = cli.Run(asked);
    command.push_back("-h");
    EXPECT_EQ(help.out, cli.Run(command).out) << command[0];
    EXPECT_NE(help.out.find("Example"), std::string::npos) << help.out;
    size_t start = 0;
    while (start < help.out.size()) {
      const size_t end = help.out.find('\n', start);
      EXPECT_LE(Columns(help.out.substr(start, end - start)), 100u) << help.out.substr(start, end - start);
      start = end + 1;
    }
  }
}

TEST(HelpTest, UsageErrors) {
  CommandLine cli;
  cli.Record({"tuen"});
  cli.Record({"jobs", "lst"});
  cli.Record({"frobnicate"});
  cli.Record({"db"});
  cli.Record({"--quiet"});
  cli.Record({"tune"});
  cli.Record({"tune", "scale_host", "--max-trails", "3"});
  cli.Record({"tune", "scale_host", "--max-trials", "0"});
  cli.Record({"tune", "scale_host", "--seed", "soon"});
  cli.Record({"tune", "scale_host", "--dim", "N"});
  cli.Record({"tune", "scale_host", "--strategy-option", "depth"});
  cli.Record({"best", "scale_host", "N=4"});
  cli.Record({"--output", "yaml", "status"});
  cli.Record({"--output", "csv", "status"});
  cli.Record({"help", "tuen"});
  cli.Record({"help", "no", "such"});
  cli.ExpectMatches("usage_errors");
}

TEST(HelpTest, VersionAndCompletion) {
  CommandLine cli;
  cli.Record({"version"});
  cli.Record({"--version"});
  for (const char* shell : {"bash", "zsh", "fish"}) cli.Record({"completion", shell});
  cli.Record({"completion", "tcsh"});
  cli.ExpectMatches("version_and_completion");
}

}  // namespace
}  // namespace tunefarm::golden
