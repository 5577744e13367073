// What a definition includes. tests/data/definitions/includes has the cases, which the Python client must pass too:
// NAME.pbtxt says with its files what NAME.long.pbtxt says, bad_NAME.pbtxt begins with its errors ("*": any text),
// and malformed.txt has includes with the column of what is wrong.
#include "server/definition/assembled_text.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/base/file.h"
#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

namespace fs = std::filesystem;

using definition::AssembledText;
using testing::ElementsAre;

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr std::string_view kMalformed =
    "an include is written include: \"tiles.inc\", or include { file: \"tiles.inc\" words { name: \"ROWS\" value: "
    "\"M\" } "
    "}";
constexpr std::string_view kIncludedHere = " (included at folder/k.pbtxt:2:1)";

fs::path CasesFolder() {
  const char* const source = std::getenv("TUNEFARM_SOURCE_DIR");
  return source == nullptr ? fs::path() : fs::path(source) / "tests/data/definitions/includes";
}

std::string TextOfCase(const fs::path& file) {
  const auto text = ReadFile(file.string(), 1 << 20);
  EXPECT_TRUE(text.ok()) << Message(text.status());
  return text.value_or("");
}

absl::StatusOr<v1::Kernel> LoadCase(const fs::path& file) {
  return LoadKernelText(TextOfCase(file), file.filename().string(),
                        [](const std::string& path) { return ReadFileBelow(CasesFolder().string(), path, 1 << 20); });
}

using IncludedFiles = std::map<std::string, std::string>;

AssembledText::ReadIncluded Reader(const IncludedFiles& files) {
  return [&files](const std::string& path) -> absl::StatusOr<std::string> {
    const auto found = files.find(path);
    if (found == files.end()) return NotFound("no such file");
    return found->second;
  };
}

std::vector<std::string> ErrorsOf(const std::string& text, const IncludedFiles& files) {
  const AssembledText assembled(text, "folder/k.pbtxt", Reader(files));
  std::vector<std::string> errors;
  for (const absl::Status& status : assembled.errors()) {
    EXPECT_NE(ReasonOf(status), "") << Message(status);
    errors.push_back(Message(status));
  }
  return errors;
}

// What a definition that goes on with the text is told, "" where nothing is wrong. Sources and includes are files.
std::string CheckErrorOf(const std::string& text, const IncludedFiles& files) {
  const auto kernel = LoadKernelText(
      "display_name: 'k' language: HOST unverified_reason: 'none' launches { kernel { entry: 'f' } }\n" + text,
      "folder/k.pbtxt", Reader(files));
  return Message(kernel.status());
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TEST(AssembledTextTest, FilesStandInThePlacesOfTheirIncludes) {
  if (CasesFolder().empty()) GTEST_SKIP() << "TUNEFARM_SOURCE_DIR is not set";
  constexpr std::string_view kLong = ".long.pbtxt";
  int pairs = 0;
  for (const auto& entry : fs::directory_iterator(CasesFolder())) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(kLong)) continue;
    SCOPED_TRACE(name);
    ++pairs;
    const auto longer = LoadCase(entry.path());
    ASSERT_TRUE(longer.ok()) << Message(longer.status());
    const std::string stem = name.substr(0, name.size() - kLong.size());
    const auto shorter = LoadCase(CasesFolder() / (stem + ".pbtxt"));
    ASSERT_TRUE(shorter.ok()) << Message(shorter.status());
    EXPECT_EQ(shorter->DebugString(), longer->DebugString());
  }
  EXPECT_GE(pairs, 2);
}

TEST(AssembledTextTest, ErrorsSayWhichFileIsWrongAndWhereItIsIncluded) {
  if (CasesFolder().empty()) GTEST_SKIP() << "TUNEFARM_SOURCE_DIR is not set";
  int files = 0;
  for (const auto& entry : fs::directory_iterator(CasesFolder())) {
    if (entry.path().filename().string().rfind("bad_", 0) != 0) continue;
    SCOPED_TRACE(entry.path().filename().string());
    ++files;
    std::vector<std::string> expected;
    constexpr std::string_view kMark = "# error ";
    for (const std::string& line : Lines(TextOfCase(entry.path()))) {
      if (line.rfind(kMark, 0) == 0) expected.push_back(line.substr(kMark.size()));
    }
    const std::vector<std::string> errors = Lines(Message(LoadCase(entry.path()).status()));
    ASSERT_EQ(errors.size(), expected.size()) << testing::PrintToString(errors);
    for (size_t i = 0; i < errors.size(); ++i) {
      const size_t any = expected[i].find('*');
      EXPECT_THAT(errors[i], StartsWith(expected[i].substr(0, any)));
      EXPECT_THAT(errors[i], testing::EndsWith(any == std::string::npos ? expected[i] : expected[i].substr(any + 1)));
    }
  }
  EXPECT_GE(files, 8);
}

