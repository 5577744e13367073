#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "server/base/file.h"
#include "server/base/unique_fd.h"
#include "tests/golden/command_line.h"

namespace tunefarm::golden {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

// Of a file that a command wrote.
std::string Written(const CommandLine& cli, const std::string& name) {
  const auto text = ReadFile(cli.directory().File(name), 1 << 20);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

TEST(ExportTest, Tables) {
  CommandLine cli;
  cli.Record({"export", "csv", "--kernel", "scale_host"});
  cli.Record({"export", "json", "--kernel", "scale_host", "--device", "other"});
  cli.Record({"export", "markdown"});
  cli.Comment("What is not there.");
  EXPECT_EQ(cli.Record({"export", "csv", "--kernel", "stored"}).code, 3);
  EXPECT_EQ(cli.Record({"export", "csv", "--kernel", "scale_host", "--device", "H200"}).code, 3);
  EXPECT_EQ(cli.Record({"export", "csv", "--kernel", "scale_host", "--dim", "N=1..64*2"}).code, 3);
  EXPECT_EQ(cli.Record({"export", "csv", "--dim", "N"}).code, 2);
  EXPECT_EQ(cli.Record({"export", "csw"}).code, 2);
  cli.ExpectMatches("export_tables");
}

TEST(ExportTest, LinksPipesAndDevicesStay) {
  CommandLine cli;
  const std::vector<std::string> csv = {"export", "csv", "--kernel", "scale_host"};
  const std::string text = cli.Run(csv).out;
  ASSERT_FALSE(text.empty());
  const auto to = [&](const std::string& file) {
    std::vector<std::string> words = csv;
    words.insert(words.end(), {"--file", file});
    return cli.Run(words);
  };
  EXPECT_EQ(to("-").out, text);
  ASSERT_TRUE(WriteFileAtomically(cli.directory().File("target"), "old", 0640).ok());
  ASSERT_EQ(symlink("target", cli.directory().File("link").c_str()), 0);
  EXPECT_EQ(to(cli.directory().File("link")).code, 0);
  EXPECT_EQ(Written(cli, "target"), text);
  EXPECT_TRUE(fs::is_symlink(cli.directory().File("link")));
  EXPECT_EQ(fs::status(cli.directory().File("target")).permissions(), fs::perms(0640));
  const std::string pipe = cli.directory().File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const UniqueFd reader(open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_EQ(to(pipe).code, 0);
  std::string read_back(text.size() + 1, '\0');
  EXPECT_EQ(read(reader.get(), read_back.data(), read_back.size()), static_cast<ssize_t>(text.size()));
  EXPECT_TRUE(fs::is_fifo(pipe));
  ASSERT_EQ(symlink("/dev/full", cli.directory().File("full").c_str()), 0);
  const Result full = to(cli.directory().File("full"));
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.err, testing::HasSubstr("No space left on device"));
}

TEST(ExportTest, ColumnsOfBenchmarkScripts) {
  CommandLine cli;
  cli.Record({"export", "csv", "--job", "27"});
  cli.Record({"export", "csv", "--job", "27", "--dim", "tokens=64", "--all-columns"});
  cli.Record({"export", "csv", "--benchmark", "--kernel", "grouped_gemm_forward", "--dim", "topk=8"});
  cli.Comment("Only for the kernels whose columns they are.");
  EXPECT_EQ(cli.Record({"export", "csv", "--benchmark"}).code, 2);
  EXPECT_EQ(cli.Record({"export", "csv", "--job", "17"}).code, 2);
  EXPECT_EQ(cli.Record({"export", "csv", "--job", "404"}).code, 3);
  cli.ExpectMatches("export_benchmark");
}

TEST(ExportTest, Aiter) {
  CommandLine cli;
  cli.Record({"export", "aiter", "--kernel", "grouped_gemm_forward", "--dim", "topk=8", "-q"});
  cli.Record({"export", "aiter", "--kernel", "grouped_gemm_forward", "--dim", "topk=8", "--keys", "guide", "--file",
              cli.directory().File("guide.json")});
  ExpectEqualsFile("export_aiter_guide.json", Written(cli, "guide.json"));
  const std::vector<std::string> gemm = {"export",      "aiter",           "--kernel",    "gemm",
                                         "--parameter", "BLOCK_SIZE_M=BM", "--parameter", "BLOCK_SIZE_N=BN",
                                         "--parameter", "BLOCK_SIZE_K=BK"};
  cli.Comment("A file for each shape.");
  EXPECT_EQ(cli.Record(gemm).code, 2);
  std::vector<std::string> words = gemm;
  words.insert(words.end(), {"--arch", "gfx942", "--tag", "A16W16", "--dir", cli.directory().File("configs")});
  cli.Record(words);
  ExpectEqualsFile("export_aiter_gemm.json", Written(cli, "configs/gfx942-GEMM-A16W16-N=4096-K=1024.json"));
  ExpectEqualsFile("export_aiter_gemm.seed.json",
                   Written(cli, "configs/gfx942-GEMM-A16W16-N=4096-K=1024.json.seed.json"));
  EXPECT_EQ(cli.Record({"export", "aiter", "--kernel", "gemm"}).code, 2);
  EXPECT_EQ(cli.Record({"export", "aiter", "--kernel", "gemm", "--dir", "x", "--file", "y"}).code, 2);
  cli.ExpectMatches("export_aiter");
}

TEST(ExportTest, Header) {
  CommandLine cli;
  const std::string file = cli.directory().File("tuned.h");
  cli.Record({"export", "header", "--namespace", "my_project::tuned", "--file", file});
  ExpectEqualsFile("export_header_text.txt", Written(cli, "tuned.h"));
  EXPECT_EQ(cli.Record({"export", "header", "--namespace", "1"}).code, 2);
  cli.ExpectMatches("export_header");
}

// A T4 file of results of scale_host: CHUNK, UNROLL and milliseconds; without a time, one that failed.
std::string ScaleT4(const std::vector<std::tuple<int, int, double>>& results) {
  std::string rows;
  for (const auto& [chunk, unroll, ms] : results) {
    const std::string outcome = ms > 0 ? "correct" : "runtime";
    rows += (rows.empty() ? "" : ",") +
            fmt::format(R"({{"configuration": {{"CHUNK": {}, "UNROLL": {}}}, "times": {{"runtimes": [{}]}},)"
                        R"( "invalidity": "{}", "correctness": 1, "measurements": [{}]}})",
                        chunk, unroll, ms, outcome,
                        ms > 0 ? fmt::format(R"({{"name": "time", "value": {}, "unit": "ms"}})", ms) : "");
  }
  return "{\"results\": [" + rows + "]}";
}

// "problem: config" of what the last job tries first.
std::vector<std::string> Starts(CommandLine* cli) {
  std::vector<std::string> texts;
  const v1::CreateJobRequest request = cli->daemon()->last_create_job();
  for (const v1::StartingConfig& starting : request.job().starting_configs()) {
    texts.push_back(fmt::format("{}: CHUNK={},UNROLL={}", starting.problem_index(),
                                starting.config().values().at("CHUNK").int_value(),
                                starting.config().values().at("UNROLL").int_value()));
  }
  return texts;
}

TEST(ExportTest, BestsGoToAnotherMachineAndAreMeasuredThere) {
  CommandLine cli;
  const std::string file = cli.directory().File("bests.json");
  cli.Record({"export", "bests", file, "--kernel", "scale_host", "--source", "gpu7"});
  cli.Comment("Its problems are tuned where none is named, each with its own configs, of any device class.");
  cli.Record({"submit", "scale_host", "--starting-configs", file});
  const v1::Job job = cli.daemon()->last_create_job().job();
  ASSERT_EQ(job.problems_size(), 2);
  EXPECT_EQ(job.problems(0).dims().at("N").int_value(), 4096);
  EXPECT_EQ(job.problems(1).dims().at("N").int_value(), 1048576);
  EXPECT_THAT(Starts(&cli), ElementsAre("0: CHUNK=256,UNROLL=8", "0: CHUNK=512,UNROLL=8", "1: CHUNK=8192,UNROLL=4"));
  cli.Comment("A problem without configs of its own begins with those of others.");
  cli.Record({"submit", "scale_host", "--starting-configs", file, "--dim", "N=4096,16384"});
  EXPECT_THAT(Starts(&cli), ElementsAre("0: CHUNK=256,UNROLL=8", "0: CHUNK=512,UNROLL=8", "1: CHUNK=256,UNROLL=8",
                                        "1: CHUNK=8192,UNROLL=4", "1: CHUNK=512,UNROLL=8"));
  EXPECT_EQ(cli.Run({"submit", "scale_host", "--starting-configs", file, "--dim", "N=1048576"}).code, 0);
  EXPECT_THAT(Starts(&cli), ElementsAre("0: CHUNK=8192,UNROLL=4"));
  cli.Comment("Bests of other kernels, and no file.");
  ASSERT_EQ(cli.Run({"export", "bests", file, "--kernel", "gemm"}).code, 0);
  EXPECT_EQ(cli.Record({"submit", "scale_host", "--starting-configs", file}).code, 2);
  EXPECT_EQ(cli.Record({"submit", "scale_host", "--starting-configs", cli.directory().File("nowhere.json")}).code, 3);
  cli.ExpectMatches("export_bests");
}

TEST(ExportTest, Package) {
  CommandLine cli;
  const std::string file = cli.directory().File("kernels.tfpack"), bests = cli.directory().File("bests.json");
  cli.Record({"export", "package", file, "--kernel", "scale_host", "--device", "H200", "--dim", "N=64..256*2"});
  EXPECT_EQ(Written(cli, "kernels.tfpack"), "a package");
  cli.Comment("What is left out is said before the error.");
  EXPECT_EQ(cli.Record({"export", "package", file, "--kernel", "stored"}).code, 1);
  cli.Comment("Bests of files go with the built-in definitions of their kernels.");
  ASSERT_EQ(cli.Run({"export", "bests", bests, "--kernel", "scale_host"}).code, 0);
  cli.Record({"export", "package", file, "--bests", bests});
  cli.Record({"export", "package", file, "--bests", bests, "--bests", bests, "--kernel", "scale_host"});
  EXPECT_EQ(cli.Record({"export", "package", file, "--bests", bests, "--kernel", "gemm"}).code, 3);
  EXPECT_EQ(cli.Record({"export", "package", file, "--bests", cli.directory().File("nowhere.json")}).code, 3);
  cli.ExpectMatches("export_package");
}

TEST(ExportTest, ResultsOfOtherToolsAreTriedFirst) {
  CommandLine cli;
  const std::string file = cli.directory().File("results.json");
  const auto write = [&file](const std::string& text) { ASSERT_TRUE(WriteFileAtomically(file, text).ok()); };
  cli.Comment("The fastest first; what does not fit the kernel is counted, and the first reason is given.");
  write(ScaleT4({{512, 2, 0.5}, {1024, 2, 0.25}, {100, 2, 0.1}, {4096, 3, 0.7}, {2048, 1, 0}}));
  cli.Record({"submit", "scale_host", "--starting-configs", file});
  EXPECT_THAT(Starts(&cli), ElementsAre("0: CHUNK=1024,UNROLL=2", "0: CHUNK=512,UNROLL=2"));
  cli.Comment("No problem gets more than 16.");
  std::vector<std::tuple<int, int, double>> many;
  for (int i = 0; i < 20; ++i) many.emplace_back(256 << (i / 4), 1 << (i % 4), 20 - i);
  write(ScaleT4(many));
  cli.Record({"submit", "scale_host", "--starting-configs", file, "--dim", "N=64,128"});
  EXPECT_EQ(Starts(&cli).size(), 32u);
  EXPECT_EQ(Starts(&cli)[0], "0: CHUNK=4096,UNROLL=8");
  cli.Comment("A cache file of Kernel Tuner.");
  const auto cache = [](const std::string& name) {
    return fmt::format(R"({{"device_name": "d", "kernel_name": "k", "problem_size": "1",
"tune_params_keys": ["{0}", "UNROLL"], "tune_params": {{}}, "objective": "time",
"cache": {{"512,1": {{"{0}": 512, "UNROLL": 1, "time": 0.5, "times": [0.5]}}}}}})",
                       name);
  };
  write(cache("CHUNK"));
  cli.Record({"submit", "scale_host", "--starting-configs", file});
  EXPECT_THAT(Starts(&cli), ElementsAre("0: CHUNK=512,UNROLL=1"));
  cli.Comment("More GFLOP/s are better; of another objective it must be said.");
  const auto rates = [](const std::string& objective) {
    return fmt::format(R"({{"tune_params_keys": ["CHUNK", "UNROLL"], "objective": ["{0}"], "cache": {{
"512,1": {{"CHUNK": 512, "UNROLL": 1, "{0}": 5}}, "1024,1": {{"CHUNK": 1024, "UNROLL": 1, "{0}": 9}},
"2048,1": {{"CHUNK": 2048, "UNROLL": 1, "__error__": "CompilationFailedConfig"}},
"4096,1": {{"CHUNK": 4096, "UNROLL": 1, "{0}": NaN}}}}}})",
                       objective);
  };
  write(rates("GFLOP/s"));
  cli.Record({"submit", "scale_host", "--starting-configs", file});
  EXPECT_THAT(Starts(&cli), ElementsAre("0: CHUNK=1024,UNROLL=1", "0: CHUNK=512,UNROLL=1"));
  write(rates("speed"));
  EXPECT_EQ(cli.Record({"submit", "scale_host", "--starting-configs", file}).code, 2);
  EXPECT_EQ(cli.Run({"submit", "scale_host", "--starting-configs", file, "--recorded-objective", "speed:max"}).code, 0);
  EXPECT_THAT(Starts(&cli), ElementsAre("0: CHUNK=1024,UNROLL=1", "0: CHUNK=512,UNROLL=1"));
  EXPECT_EQ(cli.Run({"submit", "scale_host", "--starting-configs", file, "--recorded-objective", "speed:min"}).code, 0);
  EXPECT_THAT(Starts(&cli), ElementsAre("0: CHUNK=512,UNROLL=1", "0: CHUNK=1024,UNROLL=1"));
  cli.Comment("Nothing that fits, nothing with a time, and no such file.");
  write(cache("CHUNKS"));
  EXPECT_EQ(cli.Record({"submit", "scale_host", "--starting-configs", file}).code, 2);
  write(ScaleT4({{512, 2, 0}}));
  EXPECT_EQ(cli.Record({"submit", "scale_host", "--starting-configs", file}).code, 2);
  write("{}");
  EXPECT_EQ(cli.Record({"submit", "scale_host", "--starting-configs", file}).code, 2);
  cli.ExpectMatches("starting_configs");
}

