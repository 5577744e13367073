// Sizes of spaces that others have counted: the grouped matrix multiplication's rules (counted by hand and by script
// from the rules' text) and published spaces of auto-tuners.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "server/base/status.h"
#include "server/space/space.h"

namespace tunefarm {
namespace {

struct GoldenCase {
  std::string name;
  std::vector<Parameter> flags;  // after the tile parameters
  std::vector<Rule> rules;
  double before;
  double after;
  std::vector<double> dropped;
};

std::vector<Parameter> TileParameters() {
  return {{"BLOCK_SIZE_M", {64, 128}, {}},
          {"BLOCK_SIZE_N", {64, 128, 256}, {}},
          {"BLOCK_SIZE_K", {64, 128, 256}, {}},
          {"num_warps", {4, 8}, {}},
          {"num_stages", {3, 4, 5}, {}}};
}

Parameter Flag(const std::string& name) { return {name, {true, false}, {}}; }

std::vector<Rule> Forward(const std::string& px, const std::string& py, const std::string& tma,
                          const std::string& store) {
  return {{fmt::format("not ({} and {})", tma, px), ""},
          {fmt::format("not ({} and {})", px, py), ""},
          {fmt::format("not ({} and {})", store, py), ""}};
}

std::vector<Rule> BackwardInput(const std::string& px, const std::string& py, const std::string& tma,
                                const std::string& store) {
  return {{fmt::format("not ({} and {})", tma, py), ""},
          {fmt::format("not ({} and {})", px, py), ""},
          {fmt::format("not ({} and {})", store, px), ""}};
}

std::vector<Rule> BackwardWeight(const std::string& px, const std::string& py, const std::string& tma_dy,
                                 const std::string& tma_x) {
  return {{fmt::format("not ({} and {})", tma_dy, py), ""},
          {fmt::format("not ({} and {})", tma_x, px), ""},
          {fmt::format("not ({} and {})", px, py), ""}};
}

TEST(SpaceGolden, GroupedMatmulRules) {
  const std::vector<Parameter> joint = {Flag("tma"), Flag("permute")};
  const std::vector<Parameter> apart = {Flag("px"), Flag("py"), Flag("tma_a"), Flag("tma_b")};
  const std::vector<Parameter> stored = {Flag("px"), Flag("py"), Flag("tma_a"), Flag("tma_b"), Flag("store")};
  const GoldenCase cases[] = {
      {"joint forward", joint, Forward("permute", "permute", "tma", "False"), 432, 216, {108, 108, 0}},
      {"joint dX", joint, BackwardInput("permute", "permute", "tma", "False"), 432, 216, {108, 108, 0}},
      {"joint dW", joint, BackwardWeight("permute", "permute", "tma", "tma"), 432, 216, {108, 0, 108}},
      {"independent forward", apart, Forward("px", "py", "tma_a", "False"), 1728, 1080, {432, 216, 0}},
      {"independent dX", apart, BackwardInput("px", "py", "tma_a", "False"), 1728, 1080, {432, 216, 0}},
      {"independent dW", apart, BackwardWeight("px", "py", "tma_a", "tma_b"), 1728, 864, {432, 324, 108}},
      {"stored forward", stored, Forward("px", "py", "tma_a", "store"), 3456, 1728, {864, 432, 432}},
      {"stored dX", stored, BackwardInput("px", "py", "tma_a", "store"), 3456, 1728, {864, 432, 432}},
      {"stored dW", stored, BackwardWeight("px", "py", "tma_a", "tma_b"), 3456, 1728, {864, 648, 216}},
  };
  for (const GoldenCase& golden : cases) {
    SpaceDefinition definition;
    definition.parameters = TileParameters();
    definition.parameters.insert(definition.parameters.end(), golden.flags.begin(), golden.flags.end());
    definition.constraints = golden.rules;
    const auto space = Space::Build(definition);
    ASSERT_TRUE(space.ok()) << golden.name << ": " << space.status();
    const auto report = space->CountByRule();
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->cartesian, golden.before) << golden.name;
    EXPECT_EQ(report->valid, golden.after) << golden.name;
    for (size_t rule = 0; rule < golden.dropped.size(); ++rule) {
      EXPECT_EQ(report->rules[rule].rejected, golden.dropped[rule]) << golden.name << " rule " << rule + 1;
    }
    const auto table = space->Enumerate();
    ASSERT_TRUE(table.ok());
    EXPECT_EQ(table->size(), golden.after) << golden.name;
  }
}

TEST(SpaceGolden, FirstAndLastKeptConfig) {
  SpaceDefinition definition;
  definition.parameters = TileParameters();
  definition.parameters.push_back(Flag("tma"));
  definition.parameters.push_back(Flag("permute"));
  definition.constraints = Forward("permute", "permute", "tma", "False");
  const auto space = Space::Build(definition);
  ASSERT_TRUE(space.ok());
  const auto table = space->Enumerate();
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(space->ConfigAt(*table, 0).ToText(),
            "BLOCK_SIZE_K=64,BLOCK_SIZE_M=64,BLOCK_SIZE_N=64,num_stages=3,num_warps=4,permute=false,tma=true");
  EXPECT_EQ(space->ConfigAt(*table, table->size() - 1).ToText(),
            "BLOCK_SIZE_K=256,BLOCK_SIZE_M=128,BLOCK_SIZE_N=256,num_stages=5,num_warps=8,permute=false,tma=false");
}

TEST(SpaceGolden, SharedMemoryRuleByDevice) {
  const std::tuple<int, int, int, uint64_t> cases[] = {
      {2, 232448, 50000, 60}, {2, 166912, 50000, 46}, {2, 101376, 50000, 24}, {2, 65536, 50000, 16},
      {4, 232448, 50000, 24}, {4, 166912, 50000, 12}, {4, 101376, 50000, 4},  {4, 65536, 50000, 2},
      {2, 232448, 0, 48},     {2, 166912, 0, 32},     {2, 101376, 0, 10},     {2, 65536, 0, 2},
  };
  for (const auto& [bytes, shared, slack, expected] : cases) {
    SpaceDefinition definition;
    definition.parameters = TileParameters();
    definition.constants = {{"bytes", Value(bytes)}, {"device.shared", Value(shared)}, {"slack", Value(slack)}};
    definition.device_rules = {
        {"bytes*(num_stages*BLOCK_SIZE_K*(BLOCK_SIZE_M+BLOCK_SIZE_N) + BLOCK_SIZE_M*BLOCK_SIZE_N)"
         " <= device.shared + slack",
         "shared memory"}};
    const auto space = Space::Build(definition);
    ASSERT_TRUE(space.ok()) << space.status();
    EXPECT_EQ(*space->CountValid(), expected) << bytes << " bytes, " << shared << " + " << slack;
  }
}

// "[16, 32]" of a T1 file.
std::vector<Value> ParseValues(const std::string& text) {
  std::vector<Value> values;
  for (const nlohmann::json& item : nlohmann::json::parse(text)) values.push_back(item.get<int64_t>());
  return values;
}

TEST(SpaceGolden, PublishedSpaces) {
  const char* folder = std::getenv("TUNEFARM_TEST_DATA");
  if (folder == nullptr) {
    // Where the data must be there, a skipped test would be a lie.
    ASSERT_EQ(std::getenv("TUNEFARM_REQUIRE_TEST_DATA"), nullptr) << "TUNEFARM_TEST_DATA is not set";
    GTEST_SKIP() << "TUNEFARM_TEST_DATA is not set";
  }
  const std::pair<const char*, uint64_t> cases[] = {{"convolution_milo", 4362}, {"dedispersion_milo", 11130}};
  for (const auto& [name, expected] : cases) {
    std::ifstream file(fmt::format("{}/t1/{}.json", folder, name));
    ASSERT_TRUE(file.good()) << name;
    const nlohmann::json json = nlohmann::json::parse(file);
    SpaceDefinition definition;
    for (const nlohmann::json& parameter : json["ConfigurationSpace"]["TuningParameters"]) {
      definition.parameters.push_back(
          {parameter["Name"].get<std::string>(), ParseValues(parameter["Values"].get<std::string>()), {}});
    }
    for (const nlohmann::json& condition : json["ConfigurationSpace"]["Conditions"]) {
      definition.constraints.push_back({condition["Expression"].get<std::string>(), ""});
    }
    const auto space = Space::Build(definition);
    ASSERT_TRUE(space.ok()) << name << ": " << space.status();
    const auto table = space->Enumerate();
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->size(), expected) << name;
    EXPECT_EQ(*space->CountValid(), expected) << name;
    EXPECT_EQ(space->CountByRule()->valid, static_cast<double>(expected)) << name;
  }
}

}  // namespace
}  // namespace tunefarm