TEST(AssembledTextTest, MalformedIncludes) {
  if (CasesFolder().empty()) GTEST_SKIP() << "TUNEFARM_SOURCE_DIR is not set";
  const std::vector<std::string> lines = Lines(TextOfCase(CasesFolder() / "malformed.txt"));
  EXPECT_GE(lines.size(), 10U);
  for (const std::string& line : lines) {
    const std::string column = line.substr(0, line.find(": ")), text = line.substr(line.find(": ") + 2);
    EXPECT_THAT(ErrorsOf(text, {}), ElementsAre(fmt::format("folder/k.pbtxt:1:{}: {}", column, kMalformed)));
    EXPECT_THAT(ErrorsOf("\ninclude: 'a.inc'", {{"a.inc", "\xEF\xBB\xBF" + text}}),
                ElementsAre(fmt::format("folder/a.inc:1:{}: {}{}", column, kMalformed, kIncludedHere)));
  }
}

TEST(AssembledTextTest, Limits) {
  const auto chain = [](int length) {
    IncludedFiles files = {{fmt::format("{}.inc", length), "flops: 1"}};
    for (int i = 1; i < length; ++i) files[fmt::format("{}.inc", i)] = fmt::format("include: '{}.inc'", i + 1);
    return files;
  };
  EXPECT_THAT(ErrorsOf("include: '1.inc'", chain(8)), IsEmpty());
  EXPECT_THAT(ErrorsOf("include: '1.inc'", chain(9)),
              ElementsAre(StartsWith("folder/8.inc:1:1: includes are nested more than 8 deep (included at "
                                     "folder/7.inc:1:1, at folder/6.inc:1:1, ")));
  std::string many;
  for (int i = 0; i < 64; ++i) many += "include: 'a.inc'\n";
  EXPECT_THAT(ErrorsOf(many, {{"a.inc", ""}}), IsEmpty());
  EXPECT_THAT(ErrorsOf(many + "include: 'a.inc'", {{"a.inc", ""}}),
              ElementsAre("folder/k.pbtxt:65:1: a definition has more than 64 includes"));
  const std::string half((1 << 19) - 20, '#');
  EXPECT_THAT(ErrorsOf(half + "\ninclude: 'a.inc'\n", {{"a.inc", half}}), IsEmpty());
  const auto too_long = ElementsAre(
      "folder/k.pbtxt:2:1: the text of the definition and of all that it includes has more than 1048576 bytes");
  EXPECT_THAT(ErrorsOf(half + "\ninclude: 'a.inc'\n", {{"a.inc", half + std::string(40, '#')}}), too_long);
  std::string uses;
  for (int i = 0; i < 1050; ++i) uses += "$(W)";
  EXPECT_THAT(ErrorsOf("#\ninclude { file: 'a.inc' words { name: 'W' value: '" + std::string(1000, 'v') + "' } }",
                       {{"a.inc", uses}}),
              too_long);
}

TEST(AssembledTextTest, PlacesLeadBackFromEveryByte) {
  const IncludedFiles files = {{"a.inc", "# $(W)\ndims { name: 'ö$(W)' }\nbytes: $(W)"}};
  const AssembledText assembled(
      "dims { name: 'ä' }\ninclude { file: 'a.inc' words { name: 'W' value: 'long' } } # x\nflops: 2\n",
      "folder/k.pbtxt", Reader(files));
  ASSERT_THAT(assembled.errors(), IsEmpty());
  const std::string& text = assembled.text();
  const auto place = [&](size_t offset) { return Message(assembled.Place(InvalidArgument("m"), offset)); };
  const std::pair<const char*, std::string> places[] = {
      {"'ä'", "k.pbtxt:1:14: m"}, {"# $", "a.inc:1:1: m"},     {"'öl", "a.inc:2:14: m"},   {"long'", "a.inc:2:17: m"},
      {"ong'", "a.inc:2:17: m"},  {"' }\nb", "a.inc:2:21: m"}, {"# x", "k.pbtxt:2:61: m"}, {"flops", "k.pbtxt:3:1: m"}};
  for (const auto& [word, expected] : places) {
    ASSERT_NE(text.find(word), std::string::npos) << word;
    EXPECT_EQ(place(text.find(word)),
              fmt::format("folder/{}{}", expected, expected.front() == 'a' ? kIncludedHere : ""))
        << word;
  }
  EXPECT_EQ(Message(assembled.Place(InvalidArgument("one\n  two"), text.find("# $"))),
            fmt::format("folder/a.inc:1:1: one{}\n  two", kIncludedHere));
  EXPECT_EQ(place(text.size()), "folder/k.pbtxt:4:1: m");
  EXPECT_EQ(ReasonOf(assembled.Place(WithReason(InvalidArgument("m"), "A_REASON"), text.find("# $"))), "A_REASON");
}

