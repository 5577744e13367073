// Data files in definitions: what they may be, what they must fit, and that only their content counts.
#include "server/definition/data_file.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

using testing::HasSubstr;

const std::string kDigestA(64, 'a');
const std::string kDigestB(64, 'b');

// y = A x in CSR: the rows and the result come from files.
constexpr std::string_view kSparse = R"kernel(
display_name: "sparse"
language: LANGUAGE_HOST_CXX
sources { path: "k.cc" content: "int x;" }
dims { name: "n" default_value { int_value: 4 } }
dims { name: "nnz" default_value { int_value: 8 } }
dims { name: "dtype" type: VALUE_TYPE_STRING default_value { string_value: "f32" }
       values { string_value: "f32" } values { string_value: "f64" } }
parameters { name: "T" values { ints: [1, 2] } }
arguments { name: "rows" buffer { data_type: DATA_TYPE_I32 length: "n + 1" access: ACCESS_IN index_limit: "@LIMIT"
                                  fill { file { @ROWS } } } }
arguments { name: "y" buffer { data_type_dim: "dtype" length: "n" access: ACCESS_OUT } }
arguments { name: "work" buffer { data_type: DATA_TYPE_U8 length: "16" access: ACCESS_SCRATCH } }
launches { kernel { entry: "spmv" arguments: ["rows", "y"] } }
reference { @REFERENCE }
)kernel";

std::string Sparse(const std::string& rows, const std::string& reference, const std::string& limit = "nnz + 1") {
  std::string text(kSparse);
  for (const auto& [mark, with] :
       {std::pair<std::string_view, std::string>{"@LIMIT", limit}, {"@ROWS", rows}, {"@REFERENCE", reference}}) {
    text.replace(text.find(mark), mark.size(), with);
  }
  return text;
}

std::string File(const std::string& digest, int bytes, const std::string& path = "rows.npy",
                 const std::string& more = "") {
  return fmt::format(R"(path: "{}" digest: "{}" bytes: {} {})", path, digest, bytes, more);
}

std::string Expected(const std::string& file, const std::string& buffer = "y") {
  return fmt::format(R"(files {{ buffer: "{}" file {{ {} }} }})", buffer, file);
}

std::string WhyNot(const std::string& text) { return Message(CompileText(text).status()); }

std::string WhyNoProblem(const std::string& text, int64_t n) {
  const auto plan = CompileText(text);
  if (!plan.ok()) return "it does not compile: " + Message(plan.status());
  v1::Problem problem;
  (*problem.mutable_dims())["n"].set_int_value(n);
  const auto resolved = (*plan)->ResolveProblem(problem);
  if (!resolved.ok()) return "it does not resolve: " + Message(resolved.status());
  const std::string message = Message((*plan)->CheckProblem(*resolved, DeviceClass()));
  EXPECT_EQ(Message((*plan)->CheckDataFiles(*resolved)), message);
  return message;
}

TEST(DataFileTest, GoesToTheBuffersOfAPlan) {
  const auto plan = CompileText(Sparse(File(kDigestA, 20), Expected(File(kDigestB, 16, "y.npy"))));
  ASSERT_TRUE(plan.ok()) << Message(plan.status());
  const auto problem = (*plan)->ResolveProblem(v1::Problem());
  ASSERT_TRUE(problem.ok()) << Message(problem.status());
  EXPECT_EQ(Message((*plan)->CheckProblem(*problem, DeviceClass())), "");
  const auto buffers = (*plan)->Buffers(*problem, (*plan)->DefaultConfig(*problem), DeviceClass());
  ASSERT_TRUE(buffers.ok()) << Message(buffers.status());
  EXPECT_EQ((*buffers)[0].fill.file().digest(), kDigestA);
  EXPECT_EQ((*buffers)[0].index_limit, 9);
  EXPECT_FALSE((*buffers)[0].expected.has_value());
  ASSERT_TRUE((*buffers)[1].expected.has_value());
  EXPECT_EQ((*buffers)[1].expected->digest(), kDigestB);
  EXPECT_FALSE((*plan)->HasSequence(Sequence::kReference));
  const std::vector<NamedDataFile> files = DataFilesOf((*plan)->kernel());
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].field, "arguments[0].buffer.fill.file");
  EXPECT_EQ(files[1].field, "reference.files[0].file");
}

