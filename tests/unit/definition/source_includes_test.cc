#include "server/definition/source_includes.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

v1::Kernel KernelOf(const std::vector<std::pair<std::string, std::string>>& sources) {
  v1::Kernel kernel;
  for (const auto& [path, content] : sources) {
    v1::SourceFile* const source = kernel.add_sources();
    source->set_path(path);
    source->set_content(content);
  }
  return kernel;
}

// "<a>" or "\"b\"", with '+' before those that are leading.
std::vector<std::string> NamesIn(const std::string& source) {
  std::vector<std::string> names;
  for (const IncludedName& included : FindIncludedNames(source)) {
    EXPECT_EQ(source.substr(included.begin, included.name.size()), included.name);
    const std::string name = included.is_quoted ? '"' + included.name + '"' : '<' + included.name + '>';
    names.push_back((included.is_leading ? "+" : "") + name);
  }
  return names;
}

// Of files by their paths; the first is the source.
IncludedHeaders IncludedBy(const std::vector<std::pair<std::string, std::string>>& files) {
  return FindIncludedHeaders(files[0].first, files[0].second,
                             [&files](const std::string& path) -> std::optional<std::string> {
                               for (const auto& [name, content] : files) {
                                 if (name == path) return content;
                               }
                               return std::nullopt;
                             });
}

TEST(SourceIncludesTest, FindsHeadersThatAreIncludedWithQuotes) {
  const IncludedHeaders found = IncludedBy({{"k.cu",
                                             "#include <vector>\n#include \"a.h\"\n#include \"sub/b.h\"\n"
                                             "#include \"cuda_fp16.h\"\n#include \"k.cu\"\n#include \"/etc/x.h\"\n"
                                             "#if __has_include(\"optional.h\")\n#endif\n"},
                                            {"a.h", "#include \"sub/../a.h\"\n#include \"../up.h\"\n"},
                                            {"sub/b.h", "#include \"c.h\"\n#include \"a.h\"\n#include \"../d.h\"\n"},
                                            {"sub/c.h", "x"},
                                            {"d.h", "x"},
                                            {"../up.h", "x"},
                                            {"vector", "x"},
                                            {"unused.h", "x"}});
  EXPECT_THAT(found.paths, ElementsAre("a.h", "sub/b.h", "sub/c.h", "d.h"));
  EXPECT_THAT(found.elsewhere, ElementsAre("cuda_fp16.h", "../up.h"));
  EXPECT_FALSE(found.is_cut);
}

TEST(SourceIncludesTest, FindsNoMoreHeadersThanADefinitionTakes) {
  std::vector<std::pair<std::string, std::string>> files = {{"k.cu", ""}};
  for (int i = 0; i < 63; ++i) {
    files.emplace_back(fmt::format("{}.h", i), "x");
    files[0].second += fmt::format("#include \"{}.h\"\n", i);
  }
  EXPECT_THAT(IncludedBy(files).paths, testing::SizeIs(63));
  EXPECT_FALSE(IncludedBy(files).is_cut);
  files[0].second += "#include \"more.h\"\n";
  files.emplace_back("more.h", "x");
  EXPECT_THAT(IncludedBy(files).paths, testing::SizeIs(63));
  EXPECT_TRUE(IncludedBy(files).is_cut);

  const std::string large(5 << 20, 'x');
  const IncludedHeaders cut =
      IncludedBy({{"k.cu", "#include \"a.h\"\n#include \"b.h\"\n"}, {"a.h", large}, {"b.h", large}});
  EXPECT_THAT(cut.paths, ElementsAre("a.h"));
  EXPECT_TRUE(cut.is_cut);
}

TEST(SourceIncludesTest, FindsDirectivesAndTests) {
  EXPECT_THAT(NamesIn("#include <a>\n # \tinclude\"b\"\r\n/* x */ #include <c> // <d>\n"),
              ElementsAre("+<a>", "+\"b\"", "+<c>"));
  EXPECT_THAT(NamesIn("#if __has_include(\"a.h\") && __has_include ( <b> )\n#include \"a.h\"\n#endif"),
              ElementsAre("\"a.h\"", "<b>", "\"a.h\""));
  EXPECT_THAT(NamesIn("#include NAME\n#include <a\n#include <b>"), ElementsAre("<b>"));
  EXPECT_THAT(NamesIn(""), ElementsAre());
}

