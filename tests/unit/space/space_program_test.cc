// Spaces that are too large to be listed, and search programs against brute force on many small ones.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "server/base/status.h"
#include "server/space/space.h"
#include "tests/unit/space/published_spaces.h"
#include "tests/unit/space/random_rules.h"

namespace tunefarm {
namespace {

using Row = std::vector<uint16_t>;

Space Make(SpaceDefinition definition) {
  auto space = Space::Build(std::move(definition));
  EXPECT_TRUE(space.ok()) << space.status();
  return *std::move(space);
}

// The upper 0.001 quantile of chi-square, by the approximation of Wilson and Hilferty (1931).
double ChiSquareLimit(double degrees) {
  const double z = 3.0902;
  const double t = 1 - 2 / (9 * degrees) + z * std::sqrt(2 / (9 * degrees));
  return degrees * t * t * t;
}

TEST(SpaceProgram, PublishedCounts) {
  for (const PublishedSpace& published : PublishedSpaces()) {
    const Space space = Make(published.definition);
    const auto count = space.CountValid();
    const auto table = space.Enumerate();
    ASSERT_TRUE(count.ok() && table.ok()) << published.name;
    EXPECT_EQ(*count, published.valid) << published.name;
    ASSERT_EQ(table->size(), published.valid) << published.name;
    bool is_ascending = true;
    bool is_valid = true;
    for (uint64_t row = 0; row < table->size(); ++row) {
      const auto at = table->Row(row);
      if (row % 97 == 0) is_valid = is_valid && space.IsValid(at);
      if (row == 0) continue;
      const auto before = table->Row(row - 1);
      is_ascending = is_ascending && std::lexicographical_compare(before.begin(), before.end(), at.begin(), at.end());
    }
    EXPECT_TRUE(is_ascending) << published.name;
    EXPECT_TRUE(is_valid) << published.name;
  }
}

// ---- 8 x 10^11 points ----

// Counts what FftLikeDefinition(true) describes, by another way: from the last parameter backwards, the number of ways
// to go on from a value and a sum.
class FftOracle {
 public:
  explicit FftOracle(const SpaceDefinition& definition) {
    for (const Parameter& parameter : definition.parameters) {
      sizes_.push_back(static_cast<int>(parameter.values.size()));
    }
    const size_t count = sizes_.size();
    ways_.assign(count, {});
    for (size_t p = count; p-- > 0;) {
      for (int value = 1; value <= sizes_[p]; ++value) {
        for (int sum = 0; sum <= kSumMax; ++sum) {
          uint64_t total = 0;
          if (sum + value <= kSumMax) {
            if (p + 1 == count) total = 1;
            for (int next = 1; p + 1 < count && next <= sizes_[p + 1]; ++next) {
              if (IsAllowed(value, next)) total += ways_[p + 1][{next, sum + value}];
            }
          }
          ways_[p][{value, sum}] = total;
        }
      }
    }
  }

  uint64_t total() {
    uint64_t total = 0;
    for (int value = 1; value <= sizes_[0]; ++value) total += ways_[0][{value, 0}];
    return total;
  }

  // The place of a config in the space's order; asserts that it is valid.
  uint64_t Rank(const Row& row) {
    uint64_t rank = 0;
    int sum = 0;
    for (size_t p = 0; p < row.size(); ++p) {
      const int value = row[p] + 1;
      for (int smaller = 1; smaller < value; ++smaller) {
        if (p == 0 || IsAllowed(row[p - 1] + 1, smaller)) rank += ways_[p][{smaller, sum}];
      }
      EXPECT_TRUE(p == 0 || IsAllowed(row[p - 1] + 1, value));
      sum += value;
    }
    EXPECT_LE(sum, kSumMax);
    return rank;
  }

 private:
  static constexpr int kSumMax = 60;
  static bool IsAllowed(int value, int next) { return value * next % 5 != 0 || value == 1; }

