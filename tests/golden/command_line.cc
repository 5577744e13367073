#include "tests/golden/command_line.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <regex>

#include "client/cli/app.h"
#include "server/base/check.h"
#include "server/base/file.h"
#include "server/version.h"
#include "tests/fakes/fake_clock.h"

namespace tunefarm::golden {
namespace {

std::string SourceDirectory() {
  const char* source = std::getenv("TUNEFARM_SOURCE_DIR");
  TUNEFARM_CHECK(source != nullptr);
  return source;
}

void ReplaceAll(const std::string& from, const std::string& to, std::string* text) {
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at + to.size())) {
    text->replace(at, from.size(), to);
  }
}

// A stream into a string.
class MemoryStream {
 public:
  MemoryStream() : file_(open_memstream(&data_, &size_)) { TUNEFARM_CHECK(file_ != nullptr); }
  ~MemoryStream() {
    std::fclose(file_);
    std::free(data_);
  }
  MemoryStream(const MemoryStream&) = delete;
  MemoryStream& operator=(const MemoryStream&) = delete;
  std::FILE* file() { return file_; }
  std::string Text() {
    std::fflush(file_);
    return std::string(data_, size_);
  }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
  std::FILE* file_;
};

std::string Section(const std::string& title, const std::string& text) {
  if (text.empty()) return "";
  return "--- " + title + "\n" + text + (text.back() == '\n' ? "" : "<no newline>\n");
}

}  // namespace

CommandLine::CommandLine() : daemon_(std::make_unique<FakeDaemon>(directory_.File("socket"))) {
  environment_["TUNEFARM_SERVER"] = daemon_->address();
  environment_["TUNEFARM_KERNELS"] = SourceDirectory() + "/tests/golden/kernels";
  environment_["TUNEFARM_DATA_DIR"] = directory_.File("data");
}

Result CommandLine::Run(const std::vector<std::string>& words, const Terminal& terminal) {
  MemoryStream out;
  MemoryStream err;
  std::string typed = terminal.answer;
  Result result;
  {
    cli::Session session;
    session.out = out.file();
    session.err = err.file();
    session.in = fmemopen(typed.data(), typed.size(), "r");
    session.in_is_terminal = terminal.in;
    session.err_is_terminal = terminal.err;
    session.use_color = terminal.color;
    session.columns = terminal.columns;
    FakeClock still;
    still.StepWallMs(1'700'000'000'000 - FakeClock::kStartWallMs);  // when the jobs of fake_data.cc start
    session.clock = &still;
    session.environment = [this](const char* name) -> std::optional<std::string> {
      const auto found = environment_.find(name);
      if (found == environment_.end()) return std::nullopt;
      return found->second;
    };
    result.code = cli::RunCommandLine(words, &session);
    std::fclose(session.in);
  }
  result.out = out.Text();
  result.err = err.Text();
  return result;
}

std::string CommandLine::Masked(std::string text) const {
  ReplaceAll(daemon_->address(), "<server>", &text);
  ReplaceAll(directory_.path(), "<tmp>", &text);
  ReplaceAll(SourceDirectory(), "<source>", &text);
  ReplaceAll(std::string(TUNEFARM_REVISION) + ", " + TUNEFARM_BUILD_TYPE, "<revision>, <build>", &text);
  ReplaceAll(TUNEFARM_REVISION, "<revision>", &text);
  ReplaceAll(TUNEFARM_VERSION, "<version>", &text);
  ReplaceAll("\x1b[", "<esc>[", &text);
  ReplaceAll("\r", "<cr>", &text);
  text = std::regex_replace(text, std::regex("Linux [^ \n]+"), "Linux <release>");
  text = std::regex_replace(text, std::regex("python3 [0-9.]+ reads"), "python3 <version> reads");
  text = std::regex_replace(text, std::regex("[0-9.,]+ [KMGT]?i?B free"), "<bytes> free");
  text = std::regex_replace(text, std::regex("\\b[12][0-9]{12}\\b"), "<ms>");
  return std::regex_replace(text, std::regex("\\b[0-9a-f]{64}\\b"), "<digest>");
}

Result CommandLine::Record(const std::vector<std::string>& words, const Terminal& terminal) {
  std::string line = "$ tunefarm";
  for (const std::string& word : words) {
    line += " " + (word.find_first_of(" '\"") == std::string::npos && !word.empty() ? word : "'" + word + "'");
  }
  const Result result = Run(words, terminal);
  transcript_ += Masked(line) + "\n" + Section("stdout", Masked(result.out)) + Section("stderr", Masked(result.err)) +
                 "--- exit " + std::to_string(result.code) + "\n\n";
  return result;
}

void CommandLine::ExpectMatches(const std::string& name) const { ExpectEqualsFile(name + ".txt", transcript_); }

void ExpectEqualsFile(const std::string& name, const std::string& text) {
  const std::string path = SourceDirectory() + "/tests/golden/expected/" + name;
  const char* update = std::getenv("TUNEFARM_UPDATE_GOLDEN");
  if (update != nullptr && std::string(update) == "1") {
    ASSERT_TRUE(WriteFileAtomically(path, text).ok()) << path;
    return;
  }
  const absl::StatusOr<std::string> expected = ReadFile(path, 1 << 20);
  ASSERT_TRUE(expected.ok()) << path << " is missing; run with TUNEFARM_UPDATE_GOLDEN=1 and read what it wrote";
  EXPECT_EQ(text, *expected) << "If this is meant, run with TUNEFARM_UPDATE_GOLDEN=1 and review the difference.";
}

}  // namespace tunefarm::golden
