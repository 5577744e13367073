#include "client/cli/data/npy_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/status.h"

namespace tunefarm::cli {
namespace {

using testing::HasSubstr;

constexpr std::string_view kFourFloats = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }\n";

// A file with `header`, whose length has two bytes in version 1 and else four.
std::string NpyFile(std::string_view header, size_t data_bytes, char version = 1) {
  std::string text = std::string(kNpyMagic) + version + '\0';
  const size_t length_bytes = version == 1 ? 2 : 4;
  for (size_t i = 0; i < length_bytes; ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return text + std::string(header) + std::string(data_bytes, 'd');
}

absl::StatusOr<NpyHeader> ReadNpy(const std::string& file) {
  return ParseNpyHeader(std::string_view(file).substr(0, kNpyStartBytesMax), static_cast<int64_t>(file.size()),
                        "x.npy");
}

std::string WhyNoNpy(const std::string& file) {
  const auto header = ReadNpy(file);
  return header.ok() ? "OK" : std::string(MessageOf(header.status()));
}

std::string With(std::string text, std::string_view from, std::string_view to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST(NpyHeaderTest, EveryVersionAndSpelling) {
  for (const char version : {1, 2, 3}) {
    const auto header = ReadNpy(NpyFile(kFourFloats, 16, version));
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->data_type, v1::DATA_TYPE_F32);
    EXPECT_EQ(header->element_bytes, 4);
    EXPECT_EQ(header->data_bytes, 16);
    EXPECT_EQ(header->data_offset, static_cast<int64_t>(kFourFloats.size()) + (version == 1 ? 10 : 12));
  }
  for (const char* const spelling : {"{'shape':(2,2),\"fortran_order\":False,'descr':'<f4'}",
                                     "{'descr': '<f4', 'fortran_order': True, 'shape': (4,)}",
                                     "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 4, 1), }   \n",
                                     " { 'descr' : 'f4' , 'fortran_order' : False , 'shape' : ( 4 , ) , } "}) {
    EXPECT_EQ(WhyNoNpy(NpyFile(spelling, 16)), "OK") << spelling;
  }
  EXPECT_EQ(WhyNoNpy(NpyFile("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", 8)), "OK");
}

TEST(NpyHeaderTest, Types) {
  struct Case {
    const char* descr;
    v1::DataType type;
    int64_t bytes;
  };
  for (const Case& one :
       {Case{"|i1", v1::DATA_TYPE_I8, 1}, Case{"<u2", v1::DATA_TYPE_U16, 2}, Case{"<i8", v1::DATA_TYPE_I64, 8},
        Case{"|b1", v1::DATA_TYPE_U8, 1}, Case{"<f2", v1::DATA_TYPE_F16, 2}, Case{">i1", v1::DATA_TYPE_I8, 1},
        Case{"|V2", v1::DATA_TYPE_UNSPECIFIED, 2}, Case{"<f1", v1::DATA_TYPE_UNSPECIFIED, 1}}) {
    const auto header =
        ReadNpy(NpyFile(With(std::string(kFourFloats), "<f4", one.descr), static_cast<size_t>(4 * one.bytes)));
    ASSERT_TRUE(header.ok()) << one.descr << ": " << header.status();
    EXPECT_EQ(header->data_type, one.type) << one.descr;
    EXPECT_EQ(header->element_bytes, one.bytes) << one.descr;
    EXPECT_EQ(header->dtype, std::string_view(one.descr).substr(1));
  }
}

TEST(NpyHeaderTest, WhatIsRefusedSaysWhatToDo) {
  struct Case {
    const char *from, *to, *why;
  };
  for (const Case& one :
       {Case{"False, 'shape': (4,)", "True, 'shape': (2, 2)", "Fortran order; save numpy.ascontiguousarray(array)"},
        Case{"<f4", ">f4", "big-endian"},
        Case{"<f4", "|O", "pickled Python objects"},
        Case{"'<f4'", "[('x', '<f4')]", "structured dtype"},
        Case{"<f4", "<U1", "dtype '<U1'"},
        Case{"<f4", "<c8", "dtype '<c8'"},
        Case{"<f4", "<M8[ns]", "dtype '<M8[ns]'"},
        Case{"<f4", "", "dtype ''"},
        Case{"<f4", "<f4\x1b[2J", "dtype '<f4\\x1b[2J'"},
        Case{"(4,)", "(4, 0)", "no elements"},
        Case{"(4,)", "(5,)", "truncated: its header promises 20 bytes of elements, and 16 follow"},
        Case{"(4,)", "(3,)", "4 bytes behind its elements"},
        Case{"(4,)", "(9223372036854775807, 9)", "truncated"},
        Case{"(4,)", "(9223372036854775808,)", "damaged"},
        Case{"(4,)", "(-4,)", "damaged"},
        Case{"(4,)", "(4)", "damaged"},
        Case{"(4,)", "(,)", "damaged"},
        Case{"(4,)", "(4 4)", "damaged"},
        Case{"(4,)", "4", "damaged"},
        Case{"False", "0", "damaged"},
        Case{"'shape'", "'shop'", "damaged"},
        Case{"'shape': (4,)", "'descr': '<f4'", "damaged"},
        Case{"}", "} }", "damaged"},
        Case{"}", "", "damaged"}}) {
    EXPECT_THAT(WhyNoNpy(NpyFile(With(std::string(kFourFloats), one.from, one.to), 16)), HasSubstr(one.why)) << one.to;
  }
  const std::string good = NpyFile(kFourFloats, 16);
  EXPECT_THAT(WhyNoNpy(""), HasSubstr("is no .npy file"));
  EXPECT_THAT(WhyNoNpy("\x80\x04pickled"), HasSubstr("is no .npy file"));
  for (const size_t size : {6, 7, 8, 9, 10, 40}) {
    EXPECT_THAT(WhyNoNpy(good.substr(0, size)), HasSubstr("truncated: its header is incomplete")) << size;
  }
  EXPECT_THAT(WhyNoNpy(NpyFile(kFourFloats, 16, 4)), HasSubstr("version 4.0"));
  std::string shape = "(";
  for (int i = 0; i < 65; ++i) shape += "1,";
  EXPECT_THAT(WhyNoNpy(NpyFile(With(std::string(kFourFloats), "(4,)", shape + ")"), 4)), HasSubstr("damaged"));
  EXPECT_THAT(WhyNoNpy(NpyFile(std::string(kNpyHeaderBytesMax + 1, ' '), 16, 2)), HasSubstr("header of 65537 bytes"));
}

TEST(NpyHeaderTest, AnyDamageIsAnAnswer) {
  const std::string good = NpyFile(kFourFloats, 16);
  for (size_t at = 0; at < good.size(); ++at) {
    EXPECT_NE(WhyNoNpy(good.substr(0, at)), "OK") << at;
    for (const char c : {'\0', '\xff', '(', '\'', '9', '{'}) {
      std::string damaged = good;
      damaged[at] = c;
      EXPECT_FALSE(WhyNoNpy(damaged).empty());
    }
  }
}

}  // namespace
}  // namespace tunefarm::cli
