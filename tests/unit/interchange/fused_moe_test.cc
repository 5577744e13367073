// Tables for the fused mixture-of-experts kernels of vLLM and SGLang: what they hold, and what their readers, written
// again here, find in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/interchange/fused_moe_json.h"

namespace tunefarm::interchange {
namespace {

using testing::HasSubstr;
using Numbers = std::vector<int64_t>;

Numbers NumbersOf(const TritonConfig& config) {
  return {config.block_m, config.block_n, config.block_k, config.group_m, config.num_warps, config.num_stages};
}

TritonConfig ConfigOf(int64_t block_m, int64_t stages) {
  TritonConfig config;
  config.block_m = block_m;
  config.block_n = 128;
  config.block_k = 64;
  config.group_m = 16;
  config.num_warps = 8;
  config.num_stages = stages;
  return config;
}

FusedMoeRow MoeRow(int64_t m, double tuned_ns, double untuned_ns) {
  FusedMoeRow row;
  row.m = m;
  row.tuned = ConfigOf(32, 3);
  row.untuned = ConfigOf(64, 4);
  row.tuned_ns = tuned_ns;
  row.untuned_ns = untuned_ns;
  return row;
}

// How both readers choose: every key is a number but vLLM's version; of the keys the nearest by difference, of two
// equally near ones the first of the file.
Numbers Found(const std::string& text, bool knows_version, int64_t m) {
  nlohmann::ordered_json table = nlohmann::ordered_json::parse(text);
  if (knows_version) table.erase("triton_version");
  const nlohmann::ordered_json* nearest = nullptr;
  int64_t best = 0;
  for (const auto& [key, config] : table.items()) {
    const int64_t distance = std::abs(std::stoll(key) - m);
    if (nearest != nullptr && distance >= best) continue;
    nearest = &config;
    best = distance;
  }
  Numbers numbers;
  for (const char* const name :
       {"BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages"}) {
    numbers.push_back(nearest->at(name).get<int64_t>());
  }
  return numbers;
}

TEST(FusedMoeTest, EachRowIsBetterThanWhatItReplacesOrThatItself) {
  EXPECT_TRUE(MoeRow(1, 99, 100).keeps_tuned());
  EXPECT_FALSE(MoeRow(1, 99.5, 100).keeps_tuned()) << "less than 1 %";
  EXPECT_FALSE(MoeRow(1, 120, 100).keeps_tuned());
  EXPECT_FALSE(MoeRow(1, 50, 0).keeps_tuned()) << "nothing is known of the other, as after the loss of a device";
  FusedMoeRow alone = MoeRow(1, 120, 0);
  alone.untuned_fails = true;
  EXPECT_TRUE(alone.keeps_tuned()) << "the other cannot run";
  alone.tuned_ns = 0;
  EXPECT_FALSE(alone.keeps_tuned()) << "neither can";
  EXPECT_FALSE(MoeRow(1, 0, 100).keeps_tuned()) << "the winner failed on other inputs";
  EXPECT_FALSE(MoeRow(1, 0, 0).keeps_tuned());
}

TEST(FusedMoeTest, TheTextOfATable) {
  const std::vector<FusedMoeRow> rows = {MoeRow(1, 50, 100), MoeRow(24, 100, 100)};
  EXPECT_EQ(FusedMoeJson(rows, "3.6.0"), R"({
    "triton_version": "3.6.0",
    "1": {
        "BLOCK_SIZE_M": 32,
        "BLOCK_SIZE_N": 128,
        "BLOCK_SIZE_K": 64,
        "GROUP_SIZE_M": 16,
        "num_warps": 8,
        "num_stages": 3
    },
    "24": {
        "BLOCK_SIZE_M": 64,
        "BLOCK_SIZE_N": 128,
        "BLOCK_SIZE_K": 64,
        "GROUP_SIZE_M": 16,
        "num_warps": 8,
        "num_stages": 4
    }
}
)");
}

TEST(FusedMoeTest, ReadersFindTheRows) {
  std::vector<FusedMoeRow> rows;
  for (const int64_t m : kTokenLadder) rows.push_back(MoeRow(m, m <= 64 ? 50 : 200, 100));
  const Numbers tuned = NumbersOf(ConfigOf(32, 3)), untuned = NumbersOf(ConfigOf(64, 4));
  for (const bool is_vllm : {true, false}) {
    const std::string text = FusedMoeJson(rows, is_vllm ? "3.6.0" : "");
    for (const int64_t m : {1, 20, 64, 80}) EXPECT_EQ(Found(text, is_vllm, m), tuned) << m;
    for (const int64_t m : {81, 96, 5000}) EXPECT_EQ(Found(text, is_vllm, m), untuned) << m;
  }
}

TEST(FusedMoeTest, FileNames) {
  FusedMoeLayer layer;
  layer.experts = 128;
  layer.intermediate = 384;
  const auto name = [&layer](FusedMoeReader reader, const char* device) {
    layer.reader = reader;
    layer.device = device;
    return FusedMoeFileName(layer);
  };
  const auto vllm = FusedMoeReader::kVllm, sglang = FusedMoeReader::kSglang;
  EXPECT_EQ(name(vllm, "NVIDIA H100 80GB HBM3"), "E=128,N=384,device_name=NVIDIA_H100_80GB_HBM3.json");
  EXPECT_EQ(name(sglang, "NVIDIA H100 80GB HBM3"), "E=128,N=384,device_name=NVIDIA_H100_80GB_HBM3.json");
  EXPECT_EQ(name(vllm, "NVIDIA H200 NVL"), "E=128,N=384,device_name=NVIDIA_H200.json");
  EXPECT_EQ(name(sglang, "NVIDIA H200 NVL"), "E=128,N=384,device_name=NVIDIA_H200_NVL.json");
  EXPECT_EQ(name(vllm, "NVIDIA GH200 480GB"), "E=128,N=384,device_name=NVIDIA_GH200_480GB.json");
  EXPECT_EQ(name(vllm, "A  B/C"), "E=128,N=384,device_name=A_B_C.json");
  EXPECT_EQ(name(sglang, "A  B"), "E=128,N=384,device_name=A__B.json");
  layer.is_fp8 = true;
  EXPECT_EQ(name(vllm, "A"), "E=128,N=384,device_name=A,dtype=fp8_w8a8,block_shape=[128,128].json");
  layer.is_down = true;
  EXPECT_EQ(name(sglang, "A"), "E=128,N=384,device_name=A,dtype=fp8_w8a8,block_shape=[128, 128]_down.json");
}

TEST(FusedMoeTest, WhatReadersTakeWithoutATable) {
  const auto vllm = [](bool is_fp8, int64_t m, int64_t experts) {
    return NumbersOf(FusedMoeDefault(FusedMoeReader::kVllm, is_fp8, m, experts));
  };
  EXPECT_EQ(vllm(false, 1, 128), (Numbers{16, 64, 128, 1, 4, 4}));
  EXPECT_EQ(vllm(false, 48, 128), (Numbers{32, 64, 128, 1, 4, 3}));
  EXPECT_EQ(vllm(false, 96, 128), (Numbers{32, 128, 64, 1, 4, 3}));
  EXPECT_EQ(vllm(false, 512, 128), (Numbers{64, 128, 64, 1, 8, 3}));
  EXPECT_EQ(vllm(false, 4096, 8), (Numbers{128, 128, 64, 16, 8, 3}));
  EXPECT_EQ(vllm(true, 16, 128), (Numbers{16, 128, 128, 1, 4, 3}));
  EXPECT_EQ(vllm(true, 64, 128), (Numbers{16, 128, 128, 32, 4, 3}));
  EXPECT_EQ(vllm(true, 96, 128), (Numbers{64, 128, 128, 32, 4, 3}));
  const auto sglang = [](bool is_fp8, int64_t m, int64_t experts) {
    return NumbersOf(FusedMoeDefault(FusedMoeReader::kSglang, is_fp8, m, experts));
  };
  EXPECT_EQ(sglang(false, 128, 128), (Numbers{16, 32, 64, 1, 4, 3}));
  EXPECT_EQ(sglang(false, 129, 128), (Numbers{64, 64, 32, 8, 4, 3}));
  EXPECT_EQ(sglang(true, 1, 128), (Numbers{64, 128, 128, 32, 4, 3}));
}

TEST(FusedMoeTest, TheReportHasBothTimes) {
  FusedMoeRow alone = MoeRow(4, 50'000, 0);
  alone.untuned_fails = true;
  const std::string text =
      FusedMoeReport({MoeRow(1, 50'000, 100'000), MoeRow(2, 0, 100'000), alone}, "E=8", {"a fact"});
  EXPECT_THAT(text, HasSubstr("# E=8\n\n- a fact\n\n| tokens |"));
  EXPECT_THAT(text, HasSubstr("| 1 | 64x128x64, group 16, 8 warps, 4 stages | "));
  EXPECT_THAT(text, HasSubstr(" | 32x128x64, group 16, 8 warps, 3 stages | "));
  EXPECT_THAT(text, HasSubstr(" | 2.00x | tuned |\n"));
  EXPECT_THAT(text, HasSubstr(" | - | - | as without |\n"));
  EXPECT_THAT(text, HasSubstr("| 4 | 64x128x64, group 16, 8 warps, 4 stages | fails | "));
}

}  // namespace
}  // namespace tunefarm::interchange
