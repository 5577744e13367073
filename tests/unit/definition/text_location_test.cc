// Places in a text that is written in every way protobuf text may be written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kHead =
    "display_name: 'k' language: LANGUAGE_HOST_CXX unverified_reason: 'none'\n"
    "sources { path: 'k.cc' content: 'x' } launches { kernel { entry: 'f' } }\n";

std::string ErrorOf(const std::string& text) {
  const absl::Status status =
      LoadKernelText(text, "k.pbtxt", [](const std::string&) { return absl::StatusOr<std::string>("code"); }).status();
  EXPECT_FALSE(status.ok());
  return Message(status);
}

TEST(TextLocationTest, SyntaxErrorsAndTypingErrors) {
  EXPECT_THAT(ErrorOf("display_name: \"k\"\nlanguage LANGUAGE_CUDA\n"), StartsWith("k.pbtxt:2:10: Expected \":\""));
  EXPECT_EQ(ErrorOf("\n\n  paramters { }\n"),
            "k.pbtxt:3:3: Kernel has no field 'paramters' (did you mean 'parameters'?)");
  EXPECT_EQ(ErrorOf("language: LANGUAGE_CUDDA"),
            "k.pbtxt:1:11: field 'language' has no value 'LANGUAGE_CUDDA' (did you mean 'LANGUAGE_CUDA'?)");
  EXPECT_THAT(ErrorOf("dims {\n\t\tnmae: 'x' }"),
              StartsWith("k.pbtxt:2:3: Dim has no field 'nmae' (did you mean 'name'?)"));
}

TEST(TextLocationTest, AByteOrderMarkIsNoPartOfTheText) {
  EXPECT_EQ(ErrorOf("\xEF\xBB\xBFparamters { }"),
            "k.pbtxt:1:1: Kernel has no field 'paramters' (did you mean 'parameters'?)");
  EXPECT_TRUE(ParseKernelText("\xEF\xBB\xBF" + std::string(kHead), "k.pbtxt").ok());
}

TEST(TextLocationTest, ExpressionsInOnePiece) {
  EXPECT_THAT(ErrorOf(std::string(kHead) + "flops: \"1 + oops\"\n"),
              StartsWith("k.pbtxt:3:13: flops: expression error at column 5"));
}

TEST(TextLocationTest, ExpressionsInPiecesAndEscapes) {
  // Column 9 of the expression is the fourth byte of the second piece.
  EXPECT_THAT(ErrorOf(std::string(kHead) + "flops:  # work\n  \"1 + \\x32\"\n  ' + oops'\n"),
              StartsWith("k.pbtxt:5:7: flops: expression error at column 9"));
}

TEST(TextLocationTest, ElementsOfLists) {
  const std::string text = std::string(kHead) + "compile_options: ['-O2', # fine\n  '-O3',\n  '-I,]']\n";
  EXPECT_THAT(ErrorOf(text), StartsWith("k.pbtxt:5:3: compile_options[2]: compiler option '-I,]' is not allowed"));
  EXPECT_THAT(ErrorOf(std::string(kHead) + "compile_options: '-O2'\ncompile_options: ['-O3', '-o']\n"),
              StartsWith("k.pbtxt:4:26: compile_options[2]"));
  EXPECT_THAT(ErrorOf(std::string(kHead) + "constraints [{ expression: 'True' },\n  { expression: 'nope' }]\n"),
              StartsWith("k.pbtxt:4:18: constraints[1].expression"));
}

// A missing field is reported where its message begins.
TEST(TextLocationTest, MissingFields) {
  EXPECT_THAT(
      ErrorOf(std::string(kHead) + "parameters { name: 'A' values { ints: 1 } }\nparameters {\n  name: 'B' }\n"),
      StartsWith("k.pbtxt:4:1: parameters[1].values: a parameter needs values"));
  EXPECT_THAT(ErrorOf("language: LANGUAGE_CUDA"), StartsWith("k.pbtxt:1:1: display_name: a kernel needs a name"));
}

TEST(TextLocationTest, Sources) {
  int asked = 0;
  const auto load = [&](std::string_view text) {
    return Message(LoadKernelText(text, "k.pbtxt", [&](const std::string&) -> absl::StatusOr<std::string> {
                     ++asked;
                     return NotFound("no such file");
                   }).status());
  };
  EXPECT_THAT(load("sources { path: 'a.cc' }"),
              StartsWith("k.pbtxt:1:11: sources[0].path: the source 'a.cc' cannot be read: no such file\n"));
  EXPECT_EQ(asked, 1);
  for (const char* path : {"/etc/passwd", "../a.cc", "a/../b.cc", "a//b.cc", "./a.cc", "a/", "", "a\\\\b"}) {
    EXPECT_THAT(load("display_name: 'k' language: HOST\nsources { path: '" + std::string(path) + "' }"),
                StartsWith("k.pbtxt:2:11: sources[0].path: "))
        << path;
  }
  EXPECT_EQ(asked, 1) << "a path outside the definition's folder was read";
}

TEST(TextLocationTest, RefusesWhatCannotBeStored) {
  EXPECT_THAT(ErrorOf(std::string(kHead) + "description: \"\\xff\""),
              StartsWith("k.pbtxt:3:1: description: the text is not UTF-8"));
  EXPECT_THAT(ErrorOf(std::string((1 << 20) + 1, ' ')), HasSubstr("at most 1048576"));
}

TEST(TextLocationTest, FieldPathsForTheApi) {
  const auto plan = CompileText(SampleWith("tile <= 2048", "tile <= N_MAX"));
  EXPECT_EQ(FieldPathOf(plan.status()), "constraints[0].expression");
  EXPECT_EQ(ReasonOf(plan.status()), "UNKNOWN_NAME");
  EXPECT_EQ(FieldPathOf(absl::OkStatus()), "");
}

}  // namespace
}  // namespace tunefarm