TEST(SourceIncludesTest, SkipsCommentsAndLiterals) {
  EXPECT_THAT(NamesIn("// #include <a>\n/*\n#include <b>\n*/\n#include <c>"), ElementsAre("+<c>"));
  EXPECT_THAT(NamesIn("const char* s = R\"x(\n#include <a>\n)\" )x\";\n#include <b>"), ElementsAre("<b>"));
  EXPECT_THAT(NamesIn("char c = '\"'; int i = 1'000'000;\n#include <a>\nauto s = \"/*\";\n#include <b>"),
              ElementsAre("<a>", "<b>"));
  EXPECT_THAT(NamesIn("#if 0\nit's text\n#endif\n#error don't \" do\n#include <a>"), ElementsAre("<a>"));
  EXPECT_THAT(NamesIn("const char* s = R\"(never closed\n#include <a>"), ElementsAre());
}

TEST(SourceIncludesTest, LeadingEndsWithTheFirstOtherLine) {
  EXPECT_THAT(NamesIn("#pragma once\n#include <a>\n#define X\n#include <b>"), ElementsAre("+<a>", "<b>"));
  EXPECT_THAT(NamesIn("#ifndef A_H\n#define A_H\n#include <a>\n#endif"), ElementsAre("+<a>"));
  EXPECT_THAT(NamesIn("#ifndef A\n#include <a>\n#endif"), ElementsAre("<a>"));
  EXPECT_THAT(NamesIn("#ifndef A\n#define B\n#include <a>\n#endif"), ElementsAre("<a>"));
  EXPECT_THAT(NamesIn("#pragma GCC optimize(\"O3\")\n#include <a>"), ElementsAre("<a>"));
}

TEST(SourceIncludesTest, AQuotedNameIsFirstThatOfAFileBesideTheIncluder) {
  const v1::Kernel kernel = KernelOf({{"sub/main.cu", "x"}, {"sub/a.h", "x"}, {"a.h", "x"}, {"sub/deep/b.h", "x"}});
  const auto find = [&kernel](const char* includer, const char* name, bool is_quoted) {
    const v1::SourceFile* const found = FindIncludedSource(kernel, includer, name, is_quoted);
    return found == nullptr ? std::string("none") : found->path();
  };
  EXPECT_EQ(find("sub/main.cu", "a.h", true), "sub/a.h");
  EXPECT_EQ(find("sub/main.cu", "./a.h", true), "sub/a.h");
  EXPECT_EQ(find("sub/main.cu", "deep/../a.h", true), "sub/a.h");
  EXPECT_EQ(find("sub/deep/b.h", "../a.h", true), "sub/a.h");
  EXPECT_EQ(find("sub/deep/b.h", "a.h", true), "a.h");
  EXPECT_EQ(find("sub/main.cu", "a.h", false), "a.h");
  EXPECT_EQ(find("sub/main.cu", "../../a.h", true), "none");
  EXPECT_EQ(find("sub/main.cu", "/a.h", true), "none");
  EXPECT_EQ(find("sub/main.cu", "vector", false), "none");
}

TEST(SourceIncludesTest, FullPathsKeepTheLines) {
  const v1::Kernel kernel = KernelOf({{"d/main.cu",
                                       "#include \"./a.h\"\n#if __has_include(\"b.h\")\n#include <a.h>\n#endif\n"
                                       "const char* s = \"a.h\";\n"},
                                      {"d/a.h", "x"},
                                      {"b.h", "x"}});
  EXPECT_EQ(WithFullIncludePaths(kernel, kernel.sources(0)),
            "#include \"d/a.h\"\n#if __has_include(\"b.h\")\n#include <a.h>\n#endif\nconst char* s = \"a.h\";\n");
  EXPECT_EQ(WithFullIncludePaths(kernel, kernel.sources(1)), "x");
}

TEST(SourceIncludesTest, FullPathsOfTextsOfMacrosThatAreIncluded) {
  const v1::Kernel kernel =
      KernelOf({{"src/k.cu",
                 "#if A\n#define HDR \"inc/y.h\"  // one\n#else\n#define HDR \"inc/z.h\"\n#endif\n"
                 "#define OTHER \"inc/y.h\"\n#include HDR\n#include ANGLED\n"},
                {"src/inc/y.h", "#define HDR2 \"y.h\"\n"},
                {"src/inc/z.h", "#include HDR2\n"}});
  EXPECT_EQ(WithFullIncludePaths(kernel, kernel.sources(0)),
            "#if A\n#define HDR \"src/inc/y.h\"  // one\n#else\n#define HDR \"src/inc/z.h\"\n#endif\n"
            "#define OTHER \"inc/y.h\"\n#include HDR\n#include ANGLED\n");
  // What includes the macro says where its text is looked for.
  EXPECT_EQ(WithFullIncludePaths(kernel, kernel.sources(1)), "#define HDR2 \"src/inc/y.h\"\n");
}

