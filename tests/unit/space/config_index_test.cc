// The row index against a search in the listed space.
#include "server/space/config_index.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "server/base/status.h"
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

TEST(ConfigIndex, FindsTheRowOfEachValidConfigAndNoOther) {
  PhiloxStream random(7);
  int found_count = 0;
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
        ++found_count;
      }
    }
  }
  EXPECT_GT(found_count, 300);
}

TEST(ConfigIndex, WithoutParametersThereIsOneRow) {
  const Space space = Make({});
  const auto table = space.Enumerate();
  const ConfigIndex index(*table);
  EXPECT_EQ(index.Find({}), 0u);
}

}  // namespace
}  // namespace tunefarm
