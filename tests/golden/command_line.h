// Runs command lines in this process against the fake daemon and compares everything they print with a file.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/session.h"
#include "tests/fakes/temporary_directory.h"
#include "tests/golden/fake_services.h"

namespace tunefarm::golden {

struct Result {
  int code = 0;
  std::string out;
  std::string err;
};

// How a run differs from one in a pipe.
struct Terminal {
  bool in = false;
  bool err = false;
  bool color = false;
  size_t columns = 0;         // 0: stdout is none
  std::string answer = "\n";  // what is typed on stdin
};

class CommandLine {
 public:
  CommandLine();

  // One command; `words` without the program's name. Goes to the fake daemon unless an environment variable or flag
  // says otherwise. The output is as printed, unmasked.
  Result Run(const std::vector<std::string>& words, const Terminal& terminal = {});
  // Run, and append "$ tunefarm ...", the masked output and the exit code to the transcript.
  Result Record(const std::vector<std::string>& words, const Terminal& terminal = {});
  // A line about what comes next in the transcript.
  void Comment(const std::string& text) { transcript_ += "# " + text + "\n"; }
  // Fails the test unless the transcript equals expected/NAME.txt. With TUNEFARM_UPDATE_GOLDEN=1 it is written instead.
  void ExpectMatches(const std::string& name) const;

  FakeDaemon* daemon() { return daemon_.get(); }
  const TemporaryDirectory& directory() const { return directory_; }
  std::map<std::string, std::string>* environment() { return &environment_; }

 private:
  std::string Masked(std::string text) const;

  TemporaryDirectory directory_;
  std::unique_ptr<FakeDaemon> daemon_;
  std::map<std::string, std::string> environment_;
  std::string transcript_;
};

// Fails the test unless the text is that of expected/NAME; TUNEFARM_UPDATE_GOLDEN as above.
void ExpectEqualsFile(const std::string& name, const std::string& text);

}  // namespace tunefarm::golden
