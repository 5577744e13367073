#include "server/interchange/best_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/base/status.h"
#include "server/interchange/benchmark_csv.h"
#include "tests/unit/interchange/sample_bests.h"

namespace tunefarm::interchange {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ExportedBestTest, SortedByNumbersAndOnlyTheNewest) {
  std::vector<ExportedBest> bests = {SampleBest("k", {{"M", Value(128)}}, {{"A", Value(1)}}, 10),
                                     SampleBest("k", {{"M", Value(64)}}, {{"A", Value(2)}}, 10),
                                     SampleBest("a", {{"M", Value(1)}}, {{"A", Value(3)}}, 10),
                                     SampleBest("k", {{"M", Value(128)}}, {{"A", Value(4)}}, 10)};
  bests[0].best.set_revision(3);
  bests[3].best.set_revision(7);
  SortBests(&bests);
  KeepNewest(&bests);
  std::vector<std::string> configs;
  for (const ExportedBest& best : bests) configs.push_back(best.config.ToText());
  EXPECT_THAT(configs, ElementsAre("A=3", "A=2", "A=4"));
}

TEST(ExportedBestTest, PinsAndSeedsMakeAProblemOfTheirOwn) {
  ExportedBest best = SampleBest("k", {{"M", Value(1)}}, {{"A", Value(1)}}, 10);
  EXPECT_TRUE(best.is_plain());
  best.best.mutable_problem()->add_input_seeds(1);
  EXPECT_TRUE(best.is_plain());
  best.best.mutable_problem()->add_input_seeds(2);
  EXPECT_FALSE(best.is_plain());
}

TEST(BestTablesTest, CsvQuotesAndLeavesUnknownEmpty) {
  std::vector<ExportedBest> bests = {SampleBest("k,1", {{"M", Value(64)}}, {{"MODE", Value("a\"b")}}, 41200, 95000),
                                     SampleBest("other", {{"N", Value(2)}}, {{"FAST", Value(true)}}, 10)};
  bests[1].match = v1::MATCH_STALE;
  const std::string csv = WriteBestsCsv(bests);
  EXPECT_EQ(
      csv.substr(0, csv.find('\n')),
      "kernel,device,device_class,problem,dim.M,dim.N,config.FAST,config.MODE,median_ns,ci_low_ns,ci_high_ns,samples,"
      "baseline_ns,baseline,speedup,match,toolkit,driver,job,ordinal,revision,promoted_at_ms,pinned,note,program_"
      "digest");
  EXPECT_THAT(csv, HasSubstr("\n\"k,1\",NVIDIA H200,h200,M=64,64,,,\"a\"\"b\",41200.0,,,,95000.0,,2.30"));
  EXPECT_THAT(csv, HasSubstr("\nother,NVIDIA H200,h200,N=2,,2,true,,10.0,,,,,,,STALE,,,,0,,,false,,\n"));
}

TEST(BestTablesTest, JsonKeepsTypes) {
  const auto json = nlohmann::json::parse(WriteBestsJson(
      {SampleBest("k", {{"M", Value(64)}, {"t", Value("bf16")}}, {{"A", Value(0.5)}, {"B", Value(true)}}, 41200)}));
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0].at("dims"), (nlohmann::json{{"M", 64}, {"t", "bf16"}}));
  EXPECT_EQ(json[0].at("config"), (nlohmann::json{{"A", 0.5}, {"B", true}}));
  EXPECT_EQ(json[0].at("median_ns"), 41200);
  EXPECT_TRUE(json[0].at("speedup").is_null());
  EXPECT_EQ(json[0].at("match"), "EXACT");
}

TEST(BestTablesTest, MarkdownNamesWhatIsSharedOnce) {
  std::vector<ExportedBest> bests = {
      SampleBest("k", {{"M", Value(64)}, {"t", Value("bf16")}}, {{"A", Value("x|y")}}, 41200, 95000),
      SampleBest("k", {{"M", Value(128)}, {"t", Value("bf16")}}, {{"A", Value("z")}}, 82400)};
  EXPECT_EQ(WriteBestsMarkdown(bests),
            "## k on NVIDIA H200\n\nAll problems: t=bf16.\n\n"
            "| M | config | time | 95 % interval | baseline | speedup |\n"
            "| ---: | --- | ---: | --- | ---: | ---: |\n"
            "| 64 | `A=x\\|y` | 41.2 µs |  | 95.0 µs | 2.31x |\n"
            "| 128 | `A=z` | 82.4 µs |  |  |  |\n");
  bests[1].match = v1::MATCH_STALE_SOURCE;
  EXPECT_THAT(WriteBestsMarkdown(bests), HasSubstr("|  | STALE_SOURCE |\n"));
}

