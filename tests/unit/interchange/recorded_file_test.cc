#include "server/interchange/recorded_file.h"

#include <fmt/core.h>

#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/file.h"
#include "server/base/status.h"

namespace tunefarm::interchange {
namespace {

constexpr char kT4[] = R"({
  "schema_version": "1.0.0",
  "metadata": {"timeunit": "miliseconds"},
  "results": [
    {"timestamp": "t", "configuration": {"b": 32, "a": 1.5, "f": true, "s": "x"},
     "times": {"compilation": 10, "framework": 1, "search_algorithm": 0, "validation": 2, "runtimes": [1, 3]},
     "invalidity": "correct", "correctness": 1, "measurements": [{"name": "time", "value": 2.5, "unit": ""}], "objectives": ["time"]},
    {"configuration": {"a": 2.5, "b": 32, "f": false, "s": "x"}, "times": {"compilation_time": 7, "runtimes": []},
     "invalidity": "compile", "correctness": 0, "measurements": [{"name": "time", "value": "CompilationFailedConfig"}]},
    {"configuration": {"a": 3.5, "b": 32, "f": false, "s": "x"}, "times": {"runtimes": [4, 6]}, "invalidity": "correct", "correctness": 1}
  ]
})";

constexpr char kCache[] = R"({
"device_name": "NVIDIA A100-PCIE-40GB",
"kernel_name": "k",
"problem_size": [4096, 16],
"tune_params_keys": ["x", "y"],
"tune_params": {"x": [1, 2], "y": [3]},
"objective": "time",
"cache": {
"1,3": {"x": 1, "y": 3, "time": 1.25, "times": [1.0, 1.5], "compile_time": 100.0, "verification_time": 0, "benchmark_time": 3.5,
        "strategy_time": 0, "framework_time": 0.5, "timestamp": "2023-01-01 00:00:00+00:00", "GFLOP/s": 7.0},
"2,3": {"x": 2, "y": 3, "time": "RuntimeFailedConfig", "compile_time": 90.0},
)";

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// The row with the best objective; null if none is correct.
const RecordedRow* BestOf(const RecordedFile& file) {
  const RecordedRow* best = nullptr;
  for (const RecordedRow& row : file.rows) {
    if (row.invalidity != Invalidity::kCorrect || !row.objective.has_value()) continue;
    if (best == nullptr || *file.Minimised(row) < *file.Minimised(*best)) best = &row;
  }
  return best;
}

TEST(RecordedFile, ReadsT4) {
  const auto file = ReadRecordedFile(kT4, "f");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->format, RecordedFile::Format::kT4);
  EXPECT_EQ(file->parameters, (std::vector<std::string>{"b", "a", "f", "s"}));
  ASSERT_EQ(file->rows.size(), 3u);
  EXPECT_EQ(file->rows[0].config.ToText(), "a=1.5,b=32,f=true,s=x");
  EXPECT_EQ(file->rows[0].objective, 2.5);
  EXPECT_EQ(file->rows[0].compile_ms, 10);
  EXPECT_EQ(file->rows[0].CostMs(), 10 + 1 + 2 + 1 + 3);
  EXPECT_EQ(file->rows[1].invalidity, Invalidity::kCompile);
  EXPECT_FALSE(file->rows[1].objective.has_value());
  EXPECT_EQ(file->rows[1].compile_ms, 7);
  EXPECT_EQ(file->rows[2].objective, 5);  // the mean
  EXPECT_EQ(BestOf(*file), &file->rows[0]);
  EXPECT_EQ(file->notes.size(), 1u);
}

TEST(RecordedFile, ReadsKernelTunersCacheAlsoOfAKilledRun) {
  for (const std::string& end : {std::string("}}"), std::string(""), std::string("\"4,3\": {\"x\": 4,")}) {
    const std::string text =
        end == "}}" ? Replaced(std::string(kCache) + end, "90.0},\n}}", "90.0}\n}}") : kCache + end;
    const auto file = ReadRecordedFile(text, "f");
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->format, RecordedFile::Format::kKernelTunerCache);
    EXPECT_EQ(file->device_name, "NVIDIA A100-PCIE-40GB");
    EXPECT_EQ(file->kernel_name, "k");
    EXPECT_EQ(file->problem_size, "4096x16");
    ASSERT_EQ(file->rows.size(), 2u);
    EXPECT_EQ(file->rows[0].config.ToText(), "x=1,y=3");
    EXPECT_EQ(file->rows[0].objective, 1.25);
    EXPECT_EQ(file->rows[0].CostMs(), 104);
    EXPECT_EQ(file->rows[1].invalidity, Invalidity::kRuntime);
    EXPECT_EQ(file->is_truncated, end != "}}");
    EXPECT_EQ(file->notes.size(), end != "}}" ? 1u : 0u);
  }
}

