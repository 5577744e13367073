#include "server/interchange/bests_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/base/status.h"
#include "tests/unit/interchange/sample_bests.h"

namespace tunefarm::interchange {
namespace {

using testing::HasSubstr;

BestsFile Sample() {
  BestsFile file;
  file.source = {"gpu7", "/var/lib/tunefarm", "0.1", 1'700'000'000'000};
  file.bests = {
      SampleBest("matmul", {{"M", Value(64)}, {"t", Value("bf16")}}, {{"A", Value(1)}, {"R", Value(2.0)}}, 41200,
                 95000),
      SampleBest("matmul", {{"M", Value(128)}, {"t", Value("bf16")}}, {{"A", Value(1)}, {"R", Value(2.0)}}, 82400),
      SampleBest("scale", {{"on", Value(true)}}, {{"CHUNK", Value(int64_t{1} << 40)}}, 5)};
  file.bests[0].best.set_program_digest("abc");
  file.bests[0].best.set_promoted_at_ms(1'700'000'000'001);
  file.bests[0].best.set_toolkit_version("13.0");
  file.bests[0].best.set_note("by hand");
  return file;
}

TEST(BestsFileTest, ReadsWhatItWrites) {
  const BestsFile sample = Sample();
  const std::string text = WriteBestsFile(sample);
  const auto read = ReadBestsFile(text, "f");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->source.host, "gpu7");
  EXPECT_EQ(read->source.data_directory, "/var/lib/tunefarm");
  EXPECT_EQ(read->source.exported_at_ms, 1'700'000'000'000);
  ASSERT_EQ(read->bests.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read->bests[i].dims, sample.bests[i].dims);
    EXPECT_EQ(read->bests[i].config, sample.bests[i].config);
    EXPECT_EQ(read->bests[i].best.measurement().median_ns(), sample.bests[i].best.measurement().median_ns());
  }
  EXPECT_EQ(read->bests[0].best.note(), "by hand");
  EXPECT_EQ(read->bests[0].best.promoted_at_ms(), 1'700'000'000'001);
  EXPECT_EQ(WriteBestsFile(*read), text);
}

TEST(BestsFileTest, IsToldApartFromOtherFormats) {
  EXPECT_TRUE(IsBestsFile(WriteBestsFile({})));
  EXPECT_FALSE(IsBestsFile(R"({"results": []})"));
  EXPECT_FALSE(IsBestsFile(std::string(300, ' ') + WriteBestsFile({}))) << "only the beginning is looked at";
}

struct Malformed {
  const char* name;
  const char* from;
  const char* to;
  const char* expected;
};

class MalformedTest : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedTest, OneSentenceWithThePlace) {
  std::string text = WriteBestsFile(Sample());
  const size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, std::string(GetParam().from).size(), GetParam().to);
  const auto read = ReadBestsFile(text, "b.json");
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(MessageOf(read.status())), testing::StartsWith("b.json:"));
  EXPECT_THAT(std::string(MessageOf(read.status())), HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(
    BestsFile, MalformedTest,
    testing::Values(
        Malformed{"no_json", "\"bests\": [", "\"bests\": [,", ":6:"},
        Malformed{"other_format", "tunefarm-bests", "t4", "b.json:2:13: /format: \"format\" is not \"tunefarm-bests\""},
        Malformed{"later_version", "\"version\": 1", "\"version\": 2",
                  "version 2 is not known; this program reads version 1"},
        Malformed{"no_source", "\"source\"", "\"sauce\"", "\"source\" is missing (misspelled as \"sauce\"?)"},
        Malformed{"no_host", "\"host\":\"gpu7\"", "\"host\":\"\"", "/source/host: \"host\" is empty"},
        Malformed{"no_kernel", "\"kernel_name\":\"matmul\"", "\"kernel_name\":7",
                  "/bests/0/kernel_name: a string is needed"},
        Malformed{"no_config", "\"config\":{\"values\":{\"A\"", "\"config\":{\"valves\":{\"A\"",
                  "/bests/0/config: \"values\" is missing"},
        Malformed{"no_value", "{\"int_value\":\"1\"}", "{\"int_value\":\"1x\"}",
                  "/int_value: a whole number is needed"},
        Malformed{"two_values", "{\"int_value\":\"1\"}", "{\"int_value\":\"1\",\"bool_value\":true}",
                  "one of int_value"},
        Malformed{"rounded_value", "{\"int_value\":\"1\"}", "{\"double_value\":9007199254740993}",
                  "/double_value: the integer is more than a double holds exactly"},
        Malformed{"unknown_value", "{\"int_value\":\"1\"}", "{\"float_value\":1}", "this is none of int_value"},
        Malformed{"no_time", "\"median_ns\":41200", "\"median_ns\":0",
                  "/bests/0/measurement: \"median_ns\" must be a time"}),
    [](const auto& malformed) { return std::string(malformed.param.name); });

TEST(BestsFileTest, NamesAreBounded) {
  BestsFile file = Sample();
  (*file.bests[0].best.mutable_config()->mutable_values())[std::string(257, 'x')].set_int_value(1);
  const auto read = ReadBestsFile(WriteBestsFile(file), "b.json");
  EXPECT_THAT(std::string(MessageOf(read.status())), HasSubstr("a name has 1 to 256 bytes"));
}

}  // namespace
}  // namespace tunefarm::interchange
