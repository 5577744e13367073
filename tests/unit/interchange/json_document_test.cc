#include "server/interchange/json_document.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/status.h"

namespace tunefarm::interchange {
namespace {

std::string ErrorOfText(const std::string& text, const JsonLimits& limits = {}) {
  const auto document = JsonDocument::Parse(text, "f", limits);
  if (document.ok()) return "accepted";
  EXPECT_TRUE(absl::IsInvalidArgument(document.status()));
  EXPECT_EQ(ReasonOf(document.status()), kBadJson);
  return std::string(MessageOf(document.status()));
}

TEST(JsonDocument, ReadsEveryKindOfValueAndKnowsItsPlace) {
  const auto document =
      JsonDocument::Parse("{\n  \"a\": [1, -2.5, \"x\\\"y\", true, null],\n  \"b\": {\"c/d\": {}}\n}", "f");
  ASSERT_TRUE(document.ok()) << document.status();
  const JsonRef root = (*document)->root();
  ASSERT_TRUE(root.is_object());
  const std::vector<JsonRef> list = root.Find("a")->Children();
  ASSERT_EQ(list.size(), 5u);
  EXPECT_EQ(list[0].int_value(), 1);
  EXPECT_EQ(list[1].number(), -2.5);
  EXPECT_EQ(list[2].text(), "x\"y");
  EXPECT_TRUE(list[3].bool_value());
  EXPECT_TRUE(list[4].is_null());
  EXPECT_EQ(MessageOf(list[0].Error(kBadField, "no")), "f:2:9: /a/0: no");
  EXPECT_EQ(MessageOf(list[1].Error(kBadField, "no")), "f:2:12: /a/1: no");
  EXPECT_EQ(MessageOf(list[2].Error(kBadField, "no")), "f:2:18: /a/2: no");
  EXPECT_EQ(MessageOf(list[3].Error(kBadField, "no")), "f:2:26: /a/3: no");
  EXPECT_EQ(MessageOf(list[4].Error(kBadField, "no")), "f:2:32: /a/4: no");
  const JsonRef inner = *root.Find("b")->Find("c/d");
  EXPECT_EQ(MessageOf(inner.Error(kBadField, "no")), "f:3:16: /b/c~1d: no");
  EXPECT_EQ(ReasonOf(inner.Error(kBadField, "no")), kBadField);
  EXPECT_FALSE(root.Find("z").has_value());
  EXPECT_EQ(MessageOf(root.Error(kBadField, "no")), "f:1:1: no");
}

TEST(JsonDocument, IntegersThatDoNotFitAreKnown) {
  const auto document = JsonDocument::Parse(
      "[9223372036854775807, -9223372036854775808, 1e30, -1.5E2, 9223372036854775808, -9223372036854775809, "
      "18446744073709551616]",
      "f");
  ASSERT_TRUE(document.ok()) << document.status();
  const std::vector<JsonRef> list = (*document)->root().Children();
  for (size_t i = 0; i < list.size(); ++i) EXPECT_EQ(list[i].is_rounded_int(), i >= 4) << i;
  EXPECT_EQ(list[0].int_value(), INT64_MAX);
  EXPECT_EQ(list[1].int_value(), INT64_MIN);
  EXPECT_FALSE(list[4].is_int());
}

TEST(JsonDocument, PythonsNumbersThatAreNoneAreReadWhereTheyMay) {
  const std::string text = "{\"a\": NaN, \"NaN\": [Infinity, -Infinity,\n \"\\\"NaN\", NaN ]}";
  EXPECT_NE(ErrorOfText(text).find("not valid JSON"), std::string::npos) << ErrorOfText(text);
  const auto document = JsonDocument::Parse(text, "f", {.takes_non_finite = true});
  ASSERT_TRUE(document.ok()) << document.status();
  const JsonRef root = (*document)->root();
  EXPECT_TRUE(root.Find("a")->is_number());
  EXPECT_TRUE(std::isnan(root.Find("a")->number()));
  const std::vector<JsonRef> list = root.Find("NaN")->Children();
  ASSERT_EQ(list.size(), 4u);
  EXPECT_TRUE(std::isnan(list[0].number()));
  EXPECT_TRUE(std::isnan(list[1].number()));
  EXPECT_EQ(list[2].text(), "\"NaN");
  EXPECT_EQ(MessageOf(list[3].Error(kBadField, "no")), "f:2:11: /NaN/3: no");
  for (const char* wrong : {"[-NaN0]", "[Infinit]", "[+Infinity]", "[NaNs]", "[1NaN]"}) {
    EXPECT_FALSE(JsonDocument::Parse(wrong, "f", {.takes_non_finite = true}).ok()) << wrong;
  }
}

TEST(JsonDocument, WhatIsNoJsonIsAnErrorWithItsPlace) {
  EXPECT_EQ(ErrorOfText("{\n \"a\" 1}").substr(0, 34), "f:2:6: this is not valid JSON: syn");
  EXPECT_EQ(ErrorOfText("").substr(0, 6), "f:1:1:");
  EXPECT_NE(ErrorOfText("[1,2").find("unexpected end of input"), std::string::npos);
  EXPECT_NE(ErrorOfText("[1] 2").find("not valid JSON"), std::string::npos);
  EXPECT_NE(ErrorOfText("[NaN]").find("not valid JSON"), std::string::npos);
  EXPECT_NE(ErrorOfText("\"\xff\"").find("not valid JSON"), std::string::npos);
  EXPECT_NE(ErrorOfText("[1e999]").find("f:1:"), std::string::npos);
  EXPECT_EQ(ErrorOfText("{\"a\": 1, \"a\": 2}"), "f:1:10: the key \"a\" stands here twice");
}

TEST(JsonDocument, LimitsHold) {
  EXPECT_EQ(ErrorOfText("[[[[1]]]]", {.depth_max = 3}), "f:1:4: values are nested more than 3 deep");
  EXPECT_EQ(ErrorOfText("[1, 2, 3]", {.values_max = 3}), "f:1:8: there are more than 3 values");
  EXPECT_EQ(ErrorOfText("[1, 2, 3]", {.bytes_max = 8}), "f:1:1: the file has 9 bytes; at most 8 are read");
  EXPECT_NE(ErrorOfText(std::string(100'000, '[')).find("nested more than 32 deep"), std::string::npos);
}

TEST(JsonDocument, RowsAreHandedOverOneByOneAndForgotten) {
  std::string text = "{\"name\": \"n\", \"rows\": [";
  for (int i = 0; i < 1000; ++i) text += (i == 0 ? "" : ",") + std::string("{\"v\": ") + std::to_string(i) + "}";
  text += "], \"end\": 7}";
  std::vector<int64_t> seen;
  const auto document =
      JsonDocument::ParseRows(text, "f", "rows", {.values_max = 20}, nullptr, [&](const JsonRef& row) {
        seen.push_back(row.Find("v")->int_value());
        EXPECT_EQ(row.Pointer(), "/rows/" + std::to_string(seen.size() - 1));
        return absl::OkStatus();
      });
  ASSERT_TRUE(document.ok()) << document.status();
  ASSERT_EQ(seen.size(), 1000u);
  EXPECT_EQ(seen[999], 999);
  EXPECT_EQ((*document)->root().Find("end")->int_value(), 7);
  EXPECT_TRUE((*document)->root().Find("rows")->Children().empty());
}

TEST(JsonDocument, AnErrorOfARowEndsTheReading) {
  const auto document = JsonDocument::ParseRows("{\"rows\": {\"a\": 1, \"b\": 2}}", "f", "rows", {}, nullptr,
                                                [](const JsonRef& row) { return row.Error(kBadField, "no"); });
  EXPECT_EQ(MessageOf(document.status()), "f:1:16: /rows/a: no");
}

TEST(JsonDocument, ATextThatJustEndsKeepsItsWholeRowsWhereThatIsAsked) {
  const std::string text = "{\"name\": \"n\", \"rows\": {\n\"a\": {\"v\": 1},\n\"b\": {\"v\": 2},\n\"c\": {\"v\"";
  for (const std::string& cut : {text, text.substr(0, text.find("\n\"c\"")), text.substr(0, text.find(",\n\"b\""))}) {
    int rows = 0;
    bool is_truncated = false;
    const auto count = [&](const JsonRef&) {
      ++rows;
      return absl::OkStatus();
    };
    const auto document = JsonDocument::ParseRows(cut, "f", "rows", {}, &is_truncated, count);
    ASSERT_TRUE(document.ok()) << document.status();
    EXPECT_TRUE(is_truncated);
    EXPECT_EQ(rows, cut.find("\"b\"") == std::string::npos ? 1 : 2);
    EXPECT_FALSE(JsonDocument::ParseRows(cut, "f", "rows", {}, nullptr, count).ok());
  }
  bool is_truncated = false;
  const auto damaged = JsonDocument::ParseRows("{\"rows\": {\"a\": }, \"b\": 2}}", "f", "rows", {}, &is_truncated,
                                               [](const JsonRef&) { return absl::OkStatus(); });
  EXPECT_FALSE(damaged.ok());
  EXPECT_FALSE(is_truncated);
}

}  // namespace
}  // namespace tunefarm::interchange