TEST(DataFileTest, FilesOfOneDigestAreListedOnce) {
  const auto kernel = ParseKernelText(Sparse(File(kDigestA, 20), Expected(File(kDigestA, 20))), "f");
  ASSERT_TRUE(kernel.ok()) << Message(kernel.status());
  EXPECT_EQ(DataFilesOf(*kernel).size(), 1U);
}

TEST(DataFileTest, WhatIsWrittenWithoutADigestCompiles) {
  EXPECT_EQ(WhyNot(Sparse(R"(path: "rows.npy")", Expected(R"(path: "y.npy")"))), "");
  EXPECT_EQ(WhyNoProblem(Sparse(R"(path: "rows.npy")", Expected(R"(path: "y.npy")")), 5), "");
}

TEST(DataFileTest, ContentAloneNamesIt) {
  const auto plan = [](const std::string& rows) {
    auto compiled = CompileText(Sparse(rows, Expected(File(kDigestB, 16))));
    EXPECT_TRUE(compiled.ok()) << Message(compiled.status());
    return *compiled;
  };
  const auto one = plan(File(kDigestA, 20));
  const auto elsewhere = plan(File(kDigestA, 20, "other/place.bin", "data_type: DATA_TYPE_I32"));
  EXPECT_EQ(elsewhere->program_digest(), one->program_digest());
  EXPECT_EQ(elsewhere->kernel_id(), one->kernel_id());
  const auto other = plan(File(kDigestB, 20));
  EXPECT_NE(other->program_digest(), one->program_digest());
  EXPECT_NE(other->kernel_id(), one->kernel_id());
  // Without a digest the path is all that there is.
  EXPECT_NE(plan(R"(path: "a.npy")")->kernel_id(), plan(R"(path: "b.npy")")->kernel_id());
}

TEST(DataFileTest, SizesAreThoseOfTheProblem) {
  const std::string text = Sparse(File(kDigestA, 20), Expected(File(kDigestB, 16, "y.npy")));
  EXPECT_EQ(WhyNoProblem(text, 4), "");
  EXPECT_EQ(
      WhyNoProblem(text, 5),
      "arguments[0].buffer.fill.file: the elements of the file 'rows.npy' have 20 bytes, and buffer 'rows' has "
      "6 elements of i32, which are 24 bytes, in this problem; change the file, a dim (--dim) or the buffer's length");
  EXPECT_EQ(WhyNoProblem(Sparse(File(kDigestA, 24), Expected(File(kDigestB, 16, "y.npy"))), 5),
            "reference.files[0].file: the elements of the file 'y.npy' have 16 bytes, and buffer 'y' has 5 elements of "
            "f32, which are 20 bytes, in this problem; change the file, a dim (--dim) or the buffer's length");
}

TEST(DataFileTest, TypesAreThoseOfTheBuffer) {
  EXPECT_EQ(WhyNot(Sparse(File(kDigestA, 40, "rows.npy", "data_type: DATA_TYPE_I64"), Expected(File(kDigestB, 16)))),
            "arguments[0].buffer.fill.file: the file 'rows.npy' holds i64, and the buffer is i32; convert one of them");
  // A dim decides the output's type.
  const std::string text =
      Sparse(File(kDigestA, 20), Expected(File(kDigestB, 16, "y.npy", "data_type: DATA_TYPE_F64")));
  EXPECT_EQ(WhyNoProblem(text, 4),
            "reference.files[0].file: the file 'y.npy' holds f64, and buffer 'y' is f32; convert one of them");
}

TEST(DataFileTest, WhatIsNoFileIsRefused) {
  const auto rows = [](const std::string& file) { return WhyNot(Sparse(file, Expected(File(kDigestB, 16)))); };
  EXPECT_THAT(rows(""), HasSubstr("arguments[0].buffer.fill.file.path: a data file needs its path"));
  EXPECT_THAT(rows(R"(path: "../rows.npy")"), HasSubstr("is not plain"));
  EXPECT_THAT(rows(R"(path: "/rows.npy")"), HasSubstr("is not plain"));
  EXPECT_THAT(rows(fmt::format(R"(path: "{}")", std::string(257, 'a'))), HasSubstr("at most 256 are allowed"));
  EXPECT_THAT(rows(File(std::string(64, 'A'), 20)), HasSubstr("is no SHA-256"));
  EXPECT_THAT(rows(File("abc", 20)), HasSubstr("is no SHA-256"));
  EXPECT_THAT(rows(File(kDigestA, 0)), HasSubstr("the file has 0 bytes; 1 to 2147483648 are allowed"));
  EXPECT_THAT(rows(fmt::format(R"(digest: "{}" bytes: 2147483649)", kDigestA)), HasSubstr("2147483649 bytes"));
}

