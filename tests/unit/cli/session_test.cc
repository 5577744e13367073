// What is printed and written arrives, or the command says why it did not.
#include "client/cli/session.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "client/cli/app.h"
#include "server/base/file.h"
#include "server/base/status.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm::cli {
namespace {

using testing::HasSubstr;

// A command's exit code and messages, where its results go to a file.
struct SessionEnd {
  int code = -1;
  std::string messages;
};

SessionEnd RunInto(const std::string& path, const std::vector<std::string>& words) {
  char* text = nullptr;
  size_t size = 0;
  SessionEnd end;
  {
    Session session;
    session.out = std::fopen(path.c_str(), "w");
    session.err = open_memstream(&text, &size);
    EXPECT_NE(session.out, nullptr) << path;
    end.code = RunCommandLine(words, &session);
    std::fclose(session.out);
    std::fclose(session.err);
  }
  end.messages.assign(text, size);
  std::free(text);
  return end;
}

TEST(SessionTest, OutputThatCannotBeWrittenIsAnError) {
  // What is printed before a command is chosen, by one, and what is longer than a buffer.
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--version"}, {"--help"}, {}, {"help", "exit-codes"}, {"completion", "bash"}}) {
    const SessionEnd end = RunInto("/dev/full", words);
    EXPECT_EQ(end.code, kExitFailed);
    EXPECT_EQ(end.messages, "tunefarm: cannot write standard output: No space left on device\n");
  }
  const SessionEnd failed = RunInto("/dev/full", {"no-such-command"});
  EXPECT_EQ(failed.code, kExitUsage) << "nothing was to be printed";
}

// Before a daemon is asked, so that what it has or lacks does not matter: here none can be reached.
TEST(SessionTest, ExportsRefuseAFormBeforeAnythingElse) {
  const TemporaryDirectory directory;
  const std::string server = "unix:" + directory.File("no-such.sock");
  for (const std::vector<std::string>& verb : {std::vector<std::string>{"csv"},
                                               {"csv", "--benchmark"},
                                               {"csv", "--job", "7"},
                                               {"json"},
                                               {"markdown"},
                                               {"header"},
                                               {"bests"},
                                               {"aiter"},
                                               {"t4", "7"},
                                               {"package", "-"},
                                               {"snapshot", "-"}}) {
    std::vector<std::string> words = {"--server", server, "-o", "json", "export"};
    words.insert(words.end(), verb.begin(), verb.end());
    const SessionEnd end = RunInto(directory.File("out"), words);
    EXPECT_EQ(end.code, kExitUsage) << verb[0];
    EXPECT_EQ(end.messages, "tunefarm: --output json: what this command prints has one form; leave --output out\n")
        << verb[0];
  }
}

TEST(SessionTest, TheFirstErrorOfOutputIsKept) {
  Session session;
  session.out = std::fopen("/dev/full", "w");
  ASSERT_NE(session.out, nullptr);
  session.Print(std::string(1 << 20, 'x'));
  EXPECT_THAT(std::string(MessageOf(session.FlushOutput())), HasSubstr("No space left on device"));
  session.Print("more");
  EXPECT_FALSE(session.FlushOutput().ok());
  std::fclose(session.out);
}

TEST(SessionTest, ADashIsStandardOutput) {
  const TemporaryDirectory directory;
  Session session;
  session.out = std::fopen(directory.File("out").c_str(), "w");
  ASSERT_NE(session.out, nullptr);
  session.Print("first ");
  ASSERT_TRUE(session.WriteFile("-", "second").ok());
  EXPECT_EQ(*ReadFile(directory.File("out"), 100), "first second");
  ASSERT_TRUE(session.WriteFile(directory.File("file"), "third").ok());
  EXPECT_EQ(*ReadFile(directory.File("file"), 100), "third");
  std::fclose(session.out);
}

}  // namespace
}  // namespace tunefarm::cli
