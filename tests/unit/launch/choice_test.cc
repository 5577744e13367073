// The choice of a package against the daemon's look-ups, on drawn bests and questions.
#include "client/launch/choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "server/base/random.h"
#include "tests/unit/catalog/catalog_case.h"

namespace tunefarm::launch {
namespace {

using tunefarm::v1::LookupRule;

uint32_t RuleOf(LookupRule rule) { return rule == v1::LOOKUP_RULE_UNSPECIFIED ? 1 : static_cast<uint32_t>(rule); }

static_assert(int{package::kExact} == int{v1::LOOKUP_RULE_EXACT} && int{package::kLog} == int{v1::LOOKUP_RULE_LOG});
static_assert(int{package::kBucket} == int{v1::LOOKUP_RULE_BUCKET});
static_assert(int{package::kNextPowerOfTwo} == int{v1::LOOKUP_RULE_NEXT_POWER_OF_TWO});
static_assert(int{package::kProduct} == int{v1::LOOKUP_RULE_PRODUCT});

struct Filed {
  const DeviceClass* device_class = nullptr;
  int64_t n = 0, g = 0, e = 0, t = 0, revision = 0;
};

class ChoiceCase : public CatalogCase, public testing::WithParamInterface<uint64_t> {
 protected:
  int64_t Draw(const std::vector<int64_t>& values) { return values[random_.UniformInt(values.size())]; }
  const DeviceClass* DrawClass() {
    const DeviceClass* const classes[] = {&h200_, &h100_, &a100_};
    return classes[random_.UniformInt(3)];
  }

  void FileOne(const KernelPlan& plan) {
    Filed best{DrawClass(), Draw(kN), Draw(kG), Draw(kE), 0, 0};
    // An exact best answers unseen in the daemon; a package looks at its constraints, too.
    best.t = best.n % 96 == 0 ? Draw({32, 96}) : best.n % 64 == 0 ? Draw({32, 64}) : 32;
    File(plan, Problem(plan, best.n, best.g, best.e), *best.device_class, best.t);
    best.revision = revision_;
    std::erase_if(filed_, [&](const Filed& old) {
      return std::tie(old.device_class, old.n, old.g, old.e) == std::tie(best.device_class, best.n, best.g, best.e);
    });
    filed_.push_back(best);
  }

  void AskOne(const KernelPlan& plan, uint32_t rule_of_e) {
    const DeviceClass* const device = DrawClass();
    const int64_t n = Draw(kN), g = Draw(kG), e = Draw(kE);
    // In the order of the names, the latest best first: of equals the daemon takes that one.
    ChoiceTable table({{rule_of_e, {}}, {package::kBucket, {8, 64}}, {package::kLog, {}}}, 4);
    std::vector<Filed> rows(filed_.rbegin(), filed_.rend());
    for (size_t i = 0; i < rows.size(); ++i) {
      const Filed& row = rows[i];
      if (row.device_class->compute_capability != device->compute_capability) continue;
      table.Add(i, false, row.device_class == device, {row.e, row.g, row.n});
    }
    Filed by_default;
    by_default.t = 32;
    rows.push_back(by_default);
    table.Add(rows.size() - 1, true, true, {1, 4, 1024});
    const int64_t asked[] = {e, g, n};
    ChoiceTable::Found found;
    const bool is_found = table.Choose(
        asked, [&](size_t row) { return n % rows[row].t == 0; }, &found);
    const CatalogAnswer answer = Ask(plan, Problem(plan, n, g, e), *device);
    ASSERT_EQ(is_found, answer.match != v1::MATCH_NOT_FOUND);
    if (!is_found) return;
    const v1::Match match = found.match == TUNEFARM_MATCH_EXACT       ? v1::MATCH_EXACT
                            : found.match == TUNEFARM_MATCH_NEAREST   ? v1::MATCH_NEAREST_SHAPE
                            : found.match == TUNEFARM_MATCH_SAME_ARCH ? v1::MATCH_SAME_ARCH
                                                                      : v1::MATCH_DEFAULT;
    EXPECT_EQ(match, answer.match) << n << " " << g << " " << e;
    EXPECT_EQ(found.distance, answer.distance);
    if (match != v1::MATCH_DEFAULT) {
      EXPECT_EQ(rows[found.choice].revision, answer.best->revision()) << n << " " << g << " " << e;
    }
    matches_.insert(match);
  }

