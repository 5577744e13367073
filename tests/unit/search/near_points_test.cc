#include "server/search/near_points.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "server/search/prior_knowledge.h"
#include "tests/unit/search/sample_spaces.h"

namespace tunefarm {
namespace {

std::shared_ptr<const SearchSpace> Shared() {
  auto made = SearchSpace::Make(SampleSpace());
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

int HammingDistance(std::span<const uint16_t> a, std::span<const uint16_t> b) {
  int distance = 0;
  for (size_t i = 0; i < a.size(); ++i) distance += a[i] != b[i];
  return distance;
}

TEST(NearPoints, AnyValueIsEveryValidPointAtDistanceOne) {
  const auto space = Shared();
  PhiloxStream random(1);
  for (uint64_t row = 0; row < space->size(); row += 37) {
    std::set<Point> expected;
    for (uint64_t other = 0; other < space->size(); ++other) {
      const auto point = space->Row(other);
      if (HammingDistance(space->Row(row), point) == 1) expected.emplace(point.begin(), point.end());
    }
    const std::vector<Point> near = NearPoints(*space, space->Row(row), Moves::kAnyValue, 64, random);
    EXPECT_EQ(std::set<Point>(near.begin(), near.end()), expected);
    EXPECT_EQ(near.size(), expected.size());
  }
}

TEST(NearPoints, NextValueStepsOverWhatIsNotValid) {
  SpaceDefinition definition;
  definition.parameters = {{"A", {8, 1, 4, 2, 16}, {}}, {"B", {1, 2}, {}}};
  definition.constraints = {{"A != 4 or B == 1", ""}};
  const auto space = *SearchSpace::Make(*Space::Build(definition));
  PhiloxStream random(1);
  // A = 2, B = 2: down to 1, up over 4 to 8, and B = 1.
  const std::vector<Point> near = NearPoints(*space, Point{3, 1}, Moves::kNextValue, 64, random);
  EXPECT_EQ(std::set<Point>(near.begin(), near.end()), (std::set<Point>{{1, 1}, {0, 1}, {3, 0}}));
}

TEST(NearPoints, NearestWithOtherValuesLeadsToEveryPartOfASpace) {
  // Two parts, and two values of C for each: no neighbour leads from one to the other.
  SpaceDefinition definition;
  definition.parameters = {{"A", {1, 2}, {}}, {"B", {1, 2}, {}}, {"C", {1, 2, 3, 4}, {}}, {"D", {1, 2}, {}}};
  definition.constraints = {{"A == B", ""}, {"(C <= 2) == (A == 1)", ""}};
  const auto space = *SearchSpace::Make(*Space::Build(definition));
  PhiloxStream random(1);
  // A, B and one value of C are another part's; D stays. The other value of C is a neighbour.
  for (int i = 0; i < 10; ++i) {
    const std::vector<Point> found = NearestWithOtherValues(*space, Point{0, 0, 0, 1}, random);
    EXPECT_EQ(std::set<Point>(found.begin(), found.end()), (std::set<Point>{{1, 1, 2, 1}, {1, 1, 3, 1}}));
    EXPECT_EQ(found.size(), 2u);
  }
  EXPECT_TRUE(NearestWithOtherValues(**SearchSpace::Make(LargeSampleSpace()), Point(10), random).empty());
}

TEST(NearPoints, NearestWithOtherValuesHaveTheFewestDifferences) {
  const auto space = Shared();
  PhiloxStream random(2);
  for (uint64_t row = 0; row < space->size(); row += 53) {
    const auto from = space->Row(row);
    for (const Point& point : NearestWithOtherValues(*space, from, random)) {
      const int distance = HammingDistance(from, point);
      EXPECT_GT(distance, 1);
      bool is_needed = false;  // for a value that no nearer point has
      for (size_t at = 0; at < point.size(); ++at) {
        int least = 1000;
        for (uint64_t other = 0; other < space->size(); ++other) {
          if (space->Row(other)[at] == point[at]) least = std::min(least, HammingDistance(from, space->Row(other)));
        }
        is_needed = is_needed || (point[at] != from[at] && least == distance);
      }
      EXPECT_TRUE(is_needed);
    }
  }
}

TEST(NearPoints, MutatedIsValidAndAnotherPoint) {
  const auto space = Shared();
  PhiloxStream random(5);
  for (int i = 0; i < 300; ++i) {
    const auto from = space->Row(random.UniformInt(space->size()));
    const auto moved = Mutated(*space, from, 2, 0.5, 50, random);
    if (!moved.has_value()) continue;
    EXPECT_TRUE(space->Contains(*moved));
    EXPECT_GE(HammingDistance(from, *moved), 1);
  }
}

TEST(LatinHypercube, UsesTheRangeOfEveryParameterEvenly) {
  const auto made = SearchSpace::Make(LargeSampleSpace());
  ASSERT_TRUE(made.ok());
  const SearchSpace& space = **made;
  PhiloxStream random(3);
  const std::vector<Point> points = *LatinHypercube(space, 20, random);
  ASSERT_EQ(points.size(), 20u);
  EXPECT_EQ(std::set<Point>(points.begin(), points.end()).size(), 20u);
  for (const Point& point : points) EXPECT_TRUE(space.Contains(point));
  for (int parameter = 0; parameter < space.parameter_count(); ++parameter) {
    const auto low = std::count_if(points.begin(), points.end(),
                                   [&](const Point& point) { return point[static_cast<size_t>(parameter)] < 5; });
    EXPECT_GE(low, 5) << parameter;
    EXPECT_LE(low, 15) << parameter;
  }
  EXPECT_TRUE(LatinHypercube(space, 0, random)->empty());
}

TEST(PriorKnowledge, OrdersConfigsAsTheirSourceDoesAndFillsInWhatIsMissing) {
  const auto space = Shared();
  PriorSource all = SamplePrior(space->space(), 0), half = all;
  all.rank = 1;
  // Every second result only: the other half is predicted.
  for (size_t i = 0; i < half.results.size(); ++i) half.results[i] = all.results[i / 2 * 2];
  const auto prior = PriorKnowledge::Make(space, {all, half}, 1);
  ASSERT_NE(prior, nullptr);
  ASSERT_EQ(prior->source_count(), 2);
  // The nearest comes first, whatever the order given.
  std::vector<PointView> points;
  for (uint64_t row = 0; row < space->size(); ++row) points.push_back(space->Row(row));
  const std::vector<double> nearest = prior->PlacesOf(0, points), other = prior->PlacesOf(1, points);
  ASSERT_EQ(nearest.size(), points.size());
  double error = 0;
  for (size_t i = 0; i < points.size(); ++i) error += std::abs(nearest[i] - other[i]);
  EXPECT_LT(error / static_cast<double>(points.size()), 0.15);
  EXPECT_EQ(prior->PlacesOf(1, std::vector<PointView>{prior->BestOf(1).front()}), std::vector<double>{0});
  for (const PriorResult& result : all.results) {
    const Point point = *space->space().IndicesOf(result.config);
    if (result.outcome == ToldOutcome::kFailed) {
      EXPECT_LT(prior->Feasible(point), 0.5);
    }
  }
  EXPECT_EQ(PriorKnowledge::Make(space, {}, 1), nullptr);
}

}  // namespace
}  // namespace tunefarm
