// The prepare steps of kernels/grouped_gemm on the CPU: every routing gives sizes that add up and an order that is
// sorted by expert, and each distribution is what its name says.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/unit/grouped_gemm/emulated_case.h"

namespace tunefarm::emulated {
namespace {

struct Routed {
  std::vector<int> experts, sizes, order;
};

Routed Route(const std::string& name, int rows, int experts, unsigned seed, const int (&sizes)[8]) {
  const auto test =
      std::find_if(Cases().begin(), Cases().end(), [&name](const Case& candidate) { return candidate.name == name; });
  Call call;
  call.rows = rows;
  call.experts = experts;
  Routed routed{std::vector<int>(static_cast<size_t>(rows), -1), std::vector<int>(static_cast<size_t>(experts), -1),
                std::vector<int>(static_cast<size_t>(rows), -1)};
  std::vector<int> ends(static_cast<size_t>(experts), -1), of_ends(ends), same(ends);
  const unsigned random[4] = {seed, seed * 3 + 1, seed * 5 + 2, 0};
  test->run_routing(call, random, sizes, routed.experts.data(), same.data(), routed.sizes.data(), routed.order.data());
  EXPECT_EQ(same, routed.sizes);
  call.group_ends = 1;
  test->run_routing(call, random, sizes, routed.experts.data(), ends.data(), of_ends.data(), routed.order.data());
  EXPECT_EQ(of_ends, routed.sizes);
  std::vector<int> sums(routed.sizes.size());
  std::partial_sum(routed.sizes.begin(), routed.sizes.end(), sums.begin());
  EXPECT_EQ(ends, sums);
  EXPECT_EQ(std::accumulate(routed.sizes.begin(), routed.sizes.end(), 0), rows);
  std::vector<int> expected(static_cast<size_t>(rows));
  std::iota(expected.begin(), expected.end(), 0);
  std::stable_sort(expected.begin(), expected.end(), [&routed](int a, int b) {
    return routed.experts[static_cast<size_t>(a)] < routed.experts[static_cast<size_t>(b)];
  });
  if (!test->permutes_x && !test->permutes_y) std::fill(expected.begin(), expected.end(), -1);
  EXPECT_EQ(routed.order, expected);
  for (int expert = 0; expert < experts; ++expert) {
    EXPECT_EQ(std::count(routed.experts.begin(), routed.experts.end(), expert),
              routed.sizes[static_cast<size_t>(expert)]);
  }
  return routed;
}

constexpr int kNoSizes[8] = {-1, -1, -1, -1, -1, -1, -1, -1};

TEST(EmulatedRouting, Balanced) {
  const Routed routed = Route("forward_plain", 1600, 16, 7, kNoSizes);
  EXPECT_GT(*std::min_element(routed.sizes.begin(), routed.sizes.end()), 60);
  EXPECT_LT(*std::max_element(routed.sizes.begin(), routed.sizes.end()), 145);
  EXPECT_NE(routed.sizes, Route("forward_plain", 1600, 16, 8, kNoSizes).sizes) << "another seed";
  EXPECT_EQ(routed.experts, Route("forward_plain", 1600, 16, 7, kNoSizes).experts) << "the same seed";
  Route("forward_plain", 1, 1, 7, kNoSizes);
  Route("forward_plain", 257, 300, 7, kNoSizes);
}

TEST(EmulatedRouting, Zipf) {
  const Routed routed = Route("forward_walk", 3000, 8, 7, kNoSizes);  // 1 / 2.72 of them to the first
  EXPECT_NEAR(routed.sizes[0], 1104, 120);
  EXPECT_NEAR(routed.sizes[1], 552, 100);
  EXPECT_NEAR(routed.sizes[7], 138, 60);
}

TEST(EmulatedRouting, OneEmpty) {
  const Routed routed = Route("forward_scatter", 900, 9, 7, kNoSizes);
  EXPECT_EQ(std::count(routed.sizes.begin(), routed.sizes.end(), 0), 1);
  EXPECT_EQ(routed.sizes[4], 0);
  Route("forward_scatter", 10, 1, 7, kNoSizes);
}

TEST(EmulatedRouting, HalfOnOne) {
  const Routed routed = Route("forward_gather", 2000, 10, 7, kNoSizes);
  EXPECT_NEAR(routed.sizes[5], 1000, 100);
  EXPECT_NEAR(routed.sizes[0], 111, 50);
  Route("forward_gather", 10, 1, 7, kNoSizes);
}

TEST(EmulatedRouting, Explicit) {
  const int sizes[8] = {3, -1, 100, 0, 1, 7, 5, 2};
  EXPECT_EQ(Route("dw_plain", 300, 10, 7, sizes).sizes, (std::vector<int>{3, 0, 100, 0, 1, 7, 5, 2, 3, 179}));
  EXPECT_EQ(Route("dw_plain", 60, 4, 9, sizes).sizes, (std::vector<int>{3, 0, 57, 0}));
  EXPECT_EQ(Route("dw_plain", 60, 1, 9, sizes).sizes, (std::vector<int>{60}));
}

}  // namespace
}  // namespace tunefarm::emulated
