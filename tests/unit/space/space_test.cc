#include "server/space/space.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "server/base/status.h"
#include "tests/unit/space/random_rules.h"

namespace tunefarm {
namespace {

Space Make(SpaceDefinition definition) {
  auto space = Space::Build(std::move(definition));
  EXPECT_TRUE(space.ok()) << space.status();
  return *std::move(space);
}

std::string BuildError(SpaceDefinition definition) {
  const auto space = Space::Build(std::move(definition));
  EXPECT_FALSE(space.ok());
  return std::string(MessageOf(space.status()));
}

std::vector<std::string> Texts(const Space& space, const ConfigTable& table) {
  std::vector<std::string> texts;
  for (uint64_t row = 0; row < table.size(); ++row) texts.push_back(space.ConfigAt(table, row).ToText());
  return texts;
}

TEST(Space, ListsInDeclaredOrderLastFastest) {
  SpaceDefinition definition;
  definition.parameters = {{"B", {2, 1}, {}}, {"A", {true, false}, {}}, {"C", {"x", "y"}, {}}};
  // The rule connects the first and the last parameter, so that the search order differs from the declared one.
  definition.constraints = {{"B == 1 or C == 'y'", ""}};
  const Space space = Make(definition);
  const auto table = space.Enumerate();
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(Texts(space, *table), (std::vector<std::string>{"A=true,B=2,C=y", "A=false,B=2,C=y", "A=true,B=1,C=x",
                                                            "A=true,B=1,C=y", "A=false,B=1,C=x", "A=false,B=1,C=y"}));
  EXPECT_EQ(*space.CountValid(), 6u);
  EXPECT_EQ(space.CartesianText(), "8");
}

TEST(Space, WithoutParametersHasOneConfig) {
  const Space space = Make({});
  EXPECT_EQ(*space.CountValid(), 1u);
  EXPECT_EQ(space.Enumerate()->size(), 1u);
  EXPECT_EQ(space.ConfigAt(*space.Enumerate(), 0), Config());
}

TEST(Space, RefusesBadDefinitions) {
  EXPECT_EQ(BuildError({{{"A", {}, {}}}, {}, {}, {}, {}, {}}), "parameter 'A' has no values");
  EXPECT_EQ(BuildError({{{"A", {1, 1}, {}}}, {}, {}, {}, {}, {}}), "parameter 'A' lists the value 1 twice");
  EXPECT_EQ(BuildError({{{"A", {1, 2}, Value(3)}}, {}, {}, {}, {}, {}}),
            "the default 3 of parameter 'A' is not among its values");
  EXPECT_EQ(BuildError({{{"A", {1}, {}}, {"A", {1}, {}}}, {}, {}, {}, {}, {}}),
            "parameter: the name 'A' is defined twice");
  EXPECT_EQ(
      BuildError({{{"BLOCK", {1}, {}}}, {{"BLOCK > 0", ""}}, {{"BLOC < 9", ""}}, {}, {}, {}}),
      "device rule 1: expression error at column 1: unknown name 'BLOC' (did you mean 'BLOCK'?)\n  BLOC < 9\n  ^");
  EXPECT_NE(BuildError({{{"A", {1}, {}}}, {}, {}, {}, {{"d", "A +"}}, {}}).find("derived name 'd'"), std::string::npos);
}

TEST(Space, ConstantsAndDerivedNamesEnterTheRules) {
  SpaceDefinition definition;
  definition.parameters = {{"TILE", {32, 64, 128}, {}}, {"STAGES", {2, 3, 4}, {}}};
  definition.constants = {{"device.shared", Value(65536)}, {"bytes", Value(2)}};
  definition.derived = {{"tile_bytes", "TILE * TILE * bytes"}, {"shared", "STAGES * tile_bytes"}};
  definition.device_rules = {{"shared <= device.shared", "shared memory"}};
  const Space space = Make(definition);
  EXPECT_EQ(*space.CountValid(), 7u);  // 128*128*2 = 32 KiB fits twice
  const auto report = space.CountByRule();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->rules[0].rejected, 2);
  EXPECT_TRUE(report->rules[0].is_device_rule);
  EXPECT_EQ(report->rules[0].text, "shared <= device.shared");
  EXPECT_EQ(report->rules[0].reason, "shared memory");
}

TEST(Space, CheckSaysWhatIsWrong) {
  SpaceDefinition definition;
  definition.parameters = {{"BLOCK", {32, 64}, Value(32)}, {"MODE", {"a", "b"}, Value("a")}};
  definition.constraints = {{"BLOCK < 64 or MODE == 'a'", "mode b is slow"}};
  const Space space = Make(definition);
  EXPECT_TRUE(space.Contains(*space.DefaultConfig()));
  const auto check = [&space](const Config& config) { return std::string(MessageOf(space.Check(config))); };
  EXPECT_EQ(check({{"BLOCK", 64}, {"MODE", "b"}}),
            "the config breaks the constraint 'BLOCK < 64 or MODE == 'a'': mode b is slow");
  EXPECT_EQ(check({{"BLOCK", 64}}), "the config lacks a value of parameter 'MODE'");
  EXPECT_EQ(check({{"BLOCK", 48}, {"MODE", "b"}}), "48 is not a value of parameter 'BLOCK'");
  EXPECT_EQ(check({{"BLOCK", 64}, {"MODE", "a"}, {"BLOK", 1}}),
            "the space has no parameter 'BLOK' (did you mean 'BLOCK'?)");
}

TEST(Space, RuleThatFailsNamesThePlaceAndTheValues) {
  SpaceDefinition definition;
  definition.parameters = {{"N", {0, 4}, {}}, {"M", {8, 9}, {}}, {"K", {1, 2}, {}}};
  definition.constraints = {{"M % N == 0", ""}};
  const std::string expected =
      "constraint 1 cannot be evaluated at M=8,N=0: expression error at column 3: division by zero in 8 % 0\n"
      "  M % N == 0\n"
      "    ^";
  const Space space = Make(definition);
  EXPECT_EQ(MessageOf(space.Enumerate().status()), expected);
  EXPECT_EQ(MessageOf(space.CountValid().status()), expected);
  EXPECT_EQ(MessageOf(space.CountByRule().status()), expected);
  PhiloxStream random(1);
  EXPECT_EQ(MessageOf(space.SampleUniform(random).status()), expected);
  EXPECT_EQ(MessageOf(space.Check({{"N", 0}, {"M", 8}, {"K", 1}})), expected);
}

TEST(Space, GuardedRuleIsNoErrorInAnyOrder) {
  for (const bool guard_first : {true, false}) {
    SpaceDefinition definition;
    definition.parameters = {{"N", {0, 4}, {}}, {"M", {8, 9}, {}}, {"K", {1, 2}, {}}};
    definition.constraints = {{"M % N == 0", ""}, {"N + K > 2", ""}};
    if (guard_first) std::swap(definition.constraints[0], definition.constraints[1]);
    const Space space = Make(definition);
    EXPECT_EQ(*space.CountValid(), 2u);
    EXPECT_EQ(space.Enumerate()->size(), 2u);
    const auto report = space.CountByRule();
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->valid, 2);
    EXPECT_EQ(report->rules[guard_first ? 0 : 1].rejected, 4);
    EXPECT_EQ(report->rules[guard_first ? 1 : 0].rejected, 2);
  }
}