TEST(RecordedFile, ValuesOfOneTextAndTwoTypesAreTwoConfigs) {
  const std::string row =
      R"({"configuration": {"a": %}, "times": {"runtimes": [1]}, "invalidity": "correct", "correctness": 1})";
  const std::string text = "{\"results\": [" + Replaced(row, "%", "1") + "," + Replaced(row, "%", "\"1\"") + "," +
                           Replaced(row, "%", "1.0") + "," + Replaced(row, "%", "true") + "]}";
  const auto file = ReadRecordedFile(text, "f");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->rows.size(), 4u);
}

TEST(RecordedFile, ErrorsNameTheFieldAndThePlace) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"\"invalidity\": \"compile\"", "\"invalidity\": \"bad\"",
       "f:9:20: /results/1/invalidity: this is none of correct"},
      {"\"a\": 2.5", "\"c\": 2.5", "f:8:23: /results/1/configuration: the parameter \"a\" of the first row is missing"},
      {"\"a\": 2.5", "\"a\": 2.5, \"z\": 1",
       "f:8:23: /results/1/configuration: there are parameters that the first row lacks"},
      {"\"a\": 2.5", "\"a\": []",
       "f:8:29: /results/1/configuration/a: a value of a parameter is needed here, not an array"},
      {"\"a\": 3.5", "\"a\": 2.5", "f:10:5: /results/2: this config stands in the file twice"},
      {"\"a\": 2.5", "\"a\": 9223372036854775808",
       "f:8:29: /results/1/configuration/a: the integer does not fit in 64 bits"},
      {"\"a\": 2.5", "\"a\": -9223372036854775809",
       "f:8:29: /results/1/configuration/a: the integer does not fit in 64 bits"},
      {"\"a\": 2.5", "\"a\": NaN",
       "f:8:29: /results/1/configuration/a: a value of a parameter cannot be NaN or infinite"},
      {"\"miliseconds\"", "\"fortnights\"",
       "f:3:28: /metadata/timeunit: 'fortnights' is no known unit of time; s, ms, us and ns are"},
      {"\"unit\": \"\"", "\"unit\": \"h\"",
       "f:7:105: /results/0/measurements/0/unit: 'h' is no known unit of time; s, ms, us and ns are"},
      {"\"results\"", "\"result\"", "f:1:1: there is neither \"results\" (T4) nor \"cache\" (Kernel Tuner)"},
  };
  for (const auto& [from, to, message] : cases) {
    const auto file = ReadRecordedFile(Replaced(kT4, from, to), "f");
    ASSERT_FALSE(file.ok()) << to;
    EXPECT_EQ(std::string(MessageOf(file.status())).substr(0, std::string(message).size()), message);
    EXPECT_FALSE(ReasonOf(file.status()).empty());
  }
  EXPECT_NE(MessageOf(ReadRecordedFile(Replaced(kCache, "\"y\": 3, ", ""), "f").status())
                .find("the parameter \"y\" is missing"),
            std::string::npos);
  EXPECT_EQ(MessageOf(ReadRecordedFile("{\"results\": []}", "f").status()), "f:1:1: the file has no results");
  for (const char* other : {"block_size_x,time\n32,1.5\n", "[]", "\xFF\xFE{"}) {
    EXPECT_EQ(MessageOf(ReadRecordedFile(other, "f").status()),
              "f:1:1: this is neither a T4 file nor a cache file of Kernel Tuner: those are objects in JSON");
  }
  EXPECT_NE(MessageOf(ReadRecordedFile("\x1f\x8b garbage", "f").status()).find("f: byte "), std::string::npos);
}

std::string FileText(const std::string& rows) { return "{\"results\": [" + rows + "]}"; }

std::string RowText(int a, const std::string& measurement, const std::string& more = "") {
  return "{\"configuration\": {\"a\": " + std::to_string(a) + "}, \"invalidity\": \"correct\", \"measurements\": [" +
         measurement + "]" + more + "}";
}

