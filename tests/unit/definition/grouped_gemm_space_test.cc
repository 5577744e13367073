// The spaces of kernels/grouped_gemm: its rules reproduce the counts of the grouped products that others tune (lists
// and counts in tests/data/seed_space_golden.json), and what those would try is valid here or pruned by a limit that
// the device really has.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "server/base/file.h"
#include "server/definition/launch_digest.h"
#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

std::string SourceFolder() {
  const char* const folder = std::getenv("TUNEFARM_SOURCE_DIR");
  return folder == nullptr ? "" : folder;
}

std::shared_ptr<const KernelPlan> Load(const std::string& op) {
  const std::filesystem::path folder = std::filesystem::path(SourceFolder()) / "kernels/grouped_gemm";
  const auto text = ReadFile((folder / fmt::format("grouped_gemm_{}.pbtxt", op)).string(), 1 << 20);
  EXPECT_TRUE(text.ok()) << Message(text.status());
  if (!text.ok()) return nullptr;
  const auto kernel = LoadKernelText(
      *text, op, [&folder](const std::string& source) { return ReadFile((folder / source).string(), 4 << 20); });
  EXPECT_TRUE(kernel.ok()) << Message(kernel.status());
  if (!kernel.ok()) return nullptr;
  return *KernelPlan::Compile(*kernel);
}

nlohmann::json Golden() {
  const auto text = ReadFile(SourceFolder() + "/tests/data/seed_space_golden.json", 1 << 20);
  return nlohmann::json::parse(text.ok() ? *text : "{}");
}

// The rules of the definition that speak of nothing but flags, in their order: those that the others have too.
std::vector<Rule> FlagRules(const KernelPlan& plan) {
  std::vector<Rule> rules;
  for (const v1::Constraint& constraint : plan.kernel().constraints()) {
    std::string rest = constraint.expression();
    for (const char* word : {"permute_x", "permute_y", "use_tma_load_dy", "use_tma_load_x", "use_tma_load_w",
                             "use_tma_store", "not", "and", "(", ")", " "}) {
      for (size_t at = rest.find(word); at != std::string::npos; at = rest.find(word)) rest.erase(at, strlen(word));
    }
    if (rest.empty()) rules.push_back({constraint.expression(), constraint.reason()});
  }
  return rules;
}

Parameter Listed(const std::string& name, const std::vector<int64_t>& values) {
  Parameter parameter{name, {}, {}};
  for (const int64_t value : values) parameter.values.emplace_back(value);
  return parameter;
}

std::vector<Parameter> Tiles() {
  return {Listed("BLOCK_SIZE_M", {64, 128}), Listed("BLOCK_SIZE_N", {64, 128, 256}),
          Listed("BLOCK_SIZE_K", {64, 128, 256}), Listed("num_warps", {4, 8}), Listed("num_stages", {3, 4, 5})};
}

Parameter Flag(const std::string& name) { return {name, {true, false}, {}}; }

struct Kind {
  const char* op;
  const char* golden;
  const char* first_load;
  const char* second_load;
};

constexpr Kind kKinds[] = {{"forward", "forward", "use_tma_load_x", "use_tma_load_w"},
                           {"dx", "dX", "use_tma_load_dy", "use_tma_load_w"},
                           {"dw", "dW", "use_tma_load_dy", "use_tma_load_x"}};

PruneReport Count(SpaceDefinition definition) {
  const auto space = Space::Build(std::move(definition));
  EXPECT_TRUE(space.ok()) << Message(space.status());
  if (!space.ok()) return {};
  const auto report = space->CountByRule();
  EXPECT_TRUE(report.ok()) << Message(report.status());
  EXPECT_EQ(space->Enumerate()->size(), report->valid);
  return *report;
}