TEST(Space, EmptySpaceIsExplained) {
  SpaceDefinition definition;
  definition.parameters = {{"A", {1, 2}, {}}, {"B", {1, 2, 3}, {}}};
  definition.constraints = {{"A > 1", "too small"}, {"A * B > 100", ""}, {"B > 0", ""}};
  const Space space = Make(definition);
  EXPECT_EQ(*space.CountValid(), 0u);
  EXPECT_TRUE(space.Enumerate()->empty());
  EXPECT_EQ(space.ExplainEmpty(),
            "the space is empty: the rules reject all 6 points\n"
            "  3 by constraint 'A > 1': too small\n"
            "  3 by constraint 'A * B > 100'");
  PhiloxStream random(1);
  EXPECT_TRUE(absl::IsNotFound(space.SampleUniform(random).status()));
  definition.constraints = {{"1 > 2", ""}};
  const Space constant = Make(definition);
  EXPECT_EQ(*constant.CountValid(), 0u);
  EXPECT_EQ(constant.CountByRule()->rules[0].rejected, 6);
}

SpaceDefinition HugeDefinition() {
  SpaceDefinition definition;
  for (int i = 0; i < 12; ++i) {
    std::vector<Value> values;
    for (int v = 0; v < 10; ++v) values.push_back(v);
    definition.parameters.push_back({fmt::format("P{}", i), values, {}});
  }
  for (int i = 0; i < 12; i += 3) {
    definition.constraints.push_back({fmt::format("P{} + P{} == 2 * P{}", i, i + 1, i + 2), ""});
  }
  return definition;
}