TEST(ExportTest, Completion) {
  CommandLine cli;
  cli.Record({"__complete", "export", ""});
  cli.Record({"__complete", "export", "aiter", "--keys", ""});
  cli.Record({"__complete", "export", "csv", "--kernel", "sc"});
  cli.Record({"__complete", "tune", "--starting"});
  cli.Record({"__complete", "tune", "--miss"});
  cli.ExpectMatches("export_completion");
}

TEST(BatchTest, WhatIsKnownIsSkipped) {
  CommandLine cli;
  cli.Record({"tune", "scale_host", "--dim", "N=64,1048576", "--missing-only", "--rows", "1"});
  const v1::CreateJobRequest request = cli.daemon()->last_create_job();
  ASSERT_EQ(request.job().problems_size(), 1);
  EXPECT_EQ(request.job().problems(0).dims().at("N").int_value(), 1048576);
  EXPECT_EQ(request.job().kernel(), "kernels/" + std::string(64, 'b'));
  EXPECT_FALSE(request.has_kernel_definition());
  EXPECT_EQ(cli.Record({"tune", "scale_host", "--dim", "N=64..128*2", "--missing-only"}).code, 0);
  EXPECT_EQ(cli.Record({"submit", "scale_host", "--dim", "N=64", "--missing-only"}).code, 0);
  cli.Comment("Pinned problems are asked for one by one: N is the number of the answer's match.");
  cli.Record({"submit", "scale_host", "--dim", "N=1,4", "--pin", "UNROLL=4", "--missing-only"});
  EXPECT_EQ(cli.daemon()->last_create_job().job().problems(0).dims().at("N").int_value(), 4);
  cli.Comment("More than one job takes.");
  cli.Record({"submit", "scale_host", "--dim", "N=1000..1999", "--missing-only"});
  EXPECT_EQ(cli.daemon()->last_create_job().job().problems_size(), 256);
  EXPECT_EQ(cli.Record({"submit", "scale_host", "--dim", "N=1000..1999"}).code, 2);
  cli.ExpectMatches("tune_missing");
}

}  // namespace
}  // namespace tunefarm::golden
