#include "server/measure/race.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "server/base/random.h"
#include "server/measure/stopping.h"

namespace tunefarm {
namespace {

double NormalDraw(PhiloxStream& random) {
  const double u = std::max(random.NextDouble(), 1e-300);
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979323846 * random.NextDouble());
}

// A config whose median is 100, sampled to the end as a run worker does. True when it was given up.
bool IsGivenUp(double limit, uint64_t first_look, const std::function<double()>& draw) {
  SampleStopper stopper({.samples_min = 10,
                         .samples_max = 100,
                         .relative_half_width_max = 0.0001,
                         .budget_ns = 1e18,
                         .race_limit_ns = limit,
                         .first_look_samples = first_look});
  while (stopper.decision() == StopDecision::kContinue) stopper.Add(draw(), 0);
  return stopper.decision() == StopDecision::kLosing;
}

struct Shape {
  const char* name;
  std::function<double(PhiloxStream&)> draw;  // of median 100
};

const std::vector<Shape>& Shapes() {
  static const std::vector<Shape> shapes = {
      {"equal", [](PhiloxStream&) { return 100.0; }},
      {"quiet", [](PhiloxStream& r) { return 100 + 0.3 * NormalDraw(r); }},
      {"normal", [](PhiloxStream& r) { return 100 + 3 * NormalDraw(r); }},
      {"loud", [](PhiloxStream& r) { return 100 * std::exp(0.3 * NormalDraw(r)); }},
      {"skewed", [](PhiloxStream& r) { return 100 * std::exp(NormalDraw(r)); }},
      {"outliers",
       [](PhiloxStream& r) { return (100 + NormalDraw(r)) * (r.NextDouble() < 0.1 ? 2 + 3 * r.NextDouble() : 1); }},
  };
  return shapes;
}

// Against a limit that is exactly its own median, looked at up to the end: the rule's stated 1 %, counted.
TEST(Race, AnEqualConfigIsGivenUpInFewerThanOneInAHundredRaces) {
  constexpr int kRaces = 2000;
  for (const Shape& shape : Shapes()) {
    for (const uint64_t first_look : {3u, 6u, 10u}) {
      PhiloxStream random(17);
      int lost = 0;
      for (int race = 0; race < kRaces; ++race) {
        lost += IsGivenUp(100, first_look, [&] { return shape.draw(random); });
      }
      EXPECT_LE(lost, kRaces / 100) << shape.name << " first look at " << first_look;
    }
  }
}

TEST(Race, AClearlySlowerConfigIsGivenUpAtTheFirstLook) {
  PhiloxStream random(3);
  for (const uint64_t first_look : {3u, 6u, 10u}) {
    int early = 0;
    for (int race = 0; race < 200; ++race) {
      SampleStopper stopper({.race_limit_ns = 80, .first_look_samples = first_look});
      while (stopper.decision() == StopDecision::kContinue) stopper.Add(100 + 0.3 * NormalDraw(random), 0);
      early += stopper.decision() == StopDecision::kLosing && stopper.samples().size() == first_look;
    }
    EXPECT_GT(early, 190) << first_look;
  }
}

TEST(Race, BoundGrowsWithSamplesAndShrinksWithLooks) {
  const std::vector<double> three = {99, 100, 101};
  const std::vector<double> nine = {99, 99, 99, 100, 100, 100, 101, 101, 101};
  EXPECT_EQ(RaceLowerBound(std::vector<double>{100, 100}, 1), 0);
  EXPECT_LT(RaceLowerBound(three, 1), RaceLowerBound(nine, 1));
  EXPECT_GT(RaceLowerBound(nine, 1), RaceLowerBound(nine, 2));
  // t of 2 degrees at 0.995 is 9.925.
  EXPECT_NEAR(RaceLowerBound(three, 1), 100 - 9.925 * 1.2533 / std::sqrt(3.0), 0.01);
}

TEST(Race, WithoutALimitNobodyLoses) {
  const std::vector<double> samples(10, 100.0);
  EXPECT_FALSE(IsRaceLost(samples, 0, 1));
  EXPECT_FALSE(IsRaceLost(samples, 98.5, 1)) << "within the margin";
  EXPECT_TRUE(IsRaceLost(samples, 90, 1));
}

}  // namespace
}  // namespace tunefarm