class GroupedGemmSpace : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (SourceFolder().empty()) GTEST_SKIP() << "TUNEFARM_SOURCE_DIR is not set";
    plan_ = Load(GetParam().op);
    ASSERT_NE(plan_, nullptr);
    golden_ = Golden();
  }

  // The lists of the seeds with flags apart or, as get_kernel_configs has them, one for both loads and both permutes.
  SpaceDefinition Upstream(bool joint, bool with_store, bool with_tiles) const {
    SpaceDefinition definition;
    if (with_tiles) definition.parameters = Tiles();
    const Kind& kind = GetParam();
    if (joint) {
      definition.parameters.push_back(Flag("use_tma_loads"));
      definition.parameters.push_back(Flag("fuse_permute"));
      for (const char* load : {kind.first_load, kind.second_load})
        definition.derived.emplace_back(load, "use_tma_loads");
      for (const char* permute : {"permute_x", "permute_y"}) definition.derived.emplace_back(permute, "fuse_permute");
    } else {
      for (const char* flag : {"permute_x", "permute_y", kind.first_load, kind.second_load})
        definition.parameters.push_back(Flag(flag));
    }
    if (with_store) {
      definition.parameters.push_back(Flag("use_tma_store"));
    } else {
      definition.constants = {{"use_tma_store", Value(false)}};
    }
    definition.constraints = FlagRules(*plan_);
    return definition;
  }

  v1::Problem ProblemWith(std::initializer_list<const char*> flags) const {
    v1::Problem problem;
    for (const char* flag : flags) (*problem.mutable_dims())[flag].set_bool_value(true);
    return problem;
  }

  std::shared_ptr<const KernelPlan> plan_;
  nlohmann::json golden_;
};

TEST_P(GroupedGemmSpace, OwnRulesGiveTheCountsOfTheSeeds) {
  ASSERT_EQ(FlagRules(*plan_).size(), 3U);
  const nlohmann::json& joint = golden_["get_kernel_configs_default"];
  const PruneReport report = Count(Upstream(true, false, true));
  EXPECT_EQ(report.cartesian, joint["before"].get<double>());
  EXPECT_EQ(report.valid, joint["after"][GetParam().golden].get<double>());
  // dW has no rule about the store; the others' third one never applies without it.
  const std::vector<double> dropped = joint["dropped_by_rule_in_order"][GetParam().golden];
  for (size_t rule = 0; rule < 3; ++rule) EXPECT_EQ(report.rules[rule].rejected, dropped[rule]) << rule;
  const auto count = [this](const char* which, bool with_store, bool with_tiles) {
    const PruneReport counted = Count(Upstream(false, with_store, with_tiles));
    EXPECT_EQ(counted.cartesian, golden_[which]["before"].get<double>()) << which;
    EXPECT_EQ(counted.valid, golden_[which]["after"][GetParam().golden].get<double>()) << which;
  };
  count("independent_flags_no_store", false, true);
  count("independent_flags_with_store", true, true);
  count("one_tile_flag_grid", true, false);
}