TEST(RecordedFile, RowsWithoutAUsableObjectiveAreLeftOutAndCounted) {
  for (const char* value : {"NaN", "Infinity", "-Infinity", "-1.5", "0", "\"oops\"", "null", "[]"}) {
    std::string text = Replaced(kCache, "\"time\": \"RuntimeFailedConfig\"", std::string("\"time\": ") + value);
    const auto file = ReadRecordedFile(Replaced(text, "90.0},", "90.0}}}"), "f");
    ASSERT_TRUE(file.ok()) << value << file.status();
    EXPECT_EQ(file->rows.size(), 1u) << value;
    ASSERT_EQ(file->notes.size(), 1u) << value;
    EXPECT_EQ(file->notes[0], "1 of 2 rows is left out: \"time\" is no number above 0; the first is /cache/2,3.");
  }
  // The first row gives the names of the parameters, kept or not.
  const auto first = ReadRecordedFile(FileText(RowText(1, "{\"name\": \"time\", \"value\": NaN}") + "," +
                                               RowText(2, "{\"name\": \"time\", \"value\": 3}")),
                                      "f");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->parameters, std::vector<std::string>{"a"});
  EXPECT_EQ(first->rows.size(), 1u);
  const auto none = ReadRecordedFile(FileText(RowText(1, "{\"name\": \"time\", \"value\": NaN}")), "f");
  EXPECT_EQ(MessageOf(none.status()), "f:1:1: no row of the file can be read: none has a \"time\" above 0");
}

TEST(RecordedFile, ATextThatLooksLikeNanIsText) {
  const auto file = ReadRecordedFile(Replaced(Replaced(kT4, "\"s\": \"x\"", "\"s\": \"NaN, Infinity \\\" NaN\""),
                                              "\"runtimes\": [1, 3]", "\"runtimes\": [NaN, 3]"),
                                     "f");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->rows[0].config.Find("s")->string_value(), "NaN, Infinity \" NaN");
  EXPECT_EQ(file->rows[0].runtimes_ms, std::vector<double>{3});
}

TEST(RecordedFile, TimesThatAreNoneAreUnknown) {
  const auto file = ReadRecordedFile(
      Replaced(Replaced(kT4, "\"compilation\": 10", "\"compilation\": -10"), "[1, 3]", "[1, \"x\", -Infinity]"), "f");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE(file->rows[0].compile_ms.has_value());
  EXPECT_EQ(file->rows[0].runtimes_ms, std::vector<double>{1});
  ASSERT_EQ(file->notes.size(), 2u);
  EXPECT_EQ(file->notes[1],
            "3 times are negative or no numbers and count as unknown; the first is /results/0/times/compilation.");
}

TEST(RecordedFile, ReadsTheErrorsOfNewAndOldKernelTuners) {
  const std::pair<const char*, Invalidity> cases[] = {
      {"\"__error__\": \"InvalidConfig\"", Invalidity::kConstraints},
      {"\"__error__\": \"CompilationFailedConfig\"", Invalidity::kCompile},
      {"\"__error__\": \"RuntimeFailedConfig\", \"time\": NaN", Invalidity::kRuntime},
      {"\"__error__\": \"SomethingNewConfig\"", Invalidity::kRuntime},
      {"\"time\": 1e20", Invalidity::kRuntime},
      {"\"time\": 1e+20", Invalidity::kRuntime},
      {"\"time\": 100000000000000000000", Invalidity::kRuntime},
      {"\"time\": 1.7976931348623157e+308", Invalidity::kRuntime},
      {"\"time\": \"InvalidConfig\"", Invalidity::kConstraints},
  };
  for (const auto& [text, invalidity] : cases) {
    const auto file = ReadRecordedFile(
        Replaced(Replaced(kCache, "\"time\": \"RuntimeFailedConfig\"", text), "90.0},", "90.0}}}"), "f");
    ASSERT_TRUE(file.ok()) << text << file.status();
    ASSERT_EQ(file->rows.size(), 2u) << text;
    EXPECT_EQ(file->rows[1].invalidity, invalidity) << text;
    EXPECT_FALSE(file->rows[1].objective.has_value()) << text;
    EXPECT_TRUE(file->notes.empty()) << text;
  }
}

