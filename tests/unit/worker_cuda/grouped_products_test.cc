// Where the matrices of grouped library operations lie, and which sizes are refused.
#include "server/worker/cuda/grouped_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tunefarm::cuda {
namespace {

using testing::HasSubstr;

// Forward: rows of A and C are grouped, B is a matrix for each group.
StepPlan DividedRows(int64_t n, int64_t k) {
  StepPlan step;
  step.library_op.set_op(v1::LIBRARY_OP_KIND_GEMM_LOOP);
  step.library_op.set_n("n");
  step.library_op.set_k("k");
  step.n = n;
  step.k = k;
  return step;
}

// The weights' gradient: the terms are grouped, C is a matrix for each group.
StepPlan DividedTerms(int64_t m, int64_t n) {
  StepPlan step;
  step.library_op.set_op(v1::LIBRARY_OP_KIND_GEMM_LOOP);
  step.library_op.set_m("m");
  step.library_op.set_n("n");
  step.m = m;
  step.n = n;
  return step;
}

TEST(GroupedProducts, RowsAreDivided) {
  GroupedProducts grouped;
  const Failure failure = PlanGroupedProducts(DividedRows(16, 24), {3, 0, 5}, {8 * 24, 3 * 24 * 16, 8 * 16}, &grouped);
  ASSERT_FALSE(failure) << failure.message;
  ASSERT_EQ(grouped.products.size(), 2U);
  EXPECT_TRUE(grouped.zeros.empty()) << "a group without rows has nothing to write";
  const GroupProduct& last = grouped.products[1];
  EXPECT_EQ(last.m, 5);
  EXPECT_EQ(last.n, 16);
  EXPECT_EQ(last.k, 24);
  EXPECT_EQ(last.a, 3U * 24);
  EXPECT_EQ(last.b, 2U * 24 * 16);
  EXPECT_EQ(last.c, 3U * 16);
}

TEST(GroupedProducts, TermsAreDivided) {
  GroupedProducts grouped;
  const Failure failure = PlanGroupedProducts(DividedTerms(24, 16), {3, 0, 5}, {8 * 24, 8 * 16, 3 * 24 * 16}, &grouped);
  ASSERT_FALSE(failure) << failure.message;
  ASSERT_EQ(grouped.products.size(), 2U);
  ASSERT_EQ(grouped.zeros.size(), 1U);
  EXPECT_EQ(grouped.zeros[0].offset, 24U * 16);
  EXPECT_EQ(grouped.zeros[0].elements, 24U * 16);
  const GroupProduct& last = grouped.products[1];
  EXPECT_EQ(last.m, 24);
  EXPECT_EQ(last.n, 16);
  EXPECT_EQ(last.k, 5);
  EXPECT_EQ(last.a, 3U * 24);
  EXPECT_EQ(last.b, 3U * 16);
  EXPECT_EQ(last.c, 2U * 24 * 16);
}

TEST(GroupedProducts, OffsetsDoNotWrap) {
  const int64_t n = 1 << 20, k = 1 << 20;
  GroupedProducts grouped;
  const Failure failure =
      PlanGroupedProducts(DividedRows(n, k), {1, 1, 1}, {3ULL << 20, 3ULL << 40, 3ULL << 20}, &grouped);
  ASSERT_FALSE(failure) << failure.message;
  EXPECT_EQ(grouped.products[2].b, 2ULL << 40);
}

TEST(GroupedProducts, BadSizesAreRefused) {
  GroupedProducts grouped;
  const GroupedExtents extents{8 * 24, 3 * 24 * 16, 8 * 16};
  EXPECT_THAT(PlanGroupedProducts(DividedRows(16, 24), {3, -1, 5}, extents, &grouped).message, HasSubstr("Group 1"));
  EXPECT_THAT(PlanGroupedProducts(DividedRows(16, 24), {3, int64_t{1} << 40}, extents, &grouped).message,
              HasSubstr("Group 1"));
  EXPECT_THAT(PlanGroupedProducts(DividedRows(16, 24), {3, 0, 6}, extents, &grouped).message, HasSubstr("smaller"));
  EXPECT_THAT(PlanGroupedProducts(DividedRows(16, 24), {3, 0, 5, 0}, extents, &grouped).message, HasSubstr("smaller"));
  EXPECT_THAT(PlanGroupedProducts(DividedRows(int64_t{1} << 31, 24), {3}, extents, &grouped).message,
              HasSubstr("2^31-1"));
  EXPECT_EQ(PlanGroupedProducts(DividedRows(16, 24), {9}, extents, &grouped).outcome, v1::OUTCOME_LOAD_ERROR);
}

}  // namespace
}  // namespace tunefarm::cuda