TEST(SourceIncludesTest, ConstantsThatBreakLibraryHeadersAreNamed) {
  const v1::Kernel kernel =
      KernelOf({{"k.cc", "#include <map>\n#define X\n#include <vector>\n#include \"a.h\"\n"}, {"a.h", ""}});
  const std::vector<std::pair<std::string, std::string>> constants = {{"size", "4"}, {"T", "float"}, {"unused", "1"}};
  const std::string gcc =
      "./k.cc:1: warning: size\nIn file included from <command-line>:\n"
      "./../tunefarm_config.h:2:14: error: expected unqualified-id before numeric constant\n    2 | #define size 4\n"
      "      |              ^\n./../tunefarm_config.h:3:9: error: expected T\n";
  EXPECT_EQ(HintOfConstantsInLibraries(kernel, constants, gcc),
            " The constants of a config are macros (size), also in library headers that a source includes behind other "
            "lines than includes (<vector> in k.cc): move these includes to the first lines of k.cc, or rename the "
            "parameter.");
  EXPECT_THAT(
      HintOfConstantsInLibraries(kernel, constants, "/cuda/vector(7): error: expected a name\n  T size_of(size s);\n"),
      HasSubstr("(size, T)"));
  for (const char* log : {"", "all is well", "/usr/x.h:1:1: error: sizes of Tables\n",
                          "./k.cc:9:1: error: size is no function\n", "k.cc(9): error: size is no function\n",
                          "./../tunefarm_config.h:2:14: error: expected\n    2 | #define size 4\n"
                          "./a.h:3:5: note: in expansion of macro 'size'\n"}) {
    EXPECT_EQ(HintOfConstantsInLibraries(kernel, constants, log), "") << log;
  }
  EXPECT_EQ(HintOfConstantsInLibraries(KernelOf({{"k.cc", "#include <vector>\nint i;\n"}}), constants, gcc), "")
      << "every library header is read before the constants";
}

TEST(SourceIncludesTest, TheConfigHeaderBeginsWithLibraryHeaders) {
  const v1::Kernel kernel = KernelOf({{"k.cc",
                                       "#include <Eigen/Dense>\n#include \"a.h\"\n#include <list>\n#include <x.h>\n"
                                       "int i;\n#include <map>\n"},
                                      {"a.h", "#pragma once\n#include <vector>\n#define Y 1\n#include <set>\n"}});
  const std::string header = ConfigHeader(kernel, {{"size", "4"}, {"T", "float"}});
  EXPECT_THAT(header, HasSubstr("#if __has_include(<./Eigen/Dense>)\n#include <Eigen/Dense>\n#endif\n"));
  EXPECT_THAT(header, HasSubstr("#include <vector>\n"));
  EXPECT_THAT(header, HasSubstr("#include <list>\n"));
  EXPECT_LT(header.find("#include <list>"), header.find("#define size 4\n#define T float\n"));
  // "a.h" may configure it; it is not of the language.
  EXPECT_THAT(header, Not(HasSubstr("x.h")));
  EXPECT_THAT(header, Not(HasSubstr("<set>")));
  EXPECT_THAT(header, Not(HasSubstr("<map>")));
  EXPECT_EQ(ConfigHeader(KernelOf({{"k.cc", "int i;"}}), {}), "// The constants of this config.\n");
}

TEST(SourceIncludesTest, MacrosOfOptionsComeBeforeConstants) {
  v1::Kernel kernel = KernelOf({{"k.cc", "int i;"}});
  for (const char* option : {"-O3", "-DX", "-DY=a=b", "-D"}) kernel.add_compile_options(option);
  using Macro = std::pair<std::string, std::string>;
  EXPECT_THAT(AllMacros(kernel, {{"A", "1"}}),
              testing::ElementsAre(Macro("X", "1"), Macro("Y", "a=b"), Macro("A", "1")));
  EXPECT_EQ(DefineLine({"Y", "a=b"}), "#define Y a=b\n");
}

TEST(SourceIncludesTest, SourcesThatIncludeEachOtherAreReadOnce) {
  const v1::Kernel kernel =
      KernelOf({{"a.h", "#include \"b.h\"\n#include <list>\n"}, {"b.h", "#include \"a.h\"\n#include <vector>\n"}});
  const std::string header = ConfigHeader(kernel, {});
  EXPECT_THAT(header, HasSubstr("<list>"));
  EXPECT_THAT(header, HasSubstr("<vector>"));
}

}  // namespace
}  // namespace tunefarm