TEST(DataFileTest, EveryOutputNeedsAFileIfOneHas) {
  const std::string rows = File(kDigestA, 20);
  EXPECT_THAT(WhyNot(Sparse(rows, Expected(File(kDigestB, 16), "rows"))), HasSubstr("buffer 'rows' is no output"));
  EXPECT_THAT(WhyNot(Sparse(rows, Expected(File(kDigestB, 16), "work"))), HasSubstr("buffer 'work' is no output"));
  EXPECT_THAT(WhyNot(Sparse(rows, Expected(File(kDigestB, 16)) + Expected(File(kDigestB, 16)))),
              HasSubstr("there is already a file for buffer 'y'"));
  EXPECT_THAT(WhyNot(Sparse(rows, Expected(File(kDigestB, 16)) + R"(steps { kernel { entry: "spmv" } })")),
              HasSubstr("the reference consists of steps or of files"));
  std::string two = Sparse(rows, Expected(File(kDigestB, 16)));
  two += R"(arguments { name: "z" buffer { data_type: DATA_TYPE_F32 length: "n" access: ACCESS_INOUT } })";
  EXPECT_THAT(WhyNot(two), HasSubstr("there is no file for output 'z'"));
}

TEST(DataFileTest, WhereOutputsAreFilesNoInputIsRandom) {
  const auto with = [](const std::string& buffer) {
    return Sparse(File(kDigestA, 20), Expected(File(kDigestB, 16))) +
           fmt::format(R"(arguments {{ name: "x" buffer {{ data_type: DATA_TYPE_F32 length: "n" {} }} }})", buffer);
  };
  const auto refused = HasSubstr("the data of 'x' is random, but the expected outputs are files");
  EXPECT_THAT(WhyNot(with("access: ACCESS_IN")), refused);
  EXPECT_THAT(WhyNot(with("access: ACCESS_IN fill { uniform { low: 0 high: 1 } }")), refused);
  EXPECT_EQ(WhyNot(with("access: ACCESS_IN fill { iota { start: 1 } }")), "");
  EXPECT_EQ(WhyNot(with("access: ACCESS_IN fill { zeros {} }")), "");
  EXPECT_EQ(WhyNot(with("access: ACCESS_SCRATCH")), "");
}

TEST(DataFileTest, ScratchMemoryHasNone) {
  std::string text = Sparse(File(kDigestA, 20), Expected(File(kDigestB, 16)));
  text += R"(arguments { name: "z" buffer { data_type: DATA_TYPE_F32 length: "n" access: ACCESS_SCRATCH
                                           init: INIT_FILL fill { file { path: "z.npy" } } } })";
  EXPECT_THAT(WhyNot(text), HasSubstr("scratch memory holds no data of its own"));
}

TEST(DataFileTest, IndexLimitsAreForIntegersThatAreRead) {
  const std::string rows = File(kDigestA, 20), reference = Expected(File(kDigestB, 16));
  EXPECT_THAT(WhyNoProblem(Sparse(rows, reference, "n - 4"), 4), HasSubstr("no index is below it"));
  EXPECT_THAT(WhyNot(Sparse(rows, reference, "T")), HasSubstr("only dims may be used here"));
  const auto with = [&](const std::string& buffer) {
    return Sparse(rows, reference) + fmt::format(R"(arguments {{ name: "z" buffer {{ {} }} }})", buffer);
  };
  EXPECT_THAT(WhyNot(with(R"(data_type: DATA_TYPE_F32 length: "n" access: ACCESS_IN index_limit: "n")")),
              HasSubstr("an index is an integer, and the buffer's type is f32"));
  EXPECT_THAT(WhyNot(with(R"(data_type: DATA_TYPE_I32 length: "n" access: ACCESS_SCRATCH index_limit: "n")")),
              HasSubstr("what a kernel writes is no index that it reads"));
  // A type that a dim decides is known with the problem.
  EXPECT_THAT(WhyNoProblem(with(R"(data_type_dim: "dtype" length: "n" access: ACCESS_IN index_limit: "n"
                                   fill { zeros {} })"),
                           4),
              HasSubstr("an index is an integer, and 'z' is f32 in this problem"));
}

}  // namespace
}  // namespace tunefarm