TEST(RecordedFile, ObjectivesHaveADirection) {
  const std::string cache =
      Replaced(kCache, "\"time\": \"RuntimeFailedConfig\"", "\"time\": 9, \"GFLOP/s\": 3, \"own\": 2");
  const std::string whole =
      Replaced(Replaced(cache, "90.0},", "90.0}}}"), "\"GFLOP/s\": 7.0", "\"GFLOP/s\": 7.0, \"own\": 1");
  const auto best = [&](const char* in_file, const RecordedObjective& wanted) {
    const auto file = ReadRecordedFile(Replaced(whole, "\"objective\": \"time\"", in_file), "f", wanted);
    return file.ok() ? fmt::format("{} {} {}", file->objective, file->is_maximised, *BestOf(*file)->objective)
                     : std::string(MessageOf(file.status()));
  };
  EXPECT_EQ(best("\"objective\": \"time\"", {}), "time false 1.25");
  EXPECT_EQ(best("\"objective\": \"GFLOP/s\"", {}), "GFLOP/s true 7");
  EXPECT_EQ(best("\"objective\": [\"GFLOP/s\"]", {}), "GFLOP/s true 7");
  EXPECT_EQ(best("\"objective\": [\"time\", \"GFLOP/s\"]", {}), "time false 1.25");
  EXPECT_EQ(best("\"objective\": \"time\"", {"GFLOP/s"}), "GFLOP/s true 7");
  EXPECT_EQ(best("\"objective\": \"GFLOP/s\"", {"GFLOP/s", false}), "GFLOP/s false 3");
  EXPECT_EQ(best("\"objective\": \"own\"", {"own", true}), "own true 2");
  EXPECT_EQ(best("\"objective\": \"own\"", {"own", false}), "own false 1");
  EXPECT_EQ(best("\"objective\": \"own\"", {}),
            "f: whether the objective \"own\" is minimised or maximised is not known; say it: --recorded-objective "
            "own:min or own:max");
  const auto several =
      ReadRecordedFile(Replaced(whole, "\"objective\": \"time\"", "\"objective\": [\"GB/s\", \"time\"]"), "f");
  EXPECT_NE(MessageOf(several.status()).find("none has a \"GB/s\" above 0"), std::string::npos) << several.status();
}

TEST(RecordedFile, ParsesTheObjectiveThatIsAskedFor) {
  EXPECT_EQ(ParseRecordedObjective("GB/s")->name, "GB/s");
  EXPECT_FALSE(ParseRecordedObjective("GB/s")->is_maximised.has_value());
  EXPECT_EQ(ParseRecordedObjective("a:b:max")->name, "a:b");
  EXPECT_EQ(ParseRecordedObjective("a:max")->is_maximised, true);
  EXPECT_EQ(ParseRecordedObjective("a:min")->is_maximised, false);
  EXPECT_FALSE(ParseRecordedObjective("").ok());
  EXPECT_FALSE(ParseRecordedObjective(":min").ok());
}

TEST(RecordedFile, UnitsOfTimesAreConverted) {
  const std::string times = ", \"times\": {\"compilation_time\": 2, \"runtimes\": [4]}";
  const auto read = [&](const char* unit, const char* file_unit) {
    const std::string measurement = std::string("{\"name\": \"time\", \"value\": 5, \"unit\": ") + unit + "}";
    return ReadRecordedFile(std::string("{\"metadata\": {\"timeunit\": \"") + file_unit + "\"}, " +
                                FileText(RowText(1, measurement, times)).substr(1),
                            "f");
  };
  const std::tuple<const char*, const char*, double, double> cases[] = {
      {"\"\"", "milliseconds", 5, 2},
      {"null", "ms", 5, 2},
      {"\"ms\"", "ms", 5, 2},
      {"\"s\"", "ms", 5000, 2},
      {"\"us\"", "ms", 0.005, 2},
      {"\"\xc2\xb5s\"", "ms", 0.005, 2},
      {"\"nanoseconds\"", "ms", 5e-6, 2},
      {"\"\"", "seconds", 5000, 2000},
      {"\"ms\"", "s", 5, 2000},
      {"\"\"", "us", 0.005, 0.002},
  };
  for (const auto& [unit, file_unit, objective, compile] : cases) {
    const auto file = read(unit, file_unit);
    ASSERT_TRUE(file.ok()) << unit << file_unit << file.status();
    EXPECT_DOUBLE_EQ(*file->rows[0].objective, objective) << unit << file_unit;
    EXPECT_DOUBLE_EQ(*file->rows[0].compile_ms, compile) << unit << file_unit;
    EXPECT_DOUBLE_EQ(file->rows[0].runtimes_ms[0], 2 * compile) << unit << file_unit;
  }
  // The mean of the samples is in the file's unit.
  const auto mean =
      ReadRecordedFile("{\"metadata\": {\"timeunit\": \"s\"}, " + FileText(RowText(1, "", times)).substr(1), "f");
  ASSERT_TRUE(mean.ok()) << mean.status();
  EXPECT_DOUBLE_EQ(*mean->rows[0].objective, 4000);
}

