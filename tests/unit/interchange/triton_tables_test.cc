#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/base/status.h"
#include "server/interchange/bucketed_json.h"
#include "server/interchange/triton_config.h"

namespace tunefarm::interchange {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// A result that can be told by its number of stages.
TritonResult Result(int64_t m, int64_t stages, double median_ns = 100) {
  TritonConfig config;
  config.block_m = 64;
  config.block_n = 128;
  config.block_k = 32;
  config.num_warps = 4;
  config.num_stages = stages;
  return {m, config, median_ns};
}

// Which stages stand where.
std::map<std::string, int64_t> StagesOf(const TritonTable& table) {
  std::map<std::string, int64_t> stages;
  const json parsed = json::parse(table.text);
  for (const auto& [key, config] : parsed.items()) stages[key] = config.at("num_stages").get<int64_t>();
  return stages;
}

TEST(TritonConfigTest, NamesDefaultsAndRenaming) {
  Config config = {{"BM", Value(64)},          {"BLOCK_SIZE_N", Value(128)}, {"BLOCK_SIZE_K", Value(32)},
                   {"num_warps", Value(4)},    {"num_stages", Value(3)},     {"waves_per_eu", Value(2)},
                   {"path", Value("portable")}};
  const auto missing = TritonConfigOf(config, {});
  EXPECT_THAT(std::string(MessageOf(missing.status())), HasSubstr("has no integer BLOCK_SIZE_M"));
  const auto made = TritonConfigOf(config, {{"BLOCK_SIZE_M", "BM"}});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->block_m, 64);
  EXPECT_EQ(made->group_m, 1);
  EXPECT_THAT(made->more, ElementsAre(std::pair<std::string, int64_t>("waves_per_eu", 2)));
  config.Set("GROUP_SIZE_M", Value("eight"));
  EXPECT_EQ(ReasonOf(TritonConfigOf(config, {{"BLOCK_SIZE_M", "BM"}}).status()), "NOT_MAPPABLE");
}

TEST(TritonConfigTest, WhatTritonCannotTake) {
  const auto why = [](auto change, int64_t shared = 0) {
    TritonConfig config = Result(1, 3).config;
    change(&config);
    return WhyNotTriton(config, 2, shared);
  };
  EXPECT_EQ(why([](auto*) {}), "");
  EXPECT_EQ(why([](TritonConfig* c) { c->block_n = 192; }), "BLOCK_SIZE_N=192 is no power of two");
  EXPECT_EQ(why([](TritonConfig* c) { c->block_m = 8; }), "BLOCK_SIZE_M=8 is below 16");
  EXPECT_EQ(why([](TritonConfig* c) { c->num_warps = 12; }), "num_warps=12 is no power of two");
  EXPECT_EQ(why([](TritonConfig* c) { c->num_stages = 0; }), "num_stages=0 is below 1");
  EXPECT_EQ(why([](TritonConfig* c) { c->group_m = 0; }), "GROUP_SIZE_M=0 is below 1");
  // 3 * (64 + 128) * 32 * 2
  EXPECT_EQ(why([](auto*) {}, 36864), "");
  EXPECT_EQ(why([](auto*) {}, 36863), "its stages need 36864 bytes of shared memory, a block has 36863");
}

TEST(TritonResultsTest, FastestOfEachM) {
  const auto results = FastestOfEachM({Result(64, 1, 50), Result(8, 2, 70), Result(64, 3, 40), Result(8, 4, 70)});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].config.num_stages, 2) << "the first of equally fast ones";
  EXPECT_EQ(results[1].config.num_stages, 3);
}

TEST(SeedNoteTest, SaysWhereEachKeyWasMeasured) {
  const json note = json::parse(SeedNote({"{}", {{"16", 16, false}, {"any", 8, true}}}, "k", "NVIDIA H200", "E=8"));
  EXPECT_EQ(note.at("seed"), true);
  EXPECT_EQ(note.at("keys").at("any").at("measured_m"), 8);
  EXPECT_EQ(note.at("keys").at("any").at("filled"), true);
  EXPECT_EQ(note.at("keys").at("16").at("filled"), false);
}

TEST(BucketedTest, TheLargestMOfABucketCounts) {
  const std::vector<TritonResult> results = {Result(2048, 5), Result(1, 1),    Result(255, 2),
                                             Result(256, 3),  Result(1024, 4), Result(4096, 6)};
  EXPECT_EQ(StagesOf(*WriteBucketedJson(results, BucketKeys::kMoe)),
            (std::map<std::string, int64_t>{{"small_M", 2}, {"medium_M", 3}, {"large_M", 6}}));
  EXPECT_EQ(StagesOf(*WriteBucketedJson(results, BucketKeys::kGuide)),
            (std::map<std::string, int64_t>{{"small", 3}, {"medium", 5}, {"large", 6}}));
  EXPECT_EQ(
      StagesOf(*WriteBucketedJson(results, BucketKeys::kGemm)),
      (std::map<std::string, int64_t>{
          {"M_LEQ_1", 1}, {"M_LEQ_256", 3}, {"M_LEQ_1024", 4}, {"M_LEQ_2048", 5}, {"M_LEQ_4096", 6}, {"any", 6}}));
  EXPECT_EQ(StagesOf(*WriteBucketedJson({Result(3, 1), Result(5, 2), Result(8193, 3)}, BucketKeys::kGemm)),
            (std::map<std::string, int64_t>{{"M_LEQ_4", 1}, {"M_LEQ_8", 2}, {"M_GEQ_8192", 3}, {"any", 3}}));
}

TEST(BucketedTest, WhatItsReaderCannotDoWithoutIsFilled) {
  const auto table = WriteBucketedJson({Result(16, 1), Result(4096, 2)}, BucketKeys::kMoe);
  EXPECT_EQ(StagesOf(*table), (std::map<std::string, int64_t>{{"small_M", 1}, {"medium_M", 2}, {"large_M", 2}}));
  EXPECT_THAT(table->keys,
              ElementsAre(testing::Field(&TableKey::is_filled, false), testing::Field(&TableKey::is_filled, true),
                          testing::Field(&TableKey::is_filled, false)));
  EXPECT_EQ(table->keys[1].measured_m, 4096) << "two octaves from 1023, four from 256";
  EXPECT_FALSE(WriteBucketedJson({}, BucketKeys::kMoe).ok());
}

TEST(BucketedTest, FileNames) {
  EXPECT_EQ(BucketedFileName("gfx942", "GEMM", "A8W8", 4096, 1024), "gfx942-GEMM-A8W8-N=4096-K=1024.json");
  EXPECT_EQ(BucketedFileName("gfx942", "MOE", "DEFAULT", 0, 0), "gfx942-MOE-DEFAULT.json");
}

}  // namespace
}  // namespace tunefarm::interchange
