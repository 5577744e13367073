// Neighbourhood queries and the row index, against their definition on the listed space.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "server/base/status.h"
#include "server/space/config_index.h"
#include "server/space/space.h"
#include "tests/unit/space/random_rules.h"

namespace tunefarm {
namespace {

using Row = std::vector<uint16_t>;

Space Make(SpaceDefinition definition) {
  auto space = Space::Build(std::move(definition));
  EXPECT_TRUE(space.ok()) << space.status();
  return *std::move(space);
}

std::vector<Row> Rows(const ConfigTable& table) {
  std::vector<Row> rows;
  for (uint64_t row = 0; row < table.size(); ++row) rows.emplace_back(table.Row(row).begin(), table.Row(row).end());
  return rows;
}

// The definition, word by word.
std::vector<Row> Expected(const std::vector<Row>& space, const Row& at, Neighbourhood kind) {
  std::vector<Row> near;
  std::vector<std::set<int>> occurring(at.size());
  for (const Row& row : space) {
    for (size_t p = 0; p < row.size(); ++p) occurring[p].insert(row[p]);
  }
  for (const Row& row : space) {
    int differing = 0;
    bool is_within = true;
    for (size_t p = 0; p < at.size(); ++p) {
      if (row[p] == at[p]) continue;
      ++differing;
      const int low = std::min(row[p], at[p]);
      const int high = std::max(row[p], at[p]);
      // Adjacent: no value that occurs lies between. Strictly: no value at all does.
      const auto above = occurring[p].upper_bound(low);
      if (kind == Neighbourhood::kAdjacent && above != occurring[p].end() && *above < high) is_within = false;
      if (kind == Neighbourhood::kStrictlyAdjacent && high - low > 1) is_within = false;
    }
    if (differing == 0 || !is_within) continue;
    if (kind == Neighbourhood::kHamming && differing != 1) continue;
    near.push_back(row);
  }
  return near;
}

constexpr Neighbourhood kKinds[] = {Neighbourhood::kHamming, Neighbourhood::kAdjacent,
                                    Neighbourhood::kStrictlyAdjacent};

SpaceDefinition RandomDefinition(PhiloxStream& random) {
  SpaceDefinition definition;
  const uint64_t parameters = 1 + random.UniformInt(4);
  for (uint64_t p = 0; p < parameters; ++p) {
    Parameter parameter{fmt::format("P{}", p), {}, {}};
    const int values = 1 + static_cast<int>(random.UniformInt(5));
    for (int v = 0; v < values; ++v) parameter.values.push_back(v * v + static_cast<int>(p));
    definition.parameters.push_back(parameter);
  }
  const char* const shapes[] = {"{0} * {1} <= 20",       "{0} + {1} != 5", "{0} % 3 != 1",
                                "{0} == 1 or {1} > {2}", "{0} != 4",       "{0} + {1} + {2} < 30"};
  AddRandomRules(shapes, parameters, random.UniformInt(4), random, &definition);
  return definition;
}

TEST(SpaceNeighbours, AgreeWithTheirDefinition) {
  PhiloxStream random(7);
  int total = 0;
  for (int round = 0; round < 150; ++round) {
    const Space space = Make(RandomDefinition(random));
    const auto table = space.Enumerate();
    ASSERT_TRUE(table.ok());
    const ConfigIndex index(*table);
    const std::vector<Row> rows = Rows(*table);
    for (int i = 0; i < 5; ++i) {
      Row at;  // valid or not
      for (const Parameter& parameter : space.parameters()) {
        at.push_back(static_cast<uint16_t>(random.UniformInt(parameter.values.size())));
      }
      if (i > 1 && !rows.empty()) at = rows[random.UniformInt(rows.size())];
      const auto found = std::find(rows.begin(), rows.end(), at);
      EXPECT_EQ(space.IsValid(at), found != rows.end());
      EXPECT_EQ(index.Find(at).has_value(), found != rows.end());
      if (found != rows.end()) {
        EXPECT_EQ(*index.Find(at), static_cast<uint64_t>(found - rows.begin()));
      }
      for (const Neighbourhood kind : kKinds) {
        const std::vector<Row> expected = Expected(rows, at, kind);
        const auto near = space.Neighbours(at, kind);
        ASSERT_TRUE(near.ok()) << near.status();
        ASSERT_EQ(Rows(*near), expected);
        std::vector<Row> listed;
        for (const uint64_t row : index.Neighbours(at, kind)) listed.push_back(rows[row]);
        ASSERT_EQ(listed, expected);
        total += static_cast<int>(expected.size());
        const auto sample = space.SampleNeighbour(at, kind, random);
        ASSERT_EQ(sample.ok(), !expected.empty());
        if (expected.empty()) {
          EXPECT_TRUE(absl::IsNotFound(sample.status()));
          continue;
        }
        EXPECT_NE(std::find(expected.begin(), expected.end(), *sample), expected.end());
        EXPECT_EQ(space.Neighbours(at, kind, expected.size())->size(), expected.size());
        EXPECT_TRUE(absl::IsResourceExhausted(space.Neighbours(at, kind, expected.size() - 1).status()));
        EXPECT_EQ(index.Neighbours(at, kind, 1).size(), 1u);
      }
    }
  }
  EXPECT_GT(total, 2000);
}

TEST(SpaceNeighbours, WithoutParametersThereIsNone) {
  const Space space = Make({});
  const auto table = space.Enumerate();
  const ConfigIndex index(*table);
  EXPECT_EQ(index.Find({}), 0u);
  for (const Neighbourhood kind : kKinds) {
    EXPECT_TRUE(index.Neighbours({}, kind).empty());
    EXPECT_TRUE(space.Neighbours({}, kind)->empty());
  }
}

}  // namespace
}  // namespace tunefarm