TEST(Space, HugeSpaceIsCountedAndSampledButNotListed) {
  const Space space = Make(HugeDefinition());
  EXPECT_EQ(space.CartesianText(), "1,000,000,000,000");
  EXPECT_EQ(*space.CountValid(), 50u * 50 * 50 * 50);
  EXPECT_TRUE(absl::IsResourceExhausted(space.CountValid(1000).status()));
  const auto table = space.Enumerate(1'000'000);
  EXPECT_EQ(
      MessageOf(table.status()),
      "the space has more than 1,000,000 valid configs (1,000,000,000,000 points before the rules), too many to list; "
      "narrow the values or use a strategy that does not list the space");
  PhiloxStream random(5);
  for (int i = 0; i < 100; ++i) {
    const auto indices = space.SampleUniform(random);
    ASSERT_TRUE(indices.ok()) << indices.status();
    EXPECT_TRUE(space.Contains(space.MakeConfig(*indices)));
  }
  const auto report = space.CountByRule();
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->exact);
  EXPECT_TRUE(report->is_valid_exact);
  EXPECT_EQ(report->valid, 50.0 * 50 * 50 * 50);
  EXPECT_NEAR(report->rules[0].rejected / 9.5e11, 1.0, 0.01);
  EXPECT_EQ(report->rules[0].rejected, space.CountByRule()->rules[0].rejected) << "the estimate is repeatable";
}

TEST(Space, SearchStopsAtItsBudget) {
  SpaceDefinition definition = HugeDefinition();
  // Nothing is decided, and nothing comes together, before the last parameter.
  std::string mixed = "P0";
  for (int i = 1; i < 12; ++i) mixed = fmt::format("({} * 31 + P{}) % 1000003", mixed, i);
  definition.constraints = {{mixed + " == 5", ""}};
  SpaceOptions options;
  options.nodes_max = 100'000;
  const auto space = Space::Build(definition, options);
  ASSERT_TRUE(space.ok());
  EXPECT_TRUE(absl::IsResourceExhausted(space->CountValid().status()));
  EXPECT_TRUE(absl::IsResourceExhausted(space->Enumerate().status()));
}

// The upper 0.001 quantile of chi-square, by the approximation of Wilson and Hilferty (1931).
double ChiSquareLimit(double degrees) {
  const double z = 3.0902;
  const double t = 1 - 2 / (9 * degrees) + z * std::sqrt(2 / (9 * degrees));
  return degrees * t * t * t;
}

void ExpectUniform(const Space& space, int samples) {
  const auto table = space.Enumerate();
  ASSERT_TRUE(table.ok());
  std::map<std::string, int> counts;
  PhiloxStream random(99);
  for (int i = 0; i < samples; ++i) {
    const auto indices = space.SampleUniform(random);
    ASSERT_TRUE(indices.ok()) << indices.status();
    ++counts[space.MakeConfig(*indices).ToText()];
  }
  double chi_square = 0;
  const double expected = static_cast<double>(samples) / static_cast<double>(table->size());
  for (const std::string& text : Texts(space, *table)) {
    const double difference = counts[text] - expected;
    chi_square += difference * difference / expected;
    counts.erase(text);
  }
  EXPECT_TRUE(counts.empty()) << "sampled an invalid config";
  EXPECT_LT(chi_square, ChiSquareLimit(static_cast<double>(table->size()) - 1));
}

