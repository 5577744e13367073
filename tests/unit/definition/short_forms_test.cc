// The short forms of kernel.pbtxt. tests/data/definitions/short_forms has the cases, which the Python client must pass
// too: NAME.pbtxt says what NAME.long.pbtxt says, and bad_NAME.pbtxt begins with its errors, "# error PLACE: MESSAGE".
#include "server/definition/short_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "server/base/file.h"
#include "server/definition/assembled_text.h"
#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::filesystem::path> Files() {
  std::vector<std::filesystem::path> files;
  const char* source = std::getenv("TUNEFARM_SOURCE_DIR");
  if (source == nullptr) return files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(source) / "tests/data/definitions/short_forms")) {
    files.push_back(entry.path());
  }
  return files;
}

std::string TextOf(const std::filesystem::path& file) {
  const auto text = ReadFile(file.string(), 1 << 20);
  EXPECT_TRUE(text.ok()) << Message(text.status());
  return text.value_or("");
}

bool EndsWith(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

TEST(ShortFormsTest, AreTheLongOnes) {
  if (std::getenv("TUNEFARM_SOURCE_DIR") == nullptr) GTEST_SKIP() << "TUNEFARM_SOURCE_DIR is not set";
  constexpr std::string_view kLong = ".long.pbtxt";
  int pairs = 0;
  for (const std::filesystem::path& file : Files()) {
    const std::string name = file.filename().string();
    if (!EndsWith(name, kLong)) continue;
    SCOPED_TRACE(name);
    ++pairs;
    const auto longer = ParseKernelText(TextOf(file), "long");
    ASSERT_TRUE(longer.ok()) << Message(longer.status());
    const std::string short_name = name.substr(0, name.size() - kLong.size()) + ".pbtxt";
    const auto shorter = ParseKernelText(TextOf(file.parent_path() / short_name), "short");
    ASSERT_TRUE(shorter.ok()) << Message(shorter.status());
    EXPECT_EQ(shorter->DebugString(), longer->DebugString());
    EXPECT_TRUE(definition::ExpandShortForms(TextOf(file), v1::Kernel::descriptor()).changes.empty());
  }
  EXPECT_GE(pairs, 2);
}

TEST(ShortFormsTest, ErrorsComeAllAtOnceAndSayWhere) {
  if (std::getenv("TUNEFARM_SOURCE_DIR") == nullptr) GTEST_SKIP() << "TUNEFARM_SOURCE_DIR is not set";
  int files = 0;
  for (const std::filesystem::path& file : Files()) {
    if (file.filename().string().rfind("bad_", 0) != 0) continue;
    SCOPED_TRACE(file.filename().string());
    ++files;
    const std::string text = TextOf(file);
    std::string expected;
    constexpr std::string_view kMark = "# error ";
    for (size_t at = 0; text.compare(at, kMark.size(), kMark) == 0;) {
      const size_t end = text.find('\n', at);
      expected += (expected.empty() ? "f:" : "\nf:") + text.substr(at + kMark.size(), end - at - kMark.size());
      at = end + 1;
    }
    EXPECT_EQ(Message(ParseKernelText(text, "f").status()), expected);
  }
  EXPECT_GE(files, 1);
}

// What is printed is read back, and is short.
TEST(ShortFormsTest, Printed) {
  if (std::getenv("TUNEFARM_SOURCE_DIR") == nullptr) GTEST_SKIP() << "TUNEFARM_SOURCE_DIR is not set";
  const std::filesystem::path root = std::getenv("TUNEFARM_SOURCE_DIR");
  std::vector<std::filesystem::path> files;
  for (const char* folder : {"kernels", "tests/golden/kernels", "tests/data/definitions/short_forms"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() == ".pbtxt" && entry.path().filename().string().rfind("bad_", 0) != 0)
        files.push_back(entry.path());
    }
  }
  EXPECT_GE(files.size(), 10U);
  for (const std::filesystem::path& file : files) {
    SCOPED_TRACE(file.string());
    const definition::AssembledText assembled(TextOf(file), "f", [&file](const std::string& path) {
      return absl::StatusOr<std::string>(TextOf(file.parent_path() / path));
    });
    ASSERT_THAT(assembled.errors(), testing::IsEmpty());
    auto kernel = ParseKernelText(assembled.text(), "f");
    ASSERT_TRUE(kernel.ok()) << Message(kernel.status());
    for (v1::SourceFile& source : *kernel->mutable_sources()) source.clear_content();
    const std::string printed = KernelText(*kernel);
    const auto again = ParseKernelText(printed, "f");
    ASSERT_TRUE(again.ok()) << Message(again.status()) << "\n" << printed;
    EXPECT_EQ(again->DebugString(), kernel->DebugString()) << printed;
    for (const char* word : {"DATA_TYPE_", "ACCESS_", "LANGUAGE_", "int_value", "ints:"}) {
      EXPECT_THAT(printed, testing::Not(HasSubstr(word)));
    }
  }
}