  const std::vector<int64_t> kN = {96, 992, 1024, 1056, 2048, 3072, 4096, 16384, 65536};
  const std::vector<int64_t> kG = {4, 8, 9, 64, 65};
  const std::vector<int64_t> kE = {1, 3, 4};
  PhiloxStream random_{GetParam(), 2};
  std::vector<Filed> filed_;  // in the order of their revisions
  std::set<int> matches_;
};

TEST_P(ChoiceCase, AnswersAsTheDaemonDoes) {
  const LookupRule rules[] = {v1::LOOKUP_RULE_EXACT, v1::LOOKUP_RULE_LOG, v1::LOOKUP_RULE_NEXT_POWER_OF_TWO};
  const LookupRule rule = rules[GetParam() % 3];
  const auto plan = Plan("", "scale", rule);
  for (int i = 0; i < 60; ++i) {
    FileOne(*plan);
    for (int j = 0; j < 20; ++j) ASSERT_NO_FATAL_FAILURE(AskOne(*plan, RuleOf(rule)));
    if (HasFailure()) return;
  }
  EXPECT_EQ(matches_.size(), 4U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ChoiceCase, testing::Range(uint64_t{1}, uint64_t{7}));

TEST(ChoiceTest, OfEqualsTheFirstAnswersAndWhatIsNotAcceptedIsPassedOver) {
  ChoiceTable table({{package::kLog, {}}}, 1);
  table.Add(0, true, false, {1});  // another class's default
  table.Add(1, false, true, {64});
  table.Add(2, false, true, {64});
  table.Add(3, false, false, {100});  // another class
  table.Add(4, true, true, {1});      // the default
  const auto choose = [&](int64_t asked, std::set<size_t> refused) {
    ChoiceTable::Found found;
    const bool is_found = table.Choose(
        &asked, [&](size_t choice) { return refused.count(choice) == 0; }, &found);
    return is_found ? static_cast<int>(found.choice) : -1;
  };
  EXPECT_EQ(choose(100, {}), 1);
  EXPECT_EQ(choose(100, {1}), 2);
  EXPECT_EQ(choose(100, {1, 2}), 3);
  EXPECT_EQ(choose(101, {1, 2}), 4);
  EXPECT_EQ(choose(101, {1, 2, 4}), 0);
  EXPECT_EQ(choose(101, {0, 1, 2, 4}), -1);
  EXPECT_EQ(choose(129, {}), 4);  // more than a doubling
}

TEST(ChoiceTest, ChoicesAreAskedForInTheirOrderAndOnce) {
  constexpr int64_t kRows = 100;  // more than are found in one pass
  for (const int64_t step : {1, 37}) {
    ChoiceTable table({{package::kLog, {}}}, 100);
    std::vector<size_t> by_distance(kRows);
    for (int64_t i = 0; i < kRows; ++i) {
      const int64_t octave = (i * step) % 50;  // each twice
      table.Add(static_cast<size_t>(i), false, true, {int64_t{1} << octave});
      by_distance[static_cast<size_t>(i)] = static_cast<size_t>(i);
    }
    std::stable_sort(by_distance.begin(), by_distance.end(), [&](size_t a, size_t b) {
      return (static_cast<int64_t>(a) * step) % 50 < (static_cast<int64_t>(b) * step) % 50;
    });
    for (const size_t accepted : {size_t{0}, size_t{1}, size_t{31}, size_t{32}, size_t{33}, size_t{99}, size_t{100}}) {
      std::vector<size_t> asked_for;
      ChoiceTable::Found found;
      const int64_t asked = 1;
      const bool is_found = table.Choose(
          &asked,
          [&](size_t choice) {
            asked_for.push_back(choice);
            return asked_for.size() == accepted + 1;
          },
          &found);
      ASSERT_EQ(is_found, accepted < by_distance.size());
      const size_t expected = std::min(accepted + 1, by_distance.size());
      EXPECT_EQ(asked_for, std::vector<size_t>(by_distance.begin(), by_distance.begin() + expected));
      if (is_found) {
        EXPECT_EQ(found.choice, by_distance[accepted]);
      }
    }
  }
}

// As grouped products: tokens times experts of each token.
TEST(ChoiceTest, OfProductDimsOnlyTheProductCounts) {
  ChoiceTable table({{package::kExact, {}}, {package::kProduct, {}}, {package::kProduct, {}}}, 2);
  table.Add(0, false, true, {128, 4096, 8});
  table.Add(1, false, true, {128, 4096, 1});
  table.Add(2, false, true, {64, 1024, 8});
  const auto choose = [&](int64_t experts, int64_t tokens, int64_t topk, int choice, double distance) {
    const int64_t asked[] = {experts, tokens, topk};
    ChoiceTable::Found found;
    const bool is_found = table.Choose(
        asked, [](size_t) { return true; }, &found);
    EXPECT_EQ(is_found ? static_cast<int>(found.choice) : -1, choice) << tokens << " * " << topk;
    if (is_found) {
      EXPECT_EQ(found.distance, distance) << tokens << " * " << topk;
    }
    return found.match;
  };
  EXPECT_EQ(choose(128, 4096, 8, 0, 0), TUNEFARM_MATCH_EXACT);
  EXPECT_EQ(choose(128, 32768, 1, 0, 0), TUNEFARM_MATCH_NEAREST);  // as many rows
  choose(128, 4096, 2, 1, 1);
  choose(128, 8192, 16, 0, 2);
  choose(128, 16384, 16, -1, 0);
  choose(128, -4096, 8, -1, 0);
  choose(128, INT64_MAX, 64, -1, 0);
}

}  // namespace
}  // namespace tunefarm::launch
