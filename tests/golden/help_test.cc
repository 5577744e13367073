#include <gtest/gtest.h>

#include <sstream>

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

// Fails for each line of stdout that is longer.
void ExpectFits(CommandLine* cli, const std::vector<std::string>& words, size_t columns) {
  const Result result = cli->Run(words, {.columns = columns});
  EXPECT_FALSE(result.out.empty()) << words[0] << ": " << result.err;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(Columns(line), columns) << words[0] << " " << words.back() << ": " << line;
  }
}

TEST(HelpTest, FitsNarrowTerminals) {
  CommandLine cli;
  for (const size_t columns : {80, 64}) {
    ExpectFits(&cli, {"--help"}, columns);
    for (std::vector<std::string> command : AllCommands()) {
      command.push_back("--help");
      ExpectFits(&cli, command, columns);
    }
    for (const char* topic : {"exit-codes", "expressions", "strategies"}) ExpectFits(&cli, {"help", topic}, columns);
  }
}

TEST(HelpTest, TablesFitNarrowTerminals) {
  CommandLine cli;
  const std::vector<std::vector<std::string>> tables = {
      {"best"},    {"best", "list", "annotated"}, {"best", "history"}, {"jobs"},
      {"devices"}, {"devices", "--known"},        {"kernels", "list"}, {"misses"},
  };
  for (const size_t columns : {80, 60}) {
    for (const std::vector<std::string>& table : tables) ExpectFits(&cli, table, columns);
  }
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
  cli.Record({"tune", "scale_host", "--python", "python3", "--python", "python3.12"});
  cli.Record({"status", "--output", "json", "--output", "csv"});
  cli.Record({"tune", "scale_host", "--max-trials", "0"});
  cli.Record({"tune", "scale_host", "--seed", "soon"});
  cli.Record({"tune", "scale_host", "--dim", "N"});
  cli.Record({"tune", "scale_host", "--strategy-option", "depth"});
  cli.Record({"best", "scale_host", "N=4"});
  cli.Record({"--output", "yaml", "status"});
  cli.Record({"--output", "csv", "status"});
  cli.Comment("A form that the command has not is refused, and not left out.");
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"export", "csv", "--kernel", "scale_host", "--output", "json"},
                                             {"help", "--output", "json"},
                                             {"completion", "bash", "--output", "json"},
                                             {"simulate", "17", "--output", "json"},
                                             {"dashboard", "--output", "csv"}}) {
    EXPECT_EQ(cli.Record(words).code, 2) << words[0];
  }
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
