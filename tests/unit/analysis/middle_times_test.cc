// Against sorted times.
#include "server/analysis/middle_times.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "server/base/random.h"

namespace tunefarm {
namespace {

// Compares the middle of the fastest of each of `groups`, of all and of a tenth, with times from `draw`.
void Compare(size_t groups, size_t count, const std::function<double(PhiloxStream*)>& draw) {
  PhiloxStream random(groups);
  std::vector<std::vector<double>> times(groups);
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (size_t i = 0; i < count; ++i) {
    times[random.UniformInt(groups)].push_back(draw(&random));
  }
  for (const std::vector<double>& of_group : times) {
    for (const double ns : of_group) {
      least = std::min(least, ns);
      most = std::max(most, ns);
    }
  }
  for (const size_t part : {1, 10}) {
    MiddleTimes middles(groups, least, most);
    for (size_t group = 0; group < groups; ++group) {
      for (const double ns : times[group]) middles.Count(group, ns);
    }
    middles.Choose([&](size_t all) { return (all + part - 1) / part; });
    for (size_t group = 0; group < groups; ++group) {
      for (const double ns : times[group]) middles.Collect(group, ns);
    }
    for (size_t group = 0; group < groups; ++group) {
      std::vector<double> sorted = times[group];
      std::sort(sorted.begin(), sorted.end());
      sorted.resize((sorted.size() + part - 1) / part);
      const MiddleTimes::Middle middle = middles.Of(group);
      ASSERT_EQ(middle.lower_ns, sorted.empty() ? 0 : sorted[(sorted.size() - 1) / 2]) << groups << " " << group;
      ASSERT_EQ(middle.upper_ns, sorted.empty() ? 0 : sorted[sorted.size() / 2]) << groups << " " << group;
    }
  }
}

TEST(MiddleTimes, OfTimesOfAnySpread) {
  for (const size_t groups : {1, 2, 36, 300, 30'000}) {
    for (const size_t count : {1, 2, 3, 500, 20'001}) {
      Compare(groups, count, [](PhiloxStream* random) { return 700 * (1 + random->NextDouble()); });
      Compare(groups, count, [](PhiloxStream* random) { return 1.0 + static_cast<double>(random->UniformInt(3)); });
      Compare(groups, count, [](PhiloxStream* random) { return std::exp(1000 * random->NextDouble() - 500); });
      Compare(groups, count, [](PhiloxStream* /*random*/) { return 5.0; });
    }
  }
}

TEST(MiddleTimes, TheMiddleMayLieInTwoBuckets) {
  for (const size_t count : {2, 4, 1000}) {
    size_t drawn = 0;
    Compare(1, count, [&](PhiloxStream* /*random*/) { return drawn++ % 2 == 0 ? 1.0 : 1e9; });
  }
}

TEST(MiddleTimes, WithoutTimesThereIsNone) {
  MiddleTimes middles(3, 0, 0);
  middles.Choose([](size_t all) { return all; });
  EXPECT_EQ(middles.Of(2).lower_ns, 0);
  EXPECT_EQ(middles.Of(2).upper_ns, 0);
}

}  // namespace
}  // namespace tunefarm