TEST(ShortFormsTest, OffsetsLeadBack) {
  const std::string text = "dims { name: 'N' default_value: 2048 } language: cuda display_name: 'k'";
  const auto expanded = definition::ExpandShortForms(text, v1::Kernel::descriptor());
  EXPECT_EQ(expanded.text,
            "dims { name: 'N' default_value: { int_value: 2048 } } language: LANGUAGE_CUDA display_name: 'k'");
  for (const char* word : {"dims", "2048", "language:", "display_name", "'k'"}) {
    EXPECT_EQ(expanded.OriginalOffset(expanded.text.find(word)), text.find(word)) << word;
  }
  EXPECT_EQ(expanded.OriginalOffset(expanded.text.find("LANGUAGE") + 5), text.find("cuda"));
}

TEST(ShortFormsTest, SyntaxErrorsArePlacedInTheOriginal) {
  const auto error = [](const std::string& text) { return Message(ParseKernelText(text, "f").status()); };
  EXPECT_THAT(error("dims { name: 'N' default_value: 8 }\nlanguage = CUDA\n"), StartsWith("f:2:10: "));
  EXPECT_THAT(error("dims { name: 'N' default_value: 8 bind run }"), StartsWith("f:1:40: "));
  EXPECT_THAT(error("parameters { name: 'N' values: [1, 2,] }"), StartsWith("f:1:38: "));
  EXPECT_THAT(error("parameters { name: 'N' values: [1, 2"), StartsWith("f:1:"));
  EXPECT_THAT(error("data_type: \"F32\""), HasSubstr("Kernel has no field 'data_type'"));
}

// Errors of what the fields mean are placed in the original, too.
TEST(ShortFormsTest, FieldErrorsArePlacedInTheOriginal) {
  const auto error = [](const std::string& text) {
    return Message(LoadKernelText("display_name: 'k' language: HOST unverified_reason: 'none'\n"
                                  "sources { path: 'k.cc' content: 'x' } launches { kernel { entry: 'f' } }\n" +
                                      text,
                                  "f", [](const std::string&) { return absl::StatusOr<std::string>("code"); })
                       .status());
  };
  EXPECT_THAT(error("parameters { name: 'A' values: ['a', 'b c'] }"),
              StartsWith("f:3:38: parameters[0].values.strings[1]: 'b c' is not"));
  EXPECT_THAT(error("dims { name: 'M' values: [1, 2, 1] }"),
              StartsWith("f:3:33: dims[0].values[2]: 1 is listed twice"));
  EXPECT_THAT(error("dims { name: 'M' default_value: 0 } flops: \"1 + oops\""),
              StartsWith("f:3:18: dims[0].default_value: 0 is not between 1 and"));
  EXPECT_THAT(error("dims { name: 'M' default_value: 7 } flops: \"1 + oops\""), StartsWith("f:3:49: flops: "));
}

// A dim whose values are texts is one of texts.
TEST(ShortFormsTest, ValuesSayTheTypeOfADim) {
  const auto kernel = LoadKernelText(
      "display_name: 'k' language: HOST unverified_reason: 'none' sources { path: 'k.cc' content: 'x' }\n"
      "launches { kernel { entry: 'f' } } dims { name: 'dtype' values: ['f32', 'f16'] default_value: 'f16' }\n"
      "dims { name: 'N' values: [1, 2] default_value: 2 }",
      "f", [](const std::string&) { return absl::StatusOr<std::string>("code"); });
  ASSERT_TRUE(kernel.ok()) << Message(kernel.status());
  EXPECT_EQ(kernel->dims(0).type(), v1::VALUE_TYPE_STRING);
  EXPECT_EQ(kernel->dims(0).default_value().string_value(), "f16");
  EXPECT_EQ(kernel->dims(1).type(), v1::VALUE_TYPE_INT);
}

TEST(ShortFormsTest, AnyTextEnds) {
  const std::string whole =
      "display_name: 'k' language: cuda dims { name: \"N\" values: [1, -2, 0x3] # x\n } "
      "parameters [{ values: ['a' \"b\"] }, < nope: { a: [1, '}'] } >] flops: 2.5e-3 arguments { }";
  for (size_t end = 0; end <= whole.size(); ++end) {
    const auto expanded =
        definition::ExpandShortForms(std::string_view(whole).substr(0, end), v1::Kernel::descriptor());
    for (size_t offset = 0; offset <= expanded.text.size(); ++offset) {
      EXPECT_LE(expanded.OriginalOffset(offset), end);
    }
  }
}

}  // namespace
}  // namespace tunefarm
