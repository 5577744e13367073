#include "client/cli/output.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "client/cli/help_format.h"
#include "tunefarm/v1/job.pb.h"
#include "tunefarm/v1/kernel.pb.h"

namespace tunefarm::cli {
namespace {

TEST(TableTest, PadsByCodePointsAndNeverAtTheEnd) {
  Table table({{"time", true}, {"note", false}, {"last", false}});
  table.AddRow({"41.2 µs", "", "a"});
  table.AddRow({"1 s", "≈ half", ""});
  EXPECT_EQ(table.ToText(),
            "   time  note    last\n"
            "41.2 µs          a\n"
            "    1 s  ≈ half\n");
}

TEST(TableTest, StylesWholeLinesAndOnlyWhenAsked) {
  Table table({{"a", false}});
  table.AddRow({"plain"});
  table.AddRow({"bold"}, Style::kBold);
  table.AddRow({"red"}, Style::kRed);
  EXPECT_EQ(table.ToText(), "a\nplain\nbold\nred\n");
  EXPECT_EQ(Rendered(table.ToText(true), true), "a\nplain\n\x1b[1mbold\x1b[0m\n\x1b[31mred\x1b[0m\n");
  EXPECT_EQ(Rendered(table.ToText(true), false), table.ToText());
  EXPECT_EQ(table.ToCsv(), "a\nplain\nbold\nred\n");
}

TEST(TableTest, CsvQuotesWhatRfc4180Demands) {
  Table table({{"name", false}, {"a,b", true}});
  table.AddRow({"plain text", "1"});
  table.AddRow({"say \"hi\"", "two\nlines"});
  table.AddRow({"", "\r"});
  EXPECT_EQ(table.ToCsv(),
            "name,\"a,b\"\n"
            "plain text,1\n"
            "\"say \"\"hi\"\"\",\"two\nlines\"\n"
            ",\"\r\"\n");
}

TEST(TableDeathTest, ARowHasOneCellPerColumn) {
  Table table({{"a", false}, {"b", false}});
  EXPECT_DEATH(table.AddRow({"alone"}), "");
}

TEST(OutputFormatTest, Names) {
  EXPECT_EQ(*ParseOutputFormat("table"), OutputFormat::kTable);
  EXPECT_EQ(*ParseOutputFormat("json"), OutputFormat::kJson);
  EXPECT_EQ(*ParseOutputFormat("csv"), OutputFormat::kCsv);
  EXPECT_EQ(ParseOutputFormat("yaml").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(VisibleTest, WhatOthersWroteCannotMoveTheCursor) {
  const std::string label = "k=\x1b[31mRED\nsecond\t\xc2\x9b\xe2\x80\xae\x7f\xff";
  const std::string shown = "k=\\x1b[31mRED\\nsecond\\t\\xc2\\x9b\\xe2\\x80\\xae\\x7f\\xff";
  EXPECT_EQ(Visible(label), shown);
  Table table({{"label", false}, {"n", true}});
  table.AddRow({label, "1"}, Style::kRed);
  EXPECT_EQ(table.ToText(), "label" + std::string(shown.size() - 5, ' ') + "  n\n" + shown + "  1\n");
  EXPECT_EQ(Rendered(table.ToText(true), true),
            "label" + std::string(shown.size() - 5, ' ') + "  n\n\x1b[31m" + shown + "  1\x1b[0m\n");
}

TEST(VisibleTest, OnlyStylesBecomeControlCodes) {
  EXPECT_EQ(Rendered("a\x1b[31m\n\tb\r" + Styled(Style::kBold, "c\x1b[0m"), true),
            "a\\x1b[31m\n\tb\\x0d\x1b[1mc\\x1b[0m\x1b[0m");
  EXPECT_EQ(Rendered(Styled(Style::kGreen, "OK"), false), "OK");
  EXPECT_EQ(Rendered("\xff", true), "\\xff");
  EXPECT_EQ(Rendered("\xffQ", true), "\\xffQ");
  EXPECT_EQ(TextWidth(Styled(Style::kGreen, "OK")), 2U);
  EXPECT_EQ(Styled(Style::kRed, ""), "");
}

TEST(JsonTest, HasPlainValuesAndZeros) {
  v1::JobEvent event;
  event.set_event_id(7);
  event.set_message("a \"quoted\" line\n\x1b\xc2\x9b");
  EXPECT_EQ(ToJson(event),
            "{\n \"event_id\": 7,\n \"at_ms\": 0,\n \"message\": "
            "\"a \\\"quoted\\\" line\\u000a\\u001b\\u009b\",\n \"study\": \"\"\n}\n");
  v1::Strategy strategy;
  for (const char* name : {"c", "a", "b"}) (*strategy.mutable_options())[name] = "1";
  EXPECT_EQ(ToJsonLine(strategy),
            "{\"strategy_name\":\"\",\"seed\":0,\"options\":{\"a\":\"1\",\"b\":\"1\",\"c\":\"1\"}}\n");
}

TEST(JsonTest, ConfigsAreObjectsOfTheirValues) {
  v1::Config config;
  auto& values = *config.mutable_values();
  values["TILE"].set_int_value(9007199254740993);
  values["ALPHA"].set_double_value(0.5);
  values["NAN"].set_double_value(std::nan(""));
  values["PACK"].set_bool_value(false);
  values["ORDER"].set_string_value("a\"b");
  values["NONE"];
  EXPECT_EQ(
      ToJsonLine(config),
      "{\"ALPHA\":0.5,\"NAN\":null,\"NONE\":null,\"ORDER\":\"a\\\"b\",\"PACK\":false,\"TILE\":9007199254740993}\n");
  EXPECT_EQ(ToJson(v1::Config()), "{}\n");
}

TEST(JsonTest, PartsAreLaidOutLikeMessages) {
  EXPECT_EQ(JsonObject({}), "{}\n");
  EXPECT_EQ(JsonList({}), "[]\n");
  v1::Config config;
  (*config.mutable_values())["TILE"].set_int_value(4);
  EXPECT_EQ(JsonList({ToJson(config), "2"}), "[\n {\n  \"TILE\": 4\n },\n 2\n]\n");
  EXPECT_EQ(JsonObject({{"a", JsonString("\"")}, {"list", JsonList({ToJson(config)})}, {"none", JsonList({})}}),
            "{\n \"a\": \"\\\"\",\n \"list\": [\n  {\n   \"TILE\": 4\n  }\n ],\n \"none\": []\n}\n");
}

TEST(JsonTest, BytesAreBase64) {
  const std::map<std::string, std::string> known = {
      {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"\xff\xfe", "//4="}};
  for (const auto& [bytes, text] : known) {
    v1::SourceFile source;
    source.set_content(bytes);
    EXPECT_NE(ToJsonLine(source).find("\"content\":\"" + text + "\""), std::string::npos) << text;
  }
}

TEST(HelpEntryTest, FitsNarrowTerminals) {
  EXPECT_EQ(HelpColumns(0), 100U);
  EXPECT_EQ(HelpColumns(80), 80U);
  EXPECT_EQ(HelpColumns(20), 40U);
  EXPECT_EQ(HelpColumns(300), 100U);
  EXPECT_EQ(HelpEntry("x", std::string(20, 'a') + " " + std::string(20, 'b'), 60),
            "  x                         " + std::string(20, 'a') + "\n" + std::string(28, ' ') + std::string(20, 'b') +
                "\n");
}

TEST(HelpEntryTest, LinesGoOnBelowTheirText) {
  EXPECT_EQ(WrapLines("  name  one two three\n", 20), "  name  one two\n        three\n");
  // A text that begins too far right has lines of its own.
  EXPECT_EQ(WrapLines("  a long name      one two three\n", 20), "  a long name\n      one two three\n");
  // A command line can be copied.
  EXPECT_EQ(WrapLines("  tunefarm tune k --seed 7 --dim N=1\n", 28),
            "  tunefarm tune k \\\n      --seed 7 --dim N=1\n");
}

TEST(HelpEntryTest, AlignsAndWraps) {
  EXPECT_EQ(HelpEntry("-q, --quiet", "No notes."), "  -q, --quiet               No notes.\n");
  // A name that reaches into the text's column stands on a line of its own.
  EXPECT_EQ(HelpEntry("--strategy-option NAME=VALUE", "Text."),
            "  --strategy-option NAME=VALUE\n                            Text.\n");
  const std::string wrapped = HelpEntry("x", std::string(50, 'a') + " " + std::string(30, 'b') + " c");
  EXPECT_EQ(wrapped, "  x                         " + std::string(50, 'a') + "\n" + std::string(28, ' ') +
                         std::string(30, 'b') + " c\n");
}

TEST(Output, LongTextsAreFoldedOnNarrowTerminals) {
  Table table({{"time", true}, {"config", false}});
  table.AddRow({"41 µs", "MR=8 NR=32 ORDER=mkn PACK=false TILE_K=64"});
  table.AddRow({"9 µs", "MR=8"});
  EXPECT_EQ(table.ToText(false, 34),
            " time  config\n"
            "41 µs  MR=8 NR=32 ORDER=mkn\n"
            "       PACK=false TILE_K=64\n"
            " 9 µs  MR=8\n");
  EXPECT_EQ(table.ToText(false, 20),
            " time  config\n"
            "41 µs  MR=8 NR=32\n"
            "       ORDER=mkn\n"
            "       PACK=false\n"
            "       TILE_K=64\n"
            " 9 µs  MR=8\n");
  EXPECT_EQ(table.ToText(false, 100), table.ToText());
}

TEST(Output, EveryColumnOfTextGivesWay) {
  Table table({{"device", false}, {"n", true}, {"state", false}});
  table.AddRow({"NVIDIA H200 NVL", "1", "READY"});
  table.AddRow({"GPU-6d3ff2e40cf79f2a", "2", "OFFLINE: gone"});
  EXPECT_EQ(table.ToText(false, 29),
            "device        n  state\n"
            "NVIDIA H200   1  READY\n"
            "NVL\n"
            "GPU-6d3ff2e4  2  OFFLINE:\n"
            "0cf79f2a         gone\n");
}

TEST(Output, HeadersOfNumbersAndThenTheTableGiveWay) {
  Table table({{"recording", false}, {"score in time", true}, {"note", false}});
  table.AddRow({"first_recording", "0.912", "as measured"});
  table.AddRow({"second", "1.000", ""});
  EXPECT_EQ(table.ToText(false, 26),
            "recording  score  note\n"
            "              in\n"
            "            time\n"
            "first_rec  0.912  as\n"
            "ording            measured\n"
            "second     1.000\n");
  // Too narrow for columns: a paragraph for each row.
  EXPECT_EQ(table.ToText(false, 24),
            "recording      first_rec\n"
            "               ording\n"
            "score in time  0.912\n"
            "note           as\n"
            "               measured\n"
            "\n"
            "recording      second\n"
            "score in time  1.000\n");
}

TEST(Output, LinesAreCutBetweenCharacters) {
  EXPECT_EQ(CutTo(0, "best 41 µs"), "best 41 µs");
  EXPECT_EQ(CutTo(10, "best 41 µs"), "best 41 µs");
  EXPECT_EQ(CutTo(9, "best 41 µs"), "best 41 …");
  EXPECT_EQ(CutTo(10, "best 41 µs and more"), "best 41 µ…");
}

}  // namespace
}  // namespace tunefarm::cli
