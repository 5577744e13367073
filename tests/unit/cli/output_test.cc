#include "client/cli/output.h"

#include <gtest/gtest.h>

#include "client/cli/help_format.h"
#include "tunefarm/v1/job.pb.h"

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
  EXPECT_EQ(table.ToText(true), "a\nplain\n\x1b[1mbold\x1b[0m\n\x1b[31mred\x1b[0m\n");
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

TEST(JsonTest, IsCanonicalProtoJsonWithFieldNames) {
  v1::JobEvent event;
  event.set_event_id(7);
  event.set_message("a \"quoted\" line");
  EXPECT_EQ(ToJson(event), "{\n \"event_id\": \"7\",\n \"message\": \"a \\\"quoted\\\" line\"\n}\n");
  EXPECT_EQ(ToJson(v1::JobEvent()), "{}\n");
  v1::Strategy strategy;
  for (const char* name : {"c", "a", "b"}) (*strategy.mutable_options())[name] = "1";
  EXPECT_EQ(ToJson(strategy), "{\n \"options\": {\n  \"a\": \"1\",\n  \"b\": \"1\",\n  \"c\": \"1\"\n }\n}\n");
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
  // Too narrow to help, and wide enough.
  EXPECT_EQ(table.ToText(false, 20), table.ToText());
  EXPECT_EQ(table.ToText(false, 100), table.ToText());
}

TEST(Output, LinesAreCutBetweenCharacters) {
  EXPECT_EQ(CutTo(0, "best 41 µs"), "best 41 µs");
  EXPECT_EQ(CutTo(10, "best 41 µs"), "best 41 µs");
  EXPECT_EQ(CutTo(9, "best 41 µs"), "best 41 …");
  EXPECT_EQ(CutTo(10, "best 41 µs and more"), "best 41 µ…");
}

}  // namespace
}  // namespace tunefarm::cli