TEST_P(GroupedGemmSpace, FirstAndLastConfigOfTheSeeds) {
  const auto space = Space::Build(Upstream(true, false, true));
  ASSERT_TRUE(space.ok());
  const auto table = space->Enumerate();
  ASSERT_TRUE(table.ok());
  const auto expect = [&](uint64_t row, const nlohmann::json& golden) {
    const Config config = space->ConfigAt(*table, row);
    for (const char* name : {"BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "num_warps", "num_stages"}) {
      EXPECT_EQ(*config.Find(name), Value(golden[name].get<int64_t>())) << name;
    }
    EXPECT_EQ(*config.Find("use_tma_loads"), Value(golden["use_tma"].get<bool>()));
    EXPECT_EQ(*config.Find("fuse_permute"), Value(false));
  };
  expect(0, golden_["get_kernel_configs_default"]["first_kept"]);
  expect(table->size() - 1, golden_["get_kernel_configs_default"]["last_kept"]);
}

// The auto-tuned lists: 108 tiles each, kept by what their authors take for shared memory, the same for all three.
TEST_P(GroupedGemmSpace, SharedMemoryRuleOfTheSeedsByDevice) {
  const auto kept = [](int bytes, int shared, int slack) {
    SpaceDefinition definition;
    definition.parameters = Tiles();
    definition.constants = {{"bytes", Value(bytes)}, {"shared", Value(shared)}, {"slack", Value(slack)}};
    definition.device_rules = {
        {"bytes * (num_stages * BLOCK_SIZE_K * (BLOCK_SIZE_M + BLOCK_SIZE_N) + BLOCK_SIZE_M * BLOCK_SIZE_N) <= shared "
         "+ slack",
         ""}};
    return Count(definition).valid;
  };
  const nlohmann::json& golden = golden_["autotune_list_kept_of_108"];
  const std::pair<const char*, std::vector<const char*>> devices[] = {
      {"H100/H200/B200 (232448)", {"H100", "H200", "B200"}},
      {"A100 (166912)", {"A100"}},
      {"sm_86/89/120 (101376)", {"L40S"}},
      {"T4 (65536)", {"T4"}}};
  for (const auto& [key, names] : devices) {
    for (const char* name : names) {
      const int shared = FindKnownClass(name)->shared_bytes_per_block_optin;
      EXPECT_EQ(kept(2, shared, 50000), golden["2_byte"][key].get<double>()) << name;
      EXPECT_EQ(kept(4, shared, 50000), golden["4_byte"][key].get<double>()) << name;
      EXPECT_EQ(kept(2, shared, 0), golden["2_byte_without_slack"][key].get<double>()) << name;
    }
  }
}

// What a search starts from is valid for some layer on the GPU that it was found on, and nothing of it elsewhere.
TEST_P(GroupedGemmSpace, StartingConfigsAreOfTheSpace) {
  std::map<std::string, std::string> unused;  // by config: why not
  std::set<std::string> used;
  v1::Problem few_rows, few_experts;
  (*few_rows.mutable_dims())["tokens"].set_int_value(128);
  (*few_experts.mutable_dims())["E"].set_int_value(16);
  for (const v1::Problem& layer :
       {v1::Problem(), ProblemWith({"permute_x"}), ProblemWith({"permute_y"}), few_rows, few_experts}) {
    const auto problem = plan_->ResolveProblem(layer);
    ASSERT_TRUE(problem.ok()) << Message(problem.status());
    const auto on_h200 = plan_->BuildSpace(*problem, FindKnownClass("H200").value());
    const auto on_a100 = plan_->BuildSpace(*problem, FindKnownClass("A100").value());
    ASSERT_TRUE(on_h200.ok() && on_a100.ok());
    for (const Config& config : on_h200->starting_configs()) {
      EXPECT_FALSE(on_a100->Check(config).ok()) << config.ToText();
      const absl::Status status = on_h200->Check(config);
      const auto known = unused.emplace(config.ToText(), "").first;
      if (status.ok()) used.insert(known->first);
      known->second += Message(status) + "\n";
    }
  }
  EXPECT_GE(used.size(), 5U);
  for (const std::string& config : used) unused.erase(config);
  EXPECT_THAT(unused, testing::IsEmpty());
}

// Every tile of the seeds' lists is a value here, and each is valid on the portable path or broken by registers, shared
// memory or warps too small, not by something that was forgotten.
TEST_P(GroupedGemmSpace, TilesOfTheSeedsAreValidOrDoNotFit) {
  const auto problem = plan_->ResolveProblem({});
  ASSERT_TRUE(problem.ok()) << Message(problem.status());
  for (const char* device : {"H200", "A100", "L40S"}) {
    const auto space = plan_->BuildSpace(*problem, FindKnownClass(device).value());
    ASSERT_TRUE(space.ok()) << Message(space.status());
    SpaceDefinition tiles;
    tiles.parameters = Tiles();
    const auto listed = Space::Build(tiles);
    ASSERT_TRUE(listed.ok());
    const auto table = listed->Enumerate();
    int valid = 0;
    for (uint64_t row = 0; row < table->size(); ++row) {
      const Config tile = listed->ConfigAt(*table, row);
      bool fits = false;
      std::string why;
      for (const int64_t warps_m : {1, 2, 4}) {
        Config config = plan_->DefaultConfig(*problem);
        for (const auto& [name, value] : tile) config.Set(name, value);
        config.Set("warps_m", Value(warps_m));
        config.Set("path", Value("portable"));
        const absl::Status status = space->Check(config);
        fits = fits || status.ok();
        why = Message(status);
      }
      valid += fits ? 1 : 0;
      if (fits) continue;
      EXPECT_THAT(why, testing::AnyOf(testing::HasSubstr("registers"), testing::HasSubstr("shared memory")))
          << device << " " << tile.ToText();
    }
    RecordProperty(fmt::format("valid_{}_{}", GetParam().op, device), valid);
    EXPECT_GT(valid, 10) << device;
  }
}

// The examples that come with the seeds, as far as they are valid by their own rules.
TEST_P(GroupedGemmSpace, ExamplesOfTheSeeds) {
  const std::string op = GetParam().op;
  const auto problem = plan_->ResolveProblem(ProblemWith({"permute_x"}));
  ASSERT_TRUE(problem.ok());
  const auto space = plan_->BuildSpace(*problem, FindKnownClass("H200").value());
  ASSERT_TRUE(space.ok());
  const auto config = plan_->ConfigFromText(plan_->DefaultConfig(*problem).ToText());
  ASSERT_TRUE(config.ok());
  Config small = *config;
  const std::tuple<const char*, int> sizes[] = {{"BLOCK_SIZE_M", 64},
                                                {"BLOCK_SIZE_N", op == "forward" ? 128 : 64},
                                                {"BLOCK_SIZE_K", op == "forward" ? 64 : 256},
                                                {"num_warps", 8},
                                                {"num_stages", op == "forward" ? 4 : 3}};
  for (const auto& [name, value] : sizes) small.Set(name, Value(value));
  EXPECT_TRUE(space->Contains(small)) << Message(space->Check(small));
  small.Set("permute_y", Value(true));
  EXPECT_FALSE(space->Contains(small)) << "flags belong to the problem";
}

TEST_P(GroupedGemmSpace, FlagsThatExcludeEachOtherLeaveNothing) {
  const auto problem = plan_->ResolveProblem(ProblemWith({"permute_x", "permute_y"}));
  ASSERT_TRUE(problem.ok());
  const auto space = plan_->BuildSpace(*problem, FindKnownClass("H200").value());
  ASSERT_TRUE(space.ok());
  EXPECT_EQ(*space->CountValid(), 0U);
  EXPECT_THAT(space->ExplainEmpty(), testing::HasSubstr("only one side of a layer is permuted"));
}

// How rows are drawn is a matter of the prepare steps alone.
TEST_P(GroupedGemmSpace, NoBinaryKnowsTheRouting) {
  const DeviceClass device = FindKnownClass("H200").value();
  const auto problem = plan_->ResolveProblem({});
  ASSERT_TRUE(problem.ok()) << Message(problem.status());
  const Config config = plan_->DefaultConfig(*problem);
  const auto macros = plan_->Constants(*problem, config, device);
  ASSERT_TRUE(macros.ok()) << Message(macros.status());
  for (const auto& [name, value] : *macros) {
    EXPECT_FALSE(name.starts_with("routing") || name.starts_with("rows")) << name;
  }
  // In the order of enum Routing in routing.cuh.
  int32_t number = 0;
  for (const char* const routing : {"balanced", "zipf", "one_empty", "half_on_one", "explicit"}) {
    SCOPED_TRACE(routing);
    v1::Problem drawn;
    (*drawn.mutable_dims())["routing"].set_string_value(routing);
    (*drawn.mutable_dims())["rows_3"].set_int_value(number);
    const auto other = plan_->ResolveProblem(drawn);
    ASSERT_TRUE(other.ok()) << Message(other.status());
    EXPECT_EQ(*plan_->Constants(*other, config, device), *macros);
    EXPECT_EQ(*LaunchDigest(*plan_, *other, config, device), *LaunchDigest(*plan_, *problem, config, device));
    const auto steps = plan_->Steps(Sequence::kPreparePerProblem, *other, config, device);
    ASSERT_TRUE(steps.ok()) << Message(steps.status());
    for (const auto& [argument, expected] : {std::pair{"routing_number", number}, std::pair{"size_3", number}}) {
      int32_t passed = -1;
      std::memcpy(&passed, steps->front().scalars.at(argument).bytes.data(), sizeof(passed));
      EXPECT_EQ(passed, expected) << argument;
    }
    ++number;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, GroupedGemmSpace, testing::ValuesIn(kKinds),
                         [](const testing::TestParamInfo<Kind>& kind) { return std::string(kind.param.op); });

}  // namespace
}  // namespace tunefarm
