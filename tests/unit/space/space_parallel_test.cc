// Large spaces are listed by several threads: the result is the same as that of one, whatever it is.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/status.h"
#include "server/space/parallel.h"
#include "server/space/space.h"

namespace tunefarm {
namespace {

std::vector<Value> UpTo(int count) {
  std::vector<Value> values;
  for (int value = 1; value <= count; ++value) values.emplace_back(int64_t{value});
  return values;
}

// Four parameters of `count` values of which no two can be searched apart, and one that is free. The rules are such
// that most of the search is in vain.
SpaceDefinition Sparse(int count, const std::string& last_rule = "(a * b + c * d) % 97 == 5") {
  SpaceDefinition definition;
  for (const char* const name : {"a", "b", "c", "d"}) definition.parameters.push_back({name, UpTo(count), {}});
  definition.parameters.push_back({"free", UpTo(3), {}});
  definition.constraints.push_back({last_rule, ""});
  definition.constraints.push_back({"(a + b * c + d) % 31 == 0", ""});
  return definition;
}

absl::StatusOr<ConfigTable> List(const SpaceDefinition& definition, int threads, uint64_t limit = kSpaceListMax,
                                 uint64_t nodes = 1'000'000'000) {
  SpaceOptions options;
  options.threads = threads;
  options.nodes_max = nodes;
  const auto space = Space::Build(definition, options);
  EXPECT_TRUE(space.ok()) << space.status();
  return space->Enumerate(limit);
}

void ExpectSame(const ConfigTable& a, const ConfigTable& b) {
  ASSERT_EQ(a.size(), b.size());
  for (uint64_t row = 0; row < a.size(); ++row) {
    const auto left = a.Row(row), right = b.Row(row);
    ASSERT_TRUE(std::equal(left.begin(), left.end(), right.begin(), right.end())) << "row " << row;
  }
}

TEST(SpaceParallel, EachPartIsDoneOnce) {
  std::vector<int> done(1000);
  space_internal::ForEachPart(4, done.size(), [&](size_t part) { ++done[part]; });
  EXPECT_EQ(done, std::vector<int>(1000, 1));
  space_internal::ForEachPart(4, 0, [&](size_t) { FAIL(); });
  EXPECT_GE(space_internal::ThreadCount(0), 1);
  EXPECT_EQ(space_internal::ThreadCount(3), 3);
}

TEST(SpaceParallel, ManyThreadsListWhatOneLists) {
  const SpaceDefinition definition = Sparse(36);
  const auto one = List(definition, 1);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_GT(one->size(), 1000u);
  for (const int threads : {2, 3, 8}) {
    const auto many = List(definition, threads);
    ASSERT_TRUE(many.ok()) << many.status();
    ExpectSame(*one, *many);
  }
}

// The second parameter's values times the first's are far more parts than there are threads for.
TEST(SpaceParallel, ManyValuesMakeNoMoreWork) {
  SpaceDefinition definition;
  definition.parameters = {{"a", UpTo(200), {}}, {"b", UpTo(1024), {}}, {"c", UpTo(16), {}}};
  definition.constraints = {{"(a + b) % 3 == 0", ""}, {"(a * b + c) % 7 == 0", ""}};
  const auto one = List(definition, 1), many = List(definition, 4);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_GT(one->size(), 100'000u);
  ExpectSame(*one, *many);
}

TEST(SpaceParallel, RulesThatAnExpressionJudgesToo) {
  // A power of a variable is no integer operation of the search programs.
  const SpaceDefinition definition = Sparse(36, "(a ** 2 + b * c + d * 1.5) % 97 < 3");
  const auto one = List(definition, 1), many = List(definition, 4);
  ASSERT_TRUE(one.ok() && many.ok());
  EXPECT_GT(one->size(), 100u);
  ExpectSame(*one, *many);
}

TEST(SpaceParallel, TheLimitIsExact) {
  const SpaceDefinition definition = Sparse(36);
  const uint64_t size = List(definition, 1)->size();
  for (const int threads : {1, 4}) {
    EXPECT_TRUE(List(definition, threads, size).ok());
    for (const uint64_t limit : {size - 1, size / 2, uint64_t{1}}) {
      const auto listed = List(definition, threads, limit);
      EXPECT_TRUE(absl::IsResourceExhausted(listed.status()));
      EXPECT_NE(ReasonOf(listed.status()), "SEARCH_BUDGET");
    }
  }
}

TEST(SpaceParallel, TheBudgetIsTheSame) {
  const SpaceDefinition definition = Sparse(36);
  // About the least budget that suffices for one thread, by halving.
  uint64_t low = 1'200'000, high = 4'000'000;
  ASSERT_EQ(ReasonOf(List(definition, 1, kSpaceListMax, low).status()), "SEARCH_BUDGET")
      << "too small for several threads";
  while (high - low > 20'000) {
    const uint64_t middle = (low + high) / 2;
    (List(definition, 1, kSpaceListMax, middle).ok() ? high : low) = middle;
  }
  EXPECT_TRUE(List(definition, 4, kSpaceListMax, high).ok());
  const auto over = List(definition, 4, kSpaceListMax, low);
  EXPECT_EQ(ReasonOf(over.status()), "SEARCH_BUDGET") << over.status();
}

TEST(SpaceParallel, AFaultIsTheSameFault) {
  // It fails where a and c are 30 and 36, or between: late in the search, in several parts.
  SpaceDefinition definition = Sparse(36);
  definition.constraints.push_back({"(a + d) // (a + c - 66) > -1000", ""});
  const auto one = List(definition, 1), many = List(definition, 4);
  ASSERT_FALSE(one.ok());
  EXPECT_EQ(one.status(), many.status());
}

// It fails for a = 12, where a rule on all parameters rejects every point: parts of the list begin with a fault that
// comes to nothing.
TEST(SpaceParallel, AGuardedFaultIsNone) {
  SpaceDefinition definition = Sparse(36, "(a - 12) * (b + c + d) % 97 != 0");
  definition.constraints.push_back({"b // (a - 12) > -1000", ""});
  const auto one = List(definition, 1), many = List(definition, 4);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_GT(one->size(), 1000u);
  ExpectSame(*one, *many);
}

}  // namespace
}  // namespace tunefarm
