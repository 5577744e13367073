// The data files of definitions and of --input and --expected.
#include "client/cli/data/definition_data.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "server/base/check.h"
#include "server/base/file.h"
#include "server/base/hash.h"
#include "server/base/status.h"
#include "server/definition/kernel_plan.h"
#include "tests/fakes/temporary_directory.h"

namespace tunefarm::cli {
namespace {

using testing::HasSubstr;

constexpr char kGather[] = R"(
display_name: "gather" language: HOST
dims { name: "N" default_value: 4 }
dims { name: "dtype" values: ["f32", "bf16"] default_value: "f32" }
arguments { name: "rows" buffer { data_type: I32 length: "N" access: IN fill { file: "data/rows.npy" } } }
arguments { name: "x" buffer { data_type_dim: "dtype" length: "N" access: IN fill { prepare_step: "draw" } } }
arguments { name: "w" buffer { data_type: F32 length: "N" access: INOUT fill { prepare_step: "draw" } } }
arguments { name: "y" buffer { data_type: F32 length: "N" access: OUT } }
arguments { name: "n" scalar { data_type: I32 value: "N" } }
prepare { step { name: "draw" kernel { entry: "draw" arguments: ["x", "w"] } } }
launches { kernel { entry: "gather" arguments: ["rows", "x", "w", "y", "n"] } }
reference { steps { kernel { entry: "reference" arguments: ["rows", "x", "w", "y", "n"] } } }
)";

class DefinitionDataTest : public testing::Test {
 protected:
  DefinitionDataTest() {
    TUNEFARM_CHECK_OK(MakeDirectories(Path("data"), 0700));
    Save("data/rows.npy", "<i4");
  }

  std::string Path(const std::string& name) const { return directory_.File("kernel/" + name); }
  // Four elements of a type.
  void Save(const std::string& name, const std::string& descr) {
    const std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (4,), }\n";
    const std::string data(static_cast<size_t>(4 * (descr.back() - '0')), 'd');
    Write(name, std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + data);
  }
  void Write(const std::string& name, const std::string& content) {
    TUNEFARM_CHECK_OK(WriteFileAtomically(Path(name), content));
  }

  // What the files of the kernel are named as; the error's message.
  std::string Describe(const DataOptions& options = {}) {
    auto kernel = ParseKernelText(text_, "kernel.pbtxt");
    TUNEFARM_CHECK_OK(kernel.status());
    kernel_ = *std::move(kernel);
    auto files = DescribeDataFiles(&kernel_, directory_.File("kernel"), options);
    if (!files.ok()) return std::string(MessageOf(files.status()));
    files_ = *std::move(files);
    return "OK";
  }
  const v1::Fill& FillOf(int argument) const { return kernel_.arguments(argument).buffer().fill(); }

  TemporaryDirectory directory_;
  std::string text_ = kGather;
  v1::Kernel kernel_;
  std::vector<DescribedFile> files_;
};

TEST_F(DefinitionDataTest, FilesOfTheDefinitionAreNamedByContent) {
  ASSERT_EQ(Describe(), "OK");
  const v1::DataFile& file = FillOf(0).file();
  EXPECT_EQ(file.path(), "data/rows.npy");
  EXPECT_EQ(file.digest(), Sha256("dddddddddddddddd").Hex());
  EXPECT_EQ(file.bytes(), 16);
  EXPECT_EQ(file.data_type(), v1::DATA_TYPE_I32);
  ASSERT_EQ(files_.size(), 1U);
  EXPECT_EQ(files_[0].digest, file.digest());
  EXPECT_EQ(files_[0].file.Part(0).value(), "dddddddddddddddd");
  EXPECT_TRUE(kernel_.reference().files().empty());
  EXPECT_FALSE(kernel_.arguments(3).buffer().has_fill()) << "an output has none";
  EXPECT_EQ(kernel_.prepare_size(), 1);
  // A definition that names content needs no file.
  text_.replace(text_.find("file: \"data/rows.npy\""), 21, "file { digest: \"" + file.digest() + "\" bytes: 16 }");
  ASSERT_EQ(Describe(), "OK");
  EXPECT_TRUE(files_.empty());
}

