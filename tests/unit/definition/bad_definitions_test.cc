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

}  // namespace
}  // namespace tunefarm