TEST(AssembledTextTest, AnyTextEnds) {
  const std::string whole =
      "include { file: 'a.inc', words: { name: \"W\" value: 'v' # x\n } words <\ndims { name: '}' } include: 'a.inc'; "
      "flops: [1] include: \"a.inc";
  for (size_t end = 0; end <= whole.size(); ++end) {
    const IncludedFiles files = {{"a.inc", whole.substr(end)}};
    const AssembledText assembled(whole.substr(0, end), "folder/k.pbtxt", Reader(files));
    if (!assembled.errors().empty()) continue;
    for (size_t offset = 0; offset <= assembled.text().size(); ++offset) {
      EXPECT_THAT(Message(assembled.Place(InvalidArgument("m"), offset)), StartsWith("folder/"));
    }
  }
}

// What only the checks of a definition find, after the whole text is read.
TEST(AssembledTextTest, FailedChecksAndExpressionsArePlacedInTheIncludedFile) {
  EXPECT_EQ(CheckErrorOf("include { file: 'a.inc' words { name: 'W' value: 'oops' } } sources { path: 'k.cc' }",
                         {{"k.cc", "x"}, {"a.inc", "# flops\nflops: \"1 + \"\n  '2 + $(W)'"}}),
            fmt::format("folder/a.inc:3:8: flops: expression error at column 9: unknown name 'oops'{}\n"
                        "  1 + 2 + oops\n          ^",
                        kIncludedHere));
  EXPECT_EQ(CheckErrorOf("include: 'a.inc' sources { path: 'k.cc' }",
                         {{"k.cc", "x"}, {"a.inc", "parameters { name: 'A' values: ['a', 'b c'] }"}})
                .substr(0, 65),
            "folder/a.inc:1:38: parameters[0].values.strings[1]: 'b c' is not ");
  EXPECT_THAT(CheckErrorOf("include: 'a.inc'\nflops: 'x'", {{"a.inc", "sources { path: 'k.cc' }"}}),
              testing::AllOf(StartsWith(fmt::format("folder/a.inc:1:11: sources[0].path: the source 'k.cc' cannot be "
                                                    "read: no such file{}\n",
                                                    kIncludedHere)),
                             HasSubstr("\nfolder/k.pbtxt:3:9: flops: expression error at column 1")));
  EXPECT_EQ(CheckErrorOf("include: 'a.inc'", {{"a.inc", "sources { path: 'k.cc' }"}, {"k.cc", "x"}}), "");
}

TEST(AssembledTextTest, WhatADefinitionLacksIsSaidOfIt) {
  const auto kernel = LoadKernelText("include: 'a.inc'", "k.pbtxt",
                                     [](const std::string&) { return absl::StatusOr<std::string>("nothing: 1"); });
  EXPECT_EQ(Message(kernel.status()), "a.inc:1:1: Kernel has no field 'nothing' (included at k.pbtxt:1:1)");
  const auto nameless = LoadKernelText("include: 'a.inc'", "k.pbtxt",
                                       [](const std::string&) { return absl::StatusOr<std::string>("flops: '1'"); });
  EXPECT_THAT(Message(nameless.status()), StartsWith("k.pbtxt:1:1: display_name: a kernel needs a name"));
  EXPECT_THAT(Message(nameless.status()), testing::Not(HasSubstr("included")));
}

TEST(AssembledTextTest, WithoutAFolderAnIncludeIsAnError) {
  const auto kernel = ParseKernelText("display_name: 'k'\n include: 'tiles.inc'", "k.pbtxt");
  EXPECT_EQ(Message(kernel.status()),
            "k.pbtxt:2:2: write the text of 'tiles.inc' here: a definition includes files only where it is read from a "
            "folder");
  EXPECT_EQ(ReasonOf(kernel.status()), "NOT_SUPPORTED");
}

// Many wrong includes are not reported without end, and the rest of a file that is wrong is not looked at.
TEST(AssembledTextTest, ErrorsAreCounted) {
  std::string text;
  for (int i = 0; i < 30; ++i) text += "include: 'none.inc' ";
  EXPECT_EQ(ErrorsOf(text, {}).size(), 20U);
  EXPECT_EQ(ErrorsOf("include: 'a.inc' include: 'b.inc'",
                     {{"a.inc", "include $ include: 'none.inc'"}, {"b.inc", "include: 'none.inc'"}})
                .size(),
            2U);
}

}  // namespace
}  // namespace tunefarm
