#include <gtest/gtest.h>

#include <filesystem>

#include "server/base/file.h"
#include "tests/golden/command_line.h"

namespace tunefarm::golden {
namespace {

namespace fs = std::filesystem;

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

TEST(ExportTest, FusedMoe) {
  CommandLine cli;
  cli.Record({"export", "vllm", "--kernel", "grouped_gemm_forward", "--dim", "topk=8"});
  cli.Comment("Problems that differ in more than the tokens.");
  EXPECT_EQ(cli.Record({"export", "vllm", "--kernel", "grouped_gemm_forward"}).code, 2);
  cli.Comment("From all configs of a job there is one that Triton takes for each problem.");
  const std::string folder = cli.directory().File("configs");
  cli.Record({"export", "sglang", "--job", "27", "--triton", "3.4.0", "--dir", folder});
  const std::string name = "configs/configs/triton_3_4_0/E=128,N=768,device_name=NVIDIA_H200.json";
  ExpectEqualsFile("export_sglang.json", Written(cli, name));
  ExpectEqualsFile("export_sglang.seed.json", Written(cli, name + ".seed.json"));
  cli.Comment("What is there stays, unless --force.");
  EXPECT_EQ(cli.Record({"export", "sglang", "--job", "27", "--triton", "3.4.0", "--dir", folder}).code, 1);
  EXPECT_EQ(cli.Run({"export", "sglang", "--job", "27", "--triton", "3.4.0", "--dir", folder, "--force"}).code, 0);
  cli.Record({"export", "vllm", "--job", "27", "--same-kernel", "--dir", cli.directory().File("own")});
  EXPECT_FALSE(fs::exists(cli.directory().File("own/E=128,N=768,device_name=NVIDIA_H200.json.seed.json")));
  cli.Comment("Which product of a layer it is must be known, and which kernel.");
  EXPECT_EQ(cli.Record({"export", "vllm", "--kernel", "gemm", "--parameter", "BLOCK_SIZE_M=BM", "--parameter",
                        "BLOCK_SIZE_N=BN", "--parameter", "BLOCK_SIZE_K=BK"})
                .code,
            2);
  EXPECT_EQ(cli.Record({"export", "vllm"}).code, 2);
  EXPECT_EQ(cli.Record({"export", "vllm", "--kernel", "scale_host"}).code, 2);
  cli.ExpectMatches("export_fused_moe");
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

TEST(ExportTest, BestsGoToAnotherMachineAndAreMeasuredThere) {
  CommandLine cli;
  const std::string file = cli.directory().File("bests.json");
  cli.Record({"export", "bests", file, "--kernel", "scale_host", "--source", "gpu7"});
  cli.Record({"import", "bests", file});
  const Result as_json = cli.Run({"import", "bests", file, "--name", "bests_of_gpu7", "--output", "json"});
  EXPECT_NE(as_json.out.find("\"display_name\": \"bests_of_gpu7.scale_host.cpu-1\""), std::string::npos) << as_json.out;
  cli.Comment("What is no such file.");
  ASSERT_TRUE(WriteFileAtomically(file, "{\"results\": []}").ok());
  EXPECT_EQ(cli.Run({"import", "bests", file}).code, 2);
  EXPECT_EQ(cli.Record({"import", "bests", cli.directory().File("nowhere.json")}).code, 3);
  cli.Comment("The recorded configs come first, and the recorded problems where none is named.");
  cli.Record({"submit", "scale_host", "--from-recording", "gpu7"});
  v1::Job job = cli.daemon()->last_create_job().job();
  ASSERT_EQ(job.problems_size(), 2);
  EXPECT_EQ(job.problems(1).dims().at("N").int_value(), 8192);
  ASSERT_EQ(job.starting_configs_size(), 2);
  EXPECT_EQ(job.starting_configs(1).problem_index(), 1);
  EXPECT_EQ(job.starting_configs(1).config().values().at("CHUNK").int_value(), 1024);
  cli.Record({"submit", "scale_host", "--from-recording", "gpu7", "--dim", "N=8192,16384"});
  job = cli.daemon()->last_create_job().job();
  ASSERT_EQ(job.problems_size(), 2);
  ASSERT_EQ(job.starting_configs_size(), 3) << "its own, then both of the others";
  EXPECT_EQ(job.starting_configs(0).config().values().at("CHUNK").int_value(), 1024);
  EXPECT_EQ(job.starting_configs(1).problem_index(), 1);
  EXPECT_EQ(cli.Record({"submit", "scale_host", "--from-recording", "nothing"}).code, 3);
  cli.ExpectMatches("export_bests");
}

TEST(ExportTest, Completion) {
  CommandLine cli;
  cli.Record({"__complete", "export", ""});
  cli.Record({"__complete", "import", "b"});
  cli.Record({"__complete", "export", "aiter", "--keys", ""});
  cli.Record({"__complete", "export", "csv", "--kernel", "sc"});
  cli.Record({"__complete", "tune", "--from-recording", ""});
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
