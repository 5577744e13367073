// Malformed definitions and what is said about them: each file under tests/data/definitions/bad says in its first line
// "# error REASON LINE:COLUMN: MESSAGE", the message being its first line.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "server/base/file.h"
#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

TEST(BadDefinitionsTest, AreRefusedAtTheRightPlace) {
  const char* source = std::getenv("TUNEFARM_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "TUNEFARM_SOURCE_DIR is not set";
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(source) / "tests/data/definitions/bad")) {
    if (entry.path().extension() == ".pbtxt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  EXPECT_GE(files.size(), 25U);
  for (const auto& file : files) {
    SCOPED_TRACE(file.filename().string());
    const auto text = ReadFile(file.string(), 1 << 20);
    ASSERT_TRUE(text.ok()) << Message(text.status());
    const absl::Status status =
        LoadKernelText(*text, "f", [](const std::string&) { return absl::StatusOr<std::string>("int x;"); }).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    const std::string message = Message(status);
    const std::string first_line = message.substr(0, message.find('\n'));
    const std::string expected = text->substr(0, text->find('\n'));
    EXPECT_EQ(fmt::format("# error {} {}", ReasonOf(status), first_line.substr(std::min<size_t>(2, first_line.size()))),
              expected);
  }
}

// The whole message of an error in an expression: the place in the file, the field, the column, and a caret.
TEST(BadDefinitionsTest, ExpressionErrorsShowACaret) {
  const absl::Status status = CompileText(SampleWith("tile <= 2048", "tile <= BLOC * 4")).status();
  EXPECT_EQ(Message(status),
            "constraints[0].expression: expression error at column 9: unknown name 'BLOC' (did you mean 'BLOCK'?)\n"
            "  tile <= BLOC * 4\n"
            "          ^");
}

// Errors come all at once, but for those that only follow from another: that of `tile`, whose own error is said, of
// `x`, and of M, behind which K is not looked for.
TEST(BadDefinitionsTest, AllErrorsAtOnce) {
  const std::string text = R"(display_name: "Kernel"
language: CUDA
sources { path: "k.cu" }
dims { name: "N" default_value: 64 }
dims { name: "M" default_value: "a" }
parameters { name: "BLOCK" values: [32, 64] default_value: 48 }
derived { name: "tile" expression: "BLOC * 2" }
constraints { expression: "tile <= N" }
constraints { expression: "M <= K" }
arguments { name: "x" buffer { data_type: F32 length: "N + L" access: IN } }
arguments { name: "y" buffer { data_type: F32 length: "M" access: OUT } }
launches { kernel { entry: "k" grid: 1 block: 32 arguments: ["x", "z"] } }
launches { memset { buffer: "x" } }
tolerance { atol: -1 }
)";
  const absl::Status status =
      LoadKernelText(text, "f", [](const std::string&) { return absl::StatusOr<std::string>("x"); }).status();
  std::vector<std::string> found;
  const std::string message = Message(status);
  for (size_t at = 0; at < message.size();) {
    const size_t end = std::min(message.find('\n', at), message.size());
    const std::string line = message.substr(at, end - at);
    if (line.rfind("f:", 0) == 0) found.push_back(line.substr(0, line.find(' ', line.find(' ') + 1)));
    at = end + 1;
  }
  const std::vector<std::string> expected = {
      "f:1:1: display_name:",
      "f:5:18: dims[1].default_value:",
      "f:6:45: parameters[0].default_value:",
      "f:7:37: derived[0].expression:",
      "f:10:60: arguments[0].buffer.length:",
      "f:12:67: launches[0].kernel.arguments[1]:",
      "f:1:1: reference:",
      "f:14:13: tolerance.atol:",
  };
  EXPECT_EQ(found, expected) << message;
  EXPECT_EQ(ReasonOf(status), "INVALID_FIELD");
}

TEST(BadDefinitionsTest, ManyErrorsAreCounted) {
  std::string text =
      "display_name: 'k' language: HOST unverified_reason: 'none' sources { path: 'k.cc' content: 'x' }\n"
      "launches { kernel { entry: 'f' } }\n";
  for (int i = 0; i < 25; ++i) text += fmt::format("constraints {{ expression: 'absent{}' }}\n", i);
  const std::string message =
      Message(LoadKernelText(text, "f", [](const std::string&) { return absl::StatusOr<std::string>("x"); }).status());
  EXPECT_NE(message.find("unknown name 'absent19'"), std::string::npos) << message;
  EXPECT_EQ(message.find("unknown name 'absent20'"), std::string::npos) << message;
  const std::string end = "\nand 5 more errors";
  ASSERT_GT(message.size(), end.size());
  EXPECT_EQ(message.substr(message.size() - end.size()), end);
}

}  // namespace
}  // namespace tunefarm