  std::vector<int> sizes_;
  std::vector<std::map<std::pair<int, int>, uint64_t>> ways_;  // by parameter: (its value, the sum before it)
};

TEST(SpaceProgram, CountsASpaceOf8e11WithoutListingIt) {
  const Space space = Make(FftLikeDefinition(false));
  EXPECT_EQ(space.parameters().size(), 21u);
  EXPECT_EQ(*space.CountValid(), 806'215'680'000u);
  EXPECT_TRUE(absl::IsResourceExhausted(space.Enumerate().status()));
  const Space ruled = Make(FftLikeDefinition(true));
  FftOracle oracle(FftLikeDefinition(true));
  EXPECT_EQ(*ruled.CountValid(), oracle.total());
  EXPECT_GT(oracle.total(), 10'000'000'000u);
  EXPECT_TRUE(absl::IsResourceExhausted(ruled.Enumerate(10'000).status()));
}

// Samples' places in the space's order, in equal parts of the space: each part is hit equally often; and so are the
// remainders by a prime, which depend on the last parameters.
template <typename Rank>
void ExpectUniformRanks(const Space& space, uint64_t total, int samples, const Rank& rank_of) {
  constexpr int kParts = 500;
  std::vector<double> parts(kParts);
  std::vector<double> remainders(kParts - 1);
  PhiloxStream random(20);
  for (int i = 0; i < samples; ++i) {
    const auto row = space.SampleUniform(random);
    ASSERT_TRUE(row.ok()) << row.status();
    const uint64_t rank = rank_of(*row);
    ASSERT_LT(rank, total);
    ++parts[static_cast<size_t>(static_cast<unsigned __int128>(rank) * kParts / total)];
    ++remainders[rank % remainders.size()];
  }
  for (const auto& counts : {parts, remainders}) {
    double chi_square = 0;
    const double expected = static_cast<double>(samples) / static_cast<double>(counts.size());
    for (const double count : counts) chi_square += (count - expected) * (count - expected) / expected;
    EXPECT_LT(chi_square, ChiSquareLimit(static_cast<double>(counts.size()) - 1));
  }
}

TEST(SpaceProgram, SamplesASpaceOf8e11Uniformly) {
  const SpaceDefinition definition = FftLikeDefinition(false);
  const Space space = Make(definition);
  ExpectUniformRanks(space, 806'215'680'000, 20'000, [&definition](const Row& row) {
    uint64_t rank = 0;
    for (size_t p = 0; p < row.size(); ++p) rank = rank * definition.parameters[p].values.size() + row[p];
    return rank;
  });
  const Space ruled = Make(FftLikeDefinition(true));
  FftOracle oracle(FftLikeDefinition(true));
  ExpectUniformRanks(ruled, oracle.total(), 20'000, [&oracle](const Row& row) { return oracle.Rank(row); });
}

TEST(SpaceProgram, CountsBeyond64Bits) {
  SpaceDefinition definition;
  for (int i = 0; i < 30; ++i) {
    definition.parameters.push_back({fmt::format("P{}", i), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {}});
    if (i > 0) definition.constraints.push_back({fmt::format("P{} + P{} != 9", i - 1, i), ""});
  }
  const Space space = Make(definition);  // 10 * 9^29
  EXPECT_TRUE(absl::IsResourceExhausted(space.CountValid().status()));
  EXPECT_TRUE(absl::IsResourceExhausted(space.Enumerate(1000).status()));
  PhiloxStream random(9);
  std::vector<double> last(10);
  for (int i = 0; i < 5000; ++i) {
    const auto row = space.SampleUniform(random);
    ASSERT_TRUE(row.ok()) << row.status();
    ASSERT_TRUE(space.IsValid(*row));
    ++last[row->back()];
  }
  double chi_square = 0;  // by symmetry every value is as likely
  for (const double count : last) chi_square += (count - 500) * (count - 500) / 500;
  EXPECT_LT(chi_square, ChiSquareLimit(9));
}

TEST(SpaceProgram, LongListsAreNarrowedBeforeTheSearch) {
  std::vector<Value> many;
  for (int i = 1; i <= 65'535; ++i) many.push_back(i);
  SpaceDefinition definition;
  definition.parameters = {{"A", many, {}}, {"B", many, {}}, {"C", many, {}}};
  definition.constraints = {{"A * B * C <= 1000", ""}, {"B % A == 0 and C % B == 0", ""}};
  uint64_t expected = 0;
  for (int a = 1; a <= 10; ++a) {
    for (int b = a; a * b * b <= 1000; b += a) {
      for (int c = b; a * b * c <= 1000; c += b) ++expected;
    }
  }
  SpaceOptions options;
  options.nodes_max = 20'000'000;  // 65,535 times 65,535 would be too many
  const auto space = Space::Build(definition, options);
  ASSERT_TRUE(space.ok());
  EXPECT_EQ(*space->CountValid(), expected);
  EXPECT_EQ(space->Enumerate()->size(), expected);
}

// ---- Against brute force ----

struct Expected {
  std::vector<Row> rows;
  bool fails = false;
};

Expected BruteForce(const SpaceDefinition& definition) {
  Expected expected;
  SymbolTable symbols;
  for (const Parameter& parameter : definition.parameters) EXPECT_TRUE(symbols.AddVariable(parameter.name).ok());
  for (const auto& [name, value] : definition.constants) EXPECT_TRUE(symbols.AddConstant(name, value).ok());
  for (const auto& [name, text] : definition.derived) EXPECT_TRUE(symbols.AddDerived(name, text).ok());
  std::vector<Expression> rules;
  for (const Rule& rule : definition.constraints) rules.push_back(*Expression::Compile(rule.text, symbols));
  Row at(definition.parameters.size(), 0);
  while (true) {
    std::vector<Value> slots;
    for (size_t p = 0; p < at.size(); ++p) slots.push_back(definition.parameters[p].values[at[p]]);
    bool is_rejected = false;
    bool has_fault = false;
    for (const Expression& rule : rules) {
      const auto truth = rule.EvaluateBool(slots.data());
      has_fault = has_fault || !truth.ok();
      is_rejected = is_rejected || (truth.ok() && !*truth);
    }
    if (!is_rejected && has_fault) expected.fails = true;
    if (!is_rejected) expected.rows.push_back(at);
    size_t p = at.size();
    while (p > 0 && ++at[p - 1] == definition.parameters[p - 1].values.size()) at[--p] = 0;
    if (p == 0) break;
  }
  return expected;
}

SpaceDefinition RandomDefinition(PhiloxStream& random) {
  SpaceDefinition definition;
  const uint64_t parameters = 2 + random.UniformInt(4);
  for (uint64_t p = 0; p < parameters; ++p) {
    Parameter parameter{fmt::format("P{}", p), {}, {}};
    const int values = 1 + static_cast<int>(random.UniformInt(5));
    const uint64_t kind = random.UniformInt(8);
    for (int v = 0; v < values; ++v) {
      if (kind == 0) {
        parameter.values.push_back(v * 0.75 - 0.75);
      } else if (kind == 1 && values == 2) {
        parameter.values.push_back(v == 1);
      } else {
        parameter.values.push_back(values - v * static_cast<int>(kind % 3 + 1) + static_cast<int>(kind) - 2);
      }
    }
    definition.parameters.push_back(parameter);
  }
  definition.parameters.push_back({"S", {"x", "y", "zz"}, {}});
  definition.constants = {{"c", Value(3)}, {"kind", Value("y")}, {"f", Value(2.5)}};
  definition.derived = {{"d", "P0 * P1 + c"}, {"e", "d if P0 > 1 else P1"}};
  const char* const shapes[] = {
      "{0} and {1} % 2 == 0",
      "{1} != 0 and {0} % {1} == 0",
      "{0} % {1} == 0 if {1} != 0 else {2} > 1",
      "{1} == 0 or {0} // {1} < 2",
      "{0} % {1} != 1",
      "min({0}, {1}, {2}) >= 1",
      "max({0}, {1}) < 5",
      "abs({0} - {1}) <= 2 and {0} + {1} + {2} >= 2",
      "{0} * {1} + {2} < 10 and {2} > 0",
      "1 <= {0} * {1} <= 6",
      "not ({0} > 2 or {1} * {2} == 4)",
      "({0} * {1}) / c % 2 != 1",
      "{0} / 2 < {1} or {2} / {1} > 1",
      "ceil_div({0} + 5, c) <= {1} + 2",
      "round_up({0}, c) != {1}",
      "2 ** {0} > {1}",
      "S == 'x' or {0} > 1",
      "S in ('x', 'zz') and {0} < 3",
      "S != kind",
      "({0} if S == kind else {1}) < c",
      "{0} in (1, 2, {1}) or {2} not in [0, 1]",
      "d <= 9",
      "e + {2} != 4",
      "({0} or {1}) + ({1} and {2}) > 1",
      "{0} * f <= {1} + f",
      "float({0}) == {1} or bool({2})",
      "{0} - {1} - {2} < -1 or -{0} > {1}",
      "{0} * {1} * {2} <= 12",
      "{0} + {1} + {2} + P0 + P1 == 6",
      "log2({0} * {0} + 1) < c",
  };
  AddRandomRules(shapes, parameters, random.UniformInt(5), random, &definition);
  return definition;
}

// What is listed, counted and drawn is what brute force finds. Whether that is without a fault.
bool AgreesWithBruteForce(const SpaceDefinition& definition, PhiloxStream& random) {
  const Expected expected = BruteForce(definition);
  const Space space = Make(definition);
  const auto table = space.Enumerate();
  const auto count = space.CountValid();
  const auto sample = space.SampleUniform(random);
  EXPECT_EQ(table.ok(), !expected.fails) << table.status();
  EXPECT_EQ(count.ok(), !expected.fails) << count.status();
  EXPECT_EQ(sample.ok(), !expected.fails && !expected.rows.empty());
  if (expected.fails || !table.ok() || !count.ok()) return false;
  std::vector<Row> rows;
  for (uint64_t row = 0; row < table->size(); ++row) rows.emplace_back(table->Row(row).begin(), table->Row(row).end());
  EXPECT_EQ(rows, expected.rows);
  EXPECT_EQ(*count, rows.size());
  if (sample.ok()) {
    EXPECT_TRUE(std::binary_search(rows.begin(), rows.end(), *sample));
  }
  return true;
}

std::string Shown(const SpaceDefinition& definition) {
  std::string shown;
  for (const Parameter& parameter : definition.parameters) {
    shown += parameter.name + " in";
    for (const Value& value : parameter.values) shown += " " + value.ToLiteral();
    shown += "; ";
  }
  for (const Rule& rule : definition.constraints) shown += "\n" + rule.text;
  return shown;
}

TEST(SpaceProgram, AgreesWithBruteForce) {
  PhiloxStream random(31);
  int failing = 0, constrained = 0;
  for (int round = 0; round < 1000; ++round) {
    const SpaceDefinition definition = RandomDefinition(random);
    (AgreesWithBruteForce(definition, random) ? constrained : failing) += definition.constraints.empty() ? 0 : 1;
    ASSERT_FALSE(testing::Test::HasFailure()) << Shown(definition);
  }
  EXPECT_GT(failing, 10);
  EXPECT_GT(constrained, 300);
}

// ---- Configs that do not fit into 64 bits ----

constexpr int kWideParameters = 24;

// Parameters of 72 bits that have one value left each, the last of them two.
void AddWideParameters(SpaceDefinition* definition) {
  for (int i = 0; i < kWideParameters; ++i) {
    definition->parameters.push_back({fmt::format("W{}", i), {0, 1, 2, 3, 4, 5, 6, 7}, {}});
    definition->constraints.push_back({fmt::format("W{} < {}", i, i == kWideParameters - 1 ? 2 : 1), ""});
  }
}

TEST(SpaceProgram, WideSpacesAreListedAsNarrowOnes) {
  PhiloxStream random(17);
  int listed = 0;
  for (int round = 0; round < 100; ++round) {
    SpaceDefinition definition = RandomDefinition(random);
    const Space narrow = Make(definition);
    const std::string shown = Shown(definition);
    // In front of the others and behind them, so that their values interleave in the order of the space.
    AddWideParameters(&definition);
    std::rotate(definition.parameters.begin(), definition.parameters.end() - 2, definition.parameters.end());
    const Space wide = Make(definition);
    const auto expected = narrow.Enumerate();
    const auto table = wide.Enumerate();
    ASSERT_EQ(table.ok(), expected.ok()) << shown;
    if (!expected.ok()) continue;
    std::vector<Row> rows;
    for (const uint16_t last : {0, 1}) {
      for (uint64_t row = 0; row < expected->size(); ++row) {
        rows.push_back({0, last});
        rows.back().insert(rows.back().end(), expected->Row(row).begin(), expected->Row(row).end());
        rows.back().resize(rows.back().size() + kWideParameters - 2, 0);
      }
    }
    ASSERT_EQ(table->size(), rows.size()) << shown;
    for (uint64_t row = 0; row < table->size(); ++row) {
      ASSERT_TRUE(std::equal(rows[row].begin(), rows[row].end(), table->Row(row).begin())) << shown;
    }
    if (rows.empty()) continue;
    ++listed;
    EXPECT_TRUE(absl::IsResourceExhausted(wide.Enumerate(rows.size() - 1).status()));
    const auto sample = wide.SampleUniform(random);
    ASSERT_TRUE(sample.ok()) << sample.status();
    EXPECT_TRUE(std::binary_search(rows.begin(), rows.end(), *sample));
  }
  EXPECT_GT(listed, 30);
}

TEST(SpaceProgram, SamplesUniformlyByTheCountsOfPrefixes) {
  // More partial sums than counting remembers, too few valid points for rejection, and too wide for a list of keys.
  constexpr int kA = 110, kB = 110, kC = 100, kD = 4;
  SpaceDefinition definition;
  for (const auto& [name, count] : {std::pair("A", kA), std::pair("B", kB), std::pair("C", kC), std::pair("D", kD)}) {
    definition.parameters.push_back({name, {}, {}});
    for (int i = 0; i < count; ++i) definition.parameters.back().values.push_back(i);
  }
  definition.constraints = {{"(A * 7919 + B * 104729 + C * 1299709 + D) % 1000003 < 3000", ""}};
  AddWideParameters(&definition);
  std::vector<double> share(kA);
  double total = 0;
  for (int a = 0; a < kA; ++a) {
    for (int b = 0; b < kB; ++b) {
      for (int c = 0; c < kC; ++c) {
        for (int d = 0; d < kD; ++d) share[a] += (a * 7919 + b * 104729 + c * 1299709 + d) % 1000003 < 3000 ? 1 : 0;
      }
    }
    total += share[a];
  }
  const Space space = Make(definition);
  constexpr int kSamples = 10'000;
  std::vector<double> counts(kA);
  PhiloxStream random(8);
  for (int i = 0; i < kSamples; ++i) {
    const auto row = space.SampleUniform(random);
    ASSERT_TRUE(row.ok()) << row.status();
    ASSERT_TRUE(space.IsValid(*row));
    ++counts[(*row)[0]];
  }
  double chi_square = 0;
  for (int a = 0; a < kA; ++a) {
    const double expected = kSamples * share[a] / total;
    chi_square += (counts[a] - expected) * (counts[a] - expected) / expected;
  }
  EXPECT_LT(chi_square, ChiSquareLimit(kA - 1));
}

TEST(SpaceProgram, ManyRulesOnAVeryLongListAreJudgedByTheirExpressions) {
  constexpr int kValues = 65'535;
  SpaceDefinition definition;
  definition.parameters = {{"A", {}, {}}, {"B", {1, 2}, {}}};
  for (int i = 1; i <= kValues; ++i) definition.parameters[0].values.push_back(i);
  for (int k = 1; k <= 40; ++k) {
    definition.constraints.push_back({fmt::format("(A * {} + B * B) % {} != {}", k, k + 60, k), ""});
  }
  uint64_t expected = 0;
  for (int a = 1; a <= kValues; ++a) {
    for (const int b : {1, 2}) {
      bool holds = true;
      for (int k = 1; k <= 40 && holds; ++k) holds = (a * k + b * b) % (k + 60) != k;
      expected += holds ? 1 : 0;
    }
  }
  const Space space = Make(definition);
  EXPECT_GT(expected, 1000u);
  EXPECT_EQ(*space.CountValid(), expected);
  EXPECT_EQ(space.Enumerate()->size(), expected);
}

TEST(SpaceProgram, AFaultCountsOnlyAtAPointThatNoLaterRuleRejects) {
  for (const bool is_guarded : {true, false}) {
    SpaceDefinition definition;
    for (const char* const name : {"P0", "P1", "P2", "P3"}) {
      definition.parameters.push_back({name, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {}});
    }
    // The second rule has more parameters, so that the first one is judged before; for P1 = 0 it rejects every point.
    definition.constraints = {{"P0 % P1 < 9", ""}};
    if (is_guarded) definition.constraints.push_back({"P1 * (P2 + P3 + 1) % 13 != 0", ""});
    PhiloxStream random(1);
    EXPECT_EQ(AgreesWithBruteForce(definition, random), is_guarded);
  }
}

TEST(SpaceProgram, AConstantTimesWhatMayBeNegativeHasTheBoundsOfItsSign) {
  PhiloxStream random(2);
  for (const char* rule :
       {"(x - y) * 3 < 1", "(x - y) * -3 < 1", "2 * min(x, y) >= -2", "(y if x > 0 else x) * 4 == 4"}) {
    SpaceDefinition definition;
    definition.parameters = {{"x", {-1, 0, 3}, {}}, {"y", {-2, 1, 2}, {}}};
    definition.constraints = {{rule, ""}};
    EXPECT_TRUE(AgreesWithBruteForce(definition, random)) << rule;
    EXPECT_FALSE(BruteForce(definition).rows.empty()) << rule;
  }
}

TEST(SpaceProgram, RulesOfAnyFormAgreeWithBruteForce) {
  PhiloxStream random(59);
  int told = 0;
  for (int round = 0; round < 3000; ++round) {
    SpaceDefinition definition;
    const uint64_t parameters = 2 + random.UniformInt(3);
    for (uint64_t p = 0; p < parameters; ++p) {
      Parameter parameter{fmt::format("P{}", p), {}, {}};
      const uint64_t kind = random.UniformInt(6);
      const int first = -static_cast<int>(random.UniformInt(5));
      for (int v = 0; v < 4; ++v) {
        if (kind == 0) {
          parameter.values.push_back(v * 0.75 - 1.5);
        } else if (kind == 1) {
          if (v < 2) parameter.values.push_back(v == 1);
        } else {
          parameter.values.push_back(first + v * static_cast<int>(kind - 1));
        }
      }
      definition.parameters.push_back(parameter);
    }
    RandomRules rules(parameters, &random);
    for (uint64_t rule = 0; rule < 1 + random.UniformInt(2); ++rule) {
      definition.constraints.push_back({rules.Truth(1 + static_cast<int>(random.UniformInt(3))), ""});
    }
    told += AgreesWithBruteForce(definition, random) ? 1 : 0;
    ASSERT_FALSE(testing::Test::HasFailure()) << Shown(definition);
  }
  EXPECT_GT(told, 2000);
}

}  // namespace
}  // namespace tunefarm