BenchmarkRow Row(int64_t block_n, double median_ns, double baseline_ns) {
  BenchmarkRow row;
  row.dims = {{"tokens", Value(1024)},    {"E", Value(128)},           {"dtype", Value("bf16")},
              {"permute_x", Value(true)}, {"permute_y", Value(false)}, {"fuse_mul_post", Value(false)}};
  row.config = {{"BLOCK_SIZE_M", Value(64)},      {"BLOCK_SIZE_N", Value(block_n)}, {"BLOCK_SIZE_K", Value(64)},
                {"num_warps", Value(8)},          {"num_stages", Value(4)},         {"use_tma_load_w", Value(true)},
                {"use_tma_load_x", Value(false)}, {"use_tma_store", Value(false)},  {"path", Value("hopper")}};
  row.median_ns = median_ns;
  row.baseline_ns = baseline_ns;
  return row;
}

TEST(BenchmarkCsvTest, TheColumnsOfTheScripts) {
  const std::vector<BenchmarkRow> rows = {Row(64, 2e6, 3e6), Row(128, 1e6, 3e6), Row(256, 5e5, 0)};
  const auto csv = WriteBenchmarkCsv("grouped_gemm_forward", rows, false);
  ASSERT_TRUE(csv.ok()) << csv.status();
  EXPECT_EQ(*csv,
            "mode,seqlen,dtype,autotune,BLOCK_SIZE_M,BLOCK_SIZE_N,BLOCK_SIZE_K,num_warps,num_stages,flatten,permute_x,"
            "permute_y,"
            "fuse_mul_post,use_tma_store,use_tma_load_w,use_tma_load_x,torch_time,triton_time,speedup\n"
            "forward,1024,torch.bfloat16,False,64,128,64,8,4,True,True,False,False,False,True,False,3.0,1.0,3.0\n"
            "forward,1024,torch.bfloat16,False,64,64,64,8,4,True,True,False,False,False,True,False,3.0,2.0,1.5\n"
            "forward,1024,torch.bfloat16,False,64,256,64,8,4,True,True,False,False,False,True,False,,0.5,\n");
  EXPECT_THAT(*WriteBenchmarkCsv("grouped_gemm_forward", {rows[0]}, true), HasSubstr(",speedup,E,path\n"));
  EXPECT_THAT(*WriteBenchmarkCsv("grouped_gemm_forward", {rows[0]}, true), HasSubstr(",1.5,128,hopper\n"));
}

TEST(BenchmarkCsvTest, BackwardHasOtherFlags) {
  BenchmarkRow row = Row(64, 1e6, 0);
  row.dims = {{"tokens", Value(8)}, {"dtype", Value("f16")}, {"permute_x", Value(false)}, {"permute_y", Value(false)}};
  row.config.Set("use_tma_load_dy", Value(true));
  const std::string dw = *WriteBenchmarkCsv("grouped_gemm_dw", {row}, false);
  EXPECT_THAT(dw, HasSubstr("fuse_mul_post,use_tma_store,use_tma_load_dy,use_tma_load_x,torch_time"));
  EXPECT_THAT(dw, HasSubstr("\ndW,8,torch.float16,False,64,64,64,8,4,True,False,False,False,False,True,False,,1.0,\n"));
  const std::string dx = *WriteBenchmarkCsv("grouped_gemm_dx", {row}, false);
  EXPECT_THAT(dx, HasSubstr("use_tma_store,use_tma_load_dy,use_tma_load_w,torch_time"));
  EXPECT_THAT(dx, HasSubstr("\ndX,8,"));
  row.dims.Set("dtype", Value("fp8"));
  EXPECT_THAT(*WriteBenchmarkCsv("grouped_gemm_dx", {row}, false), HasSubstr("\ndX,8,torch.float8_e4m3fn,"));
}

TEST(BenchmarkCsvTest, WhatHasNoColumnIsToldWhereItDiffers) {
  std::vector<BenchmarkRow> rows = {Row(64, 1e6, 0), Row(64, 2e6, 0)};
  EXPECT_TRUE(LeftOutOfBenchmarkCsv("grouped_gemm_forward", rows).empty());
  rows[1].config.Set("path", Value("portable"));
  EXPECT_THAT(LeftOutOfBenchmarkCsv("grouped_gemm_forward", rows), ElementsAre("path"));
}

TEST(BenchmarkCsvTest, OtherKernelsAreRefused) {
  EXPECT_THAT(std::string(MessageOf(WriteBenchmarkCsv("matmul", {Row(64, 1, 1)}, false).status())),
              HasSubstr("'matmul' has other columns"));
  BenchmarkRow row = Row(64, 1, 1);
  row.dims = {{"tokens", Value(8)}};
  EXPECT_THAT(std::string(MessageOf(WriteBenchmarkCsv("grouped_gemm_dx", {row}, false).status())),
              HasSubstr("'permute_x'"));
}

}  // namespace
}  // namespace tunefarm::interchange