TEST(RecordedFile, OtherObjectivesHaveOneUnit) {
  const auto read = [](const char* unit) {
    const auto row = [](int a, const std::string& of) {
      return RowText(a, "{\"name\": \"energy\", \"value\": 5, \"unit\": \"" + of + "\"}",
                     ", \"objectives\": [\"energy\"]");
    };
    return ReadRecordedFile(FileText(row(1, "J") + "," + row(2, unit)), "f");
  };
  EXPECT_TRUE(read("J").ok());
  EXPECT_NE(MessageOf(read("mJ").status()).find("the unit of \"energy\" is 'mJ' here and 'J' in the rows before"),
            std::string::npos);
}

TEST(RecordedFile, WhatIsWrittenReadsBackTheSame) {
  T4Row row;
  row.timestamp = "2026-11-21 09:54:05+00:00";
  row.config = Config({{"a", 1}, {"b", 0.5}, {"c", true}, {"d", "bf16"}});
  row.runtimes_ms = {1.5, 2.5};
  row.compile_ms = 30;
  row.measurements = {{"time", 1.75, "ms"}, {"registers", 32, ""}};
  T4Row failed;
  failed.config = Config({{"a", 2}, {"b", 0.5}, {"c", true}, {"d", "b\xff"}});
  failed.invalidity = Invalidity::kTimeout;
  failed.correctness = 0;
  failed.compile_ms = 1.0 / 0.0;
  const std::string text = WriteT4({"d", "a", "b", "c"}, {row, failed});
  const auto file = ReadRecordedFile(text, "f");
  ASSERT_TRUE(file.ok()) << file.status() << "\n" << text;
  EXPECT_EQ(file->parameters, (std::vector<std::string>{"d", "a", "b", "c"}));
  ASSERT_EQ(file->rows.size(), 2u);
  EXPECT_EQ(file->rows[0].config, row.config);
  EXPECT_EQ(file->rows[0].objective, 1.75);
  EXPECT_EQ(file->rows[0].runtimes_ms, row.runtimes_ms);
  EXPECT_EQ(file->rows[0].compile_ms, 30);
  EXPECT_EQ(file->rows[0].timestamp, row.timestamp);
  EXPECT_EQ(file->rows[1].invalidity, Invalidity::kTimeout);
  EXPECT_TRUE(file->notes.empty());
}

TEST(RecordedFile, PublishedFilesHaveTheirPublishedFacts) {
  const char* folder = std::getenv("TUNEFARM_TEST_DATA");
  if (folder == nullptr) {
    ASSERT_EQ(std::getenv("TUNEFARM_REQUIRE_TEST_DATA"), nullptr) << "TUNEFARM_TEST_DATA is not set";
    GTEST_SKIP() << "TUNEFARM_TEST_DATA is not set";
  }
  auto bytes = ReadFile(std::string(folder) + "/t4/convolution_milo_A100_T4.json.gz", 64 << 20);
  ASSERT_TRUE(bytes.ok());
  const auto file = ReadRecordedFile(*std::move(bytes), "A100");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->rows.size(), 4362u);
  size_t counts[6] = {};
  for (const RecordedRow& row : file->rows) ++counts[static_cast<size_t>(row.invalidity)];
  EXPECT_EQ(counts[static_cast<size_t>(Invalidity::kCorrect)], 4201u);
  EXPECT_EQ(counts[static_cast<size_t>(Invalidity::kRuntime)], 155u);
  EXPECT_EQ(counts[static_cast<size_t>(Invalidity::kCompile)], 6u);
  ASSERT_NE(BestOf(*file), nullptr);
  EXPECT_NEAR(*BestOf(*file)->objective, 0.5536, 5e-5);
  EXPECT_EQ(BestOf(*file)->config.ToText(),
            "block_size_x=32,block_size_y=4,filter_height=15,filter_width=15,read_only=1,tile_size_x=1,tile_size_y=3,"
            "use_cmem=1,"
            "use_padding=0,use_shmem=1");
}

}  // namespace
}  // namespace tunefarm::interchange