TEST_F(DefinitionDataTest, PathsLeadNowhereElse) {
  Write("../outside.npy", "x");
  ASSERT_EQ(unlink(Path("data/rows.npy").c_str()), 0);
  EXPECT_THAT(Describe(), HasSubstr("rows.npy: No such file"));
  ASSERT_EQ(symlink("../../outside.npy", Path("data/rows.npy").c_str()), 0);
  EXPECT_THAT(Describe(), HasSubstr("outside of its folder"));
  ASSERT_EQ(unlink(Path("data/rows.npy").c_str()), 0);
  ASSERT_EQ(mkfifo(Path("data/rows.npy").c_str(), 0600), 0);
  EXPECT_THAT(Describe(), HasSubstr("not a regular file"));
}

TEST_F(DefinitionDataTest, FilesOfTheOptionsTakeThePlaceOfFillsAndReference) {
  Save("x.npy", "<u2");  // bf16 as NumPy has it
  Save("w.npy", "<f4");
  Write("y.bin", std::string(16, 'y'));
  ASSERT_EQ(Describe({.inputs = {"x=" + Path("x.npy"), "w=" + Path("w.npy")},
                      .expected = {"y=" + Path("y.bin"), "w=" + Path("w.npy")}}),
            "OK");
  EXPECT_EQ(FillOf(1).file().path(), "x.npy");
  EXPECT_EQ(FillOf(1).file().data_type(), v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(FillOf(2).file().data_type(), v1::DATA_TYPE_F32);
  EXPECT_TRUE(kernel_.prepare().empty()) << "the step would write over the files' data";
  EXPECT_TRUE(kernel_.reference().steps().empty());
  ASSERT_EQ(kernel_.reference().files_size(), 2);
  EXPECT_EQ(kernel_.reference().files(0).buffer(), "y");
  EXPECT_EQ(kernel_.reference().files(0).file().digest(), Sha256(std::string(16, 'y')).Hex());
  EXPECT_EQ(kernel_.reference().files(0).file().data_type(), v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(files_.size(), 5U);
  // What is replaced is not read.
  ASSERT_EQ(unlink(Path("data/rows.npy").c_str()), 0);
  Save("rows.npy", "<i4");
  EXPECT_EQ(Describe({.inputs = {"rows=" + Path("rows.npy")}, .expected = {}}), "OK");
}

TEST_F(DefinitionDataTest, BytesAreTheBitsOfF8E4M3) {
  const auto input = [this](const std::string& file) {
    return Describe({.inputs = {"x=" + Path(file), "w=" + Path("w.npy")}, .expected = {}});
  };
  Save("w.npy", "<f4");
  Save("v1.npy", "|V1");  // as ml_dtypes writes float8_e4m3fn
  Save("u1.npy", "|u1");
  Save("f1.npy", "<f1");  // as it writes float8_e5m2
  Save("b1.npy", "|b1");
  Save("i1.npy", "|i1");
  Write("raw.bin", "abcd");
  text_.replace(text_.find("data_type_dim: \"dtype\""), 22, "data_type: F8E4M3");
  for (const char* const file : {"v1.npy", "u1.npy", "raw.bin"}) {
    ASSERT_EQ(input(file), "OK") << file;
    EXPECT_EQ(FillOf(1).file().data_type(), v1::DATA_TYPE_UNSPECIFIED) << file;
    EXPECT_EQ(FillOf(1).file().bytes(), 4) << file;
  }
  EXPECT_THAT(input("f1.npy"), HasSubstr("f1.npy holds float8_e5m2 (dtype f1), and 'x' is f8e4m3; save the bits of its "
                                         "f8e4m3 elements as numpy.uint8"));
  EXPECT_THAT(input("b1.npy"), HasSubstr("b1.npy holds truth values, and 'x' is f8e4m3;"));
  EXPECT_THAT(input("i1.npy"), HasSubstr("i1.npy holds i8, and 'x' is f8e4m3;"));
  EXPECT_THAT(input("w.npy"), HasSubstr("w.npy holds f32, and 'x' is f8e4m3;"));
  text_.replace(text_.find("data_type: F8E4M3"), 17, "data_type: U8");
  for (const char* const file : {"v1.npy", "u1.npy", "f1.npy", "b1.npy"}) EXPECT_EQ(input(file), "OK") << file;
  // What a dim's value "fp8" stands for.
  text_.replace(text_.find("data_type: U8"), 13, "data_type_dim: \"dtype\"");
  text_.replace(text_.find("[\"f32\", \"bf16\"]"), 15, "[\"f32\", \"fp8\"]");
  EXPECT_EQ(input("u1.npy"), "OK");
  EXPECT_THAT(input("i1.npy"), HasSubstr("i1.npy holds i8, and 'x' is f32 or f8e4m3; convert it"));
}

TEST_F(DefinitionDataTest, WhatDoesNotFitIsNamed) {
  Save("f8.npy", "<f8");
  Save("raw.npy", "|V2");
  Save("f4.npy", "<f4");
  const std::string f8 = Path("f8.npy"), raw = Path("raw.npy"), f4 = Path("f4.npy");
  const auto input = [this](const std::string& text) { return Describe({.inputs = {text}, .expected = {}}); };
  EXPECT_THAT(input("rows=" + f8), HasSubstr("f8.npy holds f64, and 'rows' is i32; save array.astype(numpy.int32)"));
  EXPECT_THAT(input("rows=" + raw), HasSubstr("holds raw elements of 16 bits, and 'rows' is i32"));
  EXPECT_THAT(input("x=" + f8), HasSubstr("and 'x' is f32 or bf16; convert it"));
  EXPECT_THAT(input("z=" + f4), HasSubstr("--input z: the kernel has no buffer of that name; its buffers are rows, x, "
                                          "w, y"));
  EXPECT_THAT(input("n=" + f4), HasSubstr("no buffer of that name"));
  EXPECT_THAT(input("y=" + f4), HasSubstr("--input y: the kernel does not read buffer 'y'"));
  EXPECT_THAT(input("x=" + f4), HasSubstr("prepare step 'draw' fills w too"));
  EXPECT_THAT(input("x"), HasSubstr("write --input NAME=FILE"));
  EXPECT_THAT(Describe({.inputs = {}, .expected = {"x=" + f4}}), HasSubstr("--expected x: the kernel does not write"));
  EXPECT_THAT(Describe({.inputs = {}, .expected = {"y=" + f4, "y=" + f4}}), HasSubstr("already a file for y"));
  Write("x.npz", "PK");
  EXPECT_THAT(input("x=" + Path("x.npz")), HasSubstr("is an archive of arrays"));
  Write("empty", "");
  EXPECT_THAT(input("x=" + Path("empty")), HasSubstr("holds no elements"));
  Write("npy.bin", ReadFile(f4, 1000).value());
  EXPECT_THAT(input("x=" + Path("npy.bin")), HasSubstr("give it a name that ends in .npy"));
  text_.replace(text_.find("access: OUT }"), 11, "access: SCRATCH");
  EXPECT_THAT(input("y=" + f4), HasSubstr("--input y: buffer 'y' is scratch space, which takes no file"));
  EXPECT_THAT(Describe({.inputs = {}, .expected = {"y=" + f4}}),
              HasSubstr("--expected y: buffer 'y' is scratch space, which takes no file"));
}

TEST_F(DefinitionDataTest, AFileThatIsWrittenMeanwhileIsNoticed) {
  ASSERT_EQ(Describe(), "OK");
  ASSERT_EQ(files_.size(), 1U);
  const OpenDataFile& file = files_[0].file;
  const struct timespec times[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, Path("data/rows.npy").c_str(), times, 0), 0);
  EXPECT_THAT(MessageOf(file.Part(0).status()), HasSubstr("rows.npy changed while it was read"));
  ASSERT_EQ(Describe(), "OK");
  ASSERT_EQ(truncate(Path("data/rows.npy").c_str(), 100), 0);
  EXPECT_THAT(MessageOf(files_[0].file.Digest().status()), HasSubstr("rows.npy changed while it was read"));
}

TEST_F(DefinitionDataTest, MoreThanTwoGibibytesAreRefused) {
  Write("big", "x");
  ASSERT_EQ(truncate(Path("big").c_str(), (off_t{2} << 30) + 1), 0);
  EXPECT_THAT(Describe({.inputs = {"rows=" + Path("big")}, .expected = {}}),
              HasSubstr("holds 2147483649 bytes; a data file has at most"));
}

}  // namespace
}  // namespace tunefarm::cli