TEST(Space, SamplesUniformlyByCounting) {
  // A = 0 has one partner, A = 3 has many: restarts from random values would favour A = 0.
  SpaceDefinition definition;
  definition.parameters = {{"A", {0, 1, 2, 3}, {}}, {"B", {0, 1, 2, 3, 4, 5, 6, 7}, {}}, {"F", {"x", "y", "z"}, {}}};
  definition.constraints = {{"B < 2 ** A", ""}};
  ExpectUniform(Make(definition), 40'000);
}

TEST(Space, SamplesUniformlyByRejection) {
  SpaceDefinition definition;
  std::vector<Value> many;
  for (int i = 0; i < 1100; ++i) many.push_back(i);
  definition.parameters = {{"A", many, {}}, {"B", many, {}}};
  definition.constraints = {{"(A * 7 + B) % 97 < 3", ""}};
  // 1.2e6 points, 3 % valid, and no leave to count them.
  SpaceOptions options;
  options.nodes_max = 100'000;
  const auto built = Space::Build(definition, options);
  ASSERT_TRUE(built.ok()) << built.status();
  const Space& space = *built;
  EXPECT_TRUE(absl::IsResourceExhausted(space.CountValid().status()));
  PhiloxStream random(3);
  double sum = 0;
  constexpr int kSamples = 20'000;
  for (int i = 0; i < kSamples; ++i) {
    const auto indices = space.SampleUniform(random);
    ASSERT_TRUE(indices.ok()) << indices.status();
    ASSERT_TRUE(space.Contains(space.MakeConfig(*indices)));
    sum += (*indices)[0];
  }
  EXPECT_NEAR(sum / kSamples, 549.5, 5 * 317.5 / std::sqrt(kSamples));
}

// ---- Against brute force ----

struct RandomSpace {
  SpaceDefinition definition;
  std::vector<std::string> valid;
  std::vector<double> rejected;
  bool fails = false;
};

// Judges every point of the Cartesian product by the rules' meaning alone.
RandomSpace BruteForce(SpaceDefinition definition) {
  RandomSpace result;
  SymbolTable symbols;
  for (const Parameter& parameter : definition.parameters) EXPECT_TRUE(symbols.AddVariable(parameter.name).ok());
  std::vector<Expression> rules;
  for (const Rule& rule : definition.constraints) rules.push_back(*Expression::Compile(rule.text, symbols));
  result.rejected.resize(rules.size());
  std::vector<size_t> at(definition.parameters.size(), 0);
  while (true) {
    std::vector<Value> slots;
    Config config;
    for (size_t p = 0; p < at.size(); ++p) {
      slots.push_back(definition.parameters[p].values[at[p]]);
      config.Set(definition.parameters[p].name, slots.back());
    }
    bool is_rejected = false;
    bool has_fault = false;
    for (size_t rule = 0; rule < rules.size() && !is_rejected; ++rule) {
      const auto truth = rules[rule].EvaluateBool(slots.data());
      if (!truth.ok()) {
        has_fault = true;
      } else if (!*truth) {
        is_rejected = true;
        ++result.rejected[rule];
      }
    }
    if (!is_rejected && has_fault) result.fails = true;
    if (!is_rejected) result.valid.push_back(config.ToText());
    size_t p = at.size();
    while (p > 0 && ++at[p - 1] == definition.parameters[p - 1].values.size()) at[--p] = 0;
    if (p == 0) break;
  }
  result.definition = std::move(definition);
  return result;
}

SpaceDefinition RandomDefinition(PhiloxStream& random) {
  SpaceDefinition definition;
  const int parameters = 1 + static_cast<int>(random.UniformInt(5));
  for (int p = 0; p < parameters; ++p) {
    Parameter parameter{fmt::format("P{}", p), {}, {}};
    const int values = 1 + static_cast<int>(random.UniformInt(5));
    const uint64_t kind = random.UniformInt(6);
    for (int v = 0; v < values; ++v) {
      if (kind == 0) {
        parameter.values.push_back(v * 0.5);
      } else {
        parameter.values.push_back(values - v + static_cast<int>(kind) - 2);
      }
    }
    definition.parameters.push_back(parameter);
  }
  const char* const shapes[] = {
      "{0} * {1} <= 12", "{0} % {1} != 2",          "{0} + {1} + {2} > 3", "{0} == 1 or {1} > {2}",   "{0} // {1} < 3",
      "{0} != 3",        "{0} in (0, 1, {1}, 2.5)", "not ({0} and {1})",   "1 // {0} < 1 or {1} > 0", "{0} / 2 < {1}"};
  AddRandomRules(shapes, parameters, random.UniformInt(5), random, &definition);
  return definition;
}

TEST(Space, AgreesWithBruteForce) {
  PhiloxStream random(2024);
  int failing = 0;
  int empty = 0;
  for (int round = 0; round < 2000; ++round) {
    const RandomSpace expected = BruteForce(RandomDefinition(random));
    std::string shown;
    for (const Rule& rule : expected.definition.constraints) shown += rule.text + "; ";
    const Space space = Make(expected.definition);
    const auto table = space.Enumerate();
    const auto count = space.CountValid();
    const auto report = space.CountByRule();
    if (expected.fails) {
      ++failing;
      ASSERT_FALSE(table.ok()) << shown;
      ASSERT_FALSE(count.ok()) << shown;
      ASSERT_FALSE(report.ok()) << shown;
      continue;
    }
    ASSERT_TRUE(table.ok()) << shown << table.status();
    ASSERT_EQ(Texts(space, *table), expected.valid) << shown;
    ASSERT_EQ(*count, expected.valid.size()) << shown;
    ASSERT_TRUE(report.ok()) << shown << report.status();
    EXPECT_EQ(report->valid, static_cast<double>(expected.valid.size())) << shown;
    for (size_t rule = 0; rule < expected.rejected.size(); ++rule) {
      ASSERT_EQ(report->rules[rule].rejected, expected.rejected[rule]) << shown;
    }
    if (expected.valid.empty()) {
      ++empty;
      continue;
    }
    const auto sample = space.SampleUniform(random);
    ASSERT_TRUE(sample.ok()) << shown << sample.status();
    const std::string text = space.MakeConfig(*sample).ToText();
    ASSERT_NE(std::find(expected.valid.begin(), expected.valid.end(), text), expected.valid.end()) << shown;
  }
  EXPECT_GT(failing, 100);
  EXPECT_LT(failing, 1500);
  EXPECT_GT(empty, 10);
}

}  // namespace
}  // namespace tunefarm
