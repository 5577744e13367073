// Look-ups over dims that only describe inputs, and over dims of which only the product counts.
#include <cmath>
#include <string>

#include "gtest/gtest.h"
#include "tests/unit/catalog/catalog_case.h"

namespace tunefarm {
namespace {

using tunefarm::v1::Match;

// `draw`: how inputs are drawn; `first`: a size that the drawing uses.
constexpr char kInputs[] = R"pb(
  dims {
    name: "draw"
    default_value { string_value: "even" }
    values { string_value: "even" }
    values { string_value: "skew" }
    values { string_value: "none" }
    inputs_only: true
  }
  dims {
    name: "first"
    default_value { int_value: -1 }
    min: -1
    max: 64
    inputs_only: true
  }
)pb";

class InputsMatch : public CatalogCase {
 protected:
  static ResolvedProblem Drawn(const KernelPlan& plan, int64_t n, const std::string& draw, int64_t first = -1) {
    tunefarm::v1::Problem problem;
    (*problem.mutable_dims())["N"].set_int_value(n);
    (*problem.mutable_dims())["draw"].set_string_value(draw);
    (*problem.mutable_dims())["first"].set_int_value(first);
    auto resolved = plan.ResolveProblem(problem);
    TUNEFARM_CHECK_OK(resolved);
    return *resolved;
  }

  // The answer must be the best that was filed as the `filed`th, counted from 1.
  void Expect(const CatalogAnswer& answer, Match match, double distance, int64_t filed) {
    EXPECT_EQ(answer.match, match);
    EXPECT_NEAR(answer.distance, distance, 1e-9);
    ASSERT_NE(answer.best, nullptr);
    EXPECT_EQ(answer.best->revision(), filed);
  }

  const std::shared_ptr<const KernelPlan> plan_ = Plan(kInputs);
};

TEST_F(InputsMatch, InputsNeverHaveToMatch) {
  File(*plan_, Drawn(*plan_, 1024, "skew", 7), h200_, 32);
  Expect(Ask(*plan_, Problem(*plan_, 1024), h200_), tunefarm::v1::MATCH_NEAREST_SHAPE, 0, 1);
  Expect(Ask(*plan_, Drawn(*plan_, 1024, "none", 3), h200_), tunefarm::v1::MATCH_NEAREST_SHAPE, 0, 1);
  Expect(Ask(*plan_, Drawn(*plan_, 2048, "none"), h200_), tunefarm::v1::MATCH_NEAREST_SHAPE, 1, 1);
}

TEST_F(InputsMatch, TheVeryInputsComeFirst) {
  File(*plan_, Drawn(*plan_, 1024, "skew"), h200_, 32);
  File(*plan_, Drawn(*plan_, 1024, "even"), h200_, 64);
  Expect(Ask(*plan_, Drawn(*plan_, 1024, "skew"), h200_), tunefarm::v1::MATCH_EXACT, 0, 1);
  Expect(Ask(*plan_, Problem(*plan_, 1024), h200_), tunefarm::v1::MATCH_EXACT, 0, 2);
}

TEST_F(InputsMatch, TheDefaultInputsComeBeforeNewerOnes) {
  File(*plan_, Drawn(*plan_, 1024, "even"), h200_, 32);
  File(*plan_, Drawn(*plan_, 1024, "skew"), h200_, 64);
  Expect(Ask(*plan_, Drawn(*plan_, 1024, "none"), h200_), tunefarm::v1::MATCH_NEAREST_SHAPE, 0, 1);
  Expect(Ask(*plan_, Drawn(*plan_, 2048, "skew"), h200_), tunefarm::v1::MATCH_NEAREST_SHAPE, 1, 1);
  // The fewest that are not the default's.
  File(*plan_, Drawn(*plan_, 4096, "skew"), h200_, 32);
  File(*plan_, Drawn(*plan_, 4096, "skew", 5), h200_, 64);
  Expect(Ask(*plan_, Problem(*plan_, 4096), h200_), tunefarm::v1::MATCH_NEAREST_SHAPE, 0, 3);
}

TEST_F(InputsMatch, ElseTheNewest) {
  File(*plan_, Drawn(*plan_, 1024, "skew"), h200_, 32);
  File(*plan_, Drawn(*plan_, 1024, "none"), h200_, 64);
  Expect(Ask(*plan_, Problem(*plan_, 1024), h200_), tunefarm::v1::MATCH_NEAREST_SHAPE, 0, 2);
}

TEST_F(InputsMatch, OnlyValidConfigsAnswer) {
  File(*plan_, Drawn(*plan_, 1024, "skew"), h200_, 32);
  File(*plan_, Drawn(*plan_, 1024, "none"), h200_, 96);  // does not divide 1024
  Expect(Ask(*plan_, Problem(*plan_, 1024), h200_), tunefarm::v1::MATCH_NEAREST_SHAPE, 0, 1);
}

TEST_F(InputsMatch, AnotherClassAnswersForOtherInputsToo) {
  File(*plan_, Drawn(*plan_, 1024, "skew"), h100_, 32);
  Expect(Ask(*plan_, Problem(*plan_, 1024), h200_), tunefarm::v1::MATCH_SAME_ARCH, 0, 1);
  File(*plan_, Drawn(*plan_, 1024, "none"), h100_, 32);
  Expect(Ask(*plan_, Drawn(*plan_, 1024, "skew"), h200_), tunefarm::v1::MATCH_SAME_ARCH, 0, 1);
  Expect(Ask(*plan_, Problem(*plan_, 1024), h200_), tunefarm::v1::MATCH_SAME_ARCH, 0, 2);
  // For the shape itself only.
  EXPECT_EQ(Ask(*plan_, Problem(*plan_, 2048), h200_).match, tunefarm::v1::MATCH_DEFAULT);
  EXPECT_EQ(Ask(*plan_, Problem(*plan_, 1024, 5), h200_).match, tunefarm::v1::MATCH_DEFAULT);
  EXPECT_EQ(Ask(*plan_, Problem(*plan_, 1024), a100_).match, tunefarm::v1::MATCH_DEFAULT);
}

// A definition may begin to describe inputs after it was tuned.
TEST_F(InputsMatch, BestsFromBeforeTheDimAnswer) {
  const auto before = Plan();
  File(*before, Problem(*before, 1024), h200_, 32);
  Expect(Ask(*plan_, Drawn(*plan_, 1024, "skew"), h200_), tunefarm::v1::MATCH_NEAREST_SHAPE, 0, 1);
}

class ProductMatch : public CatalogCase {
 protected:
  // `tokens` of `topk` rows each.
  static ResolvedProblem Rows(const KernelPlan& plan, int64_t tokens, int64_t topk, int64_t n = 1024) {
    tunefarm::v1::Problem problem;
    (*problem.mutable_dims())["N"].set_int_value(n);
    (*problem.mutable_dims())["tokens"].set_int_value(tokens);
    (*problem.mutable_dims())["topk"].set_int_value(topk);
    auto resolved = plan.ResolveProblem(problem);
    TUNEFARM_CHECK_OK(resolved);
    return *resolved;
  }

  const std::shared_ptr<const KernelPlan> plan_ = Plan(R"pb(
    dims { name: "tokens" lookup: LOOKUP_RULE_PRODUCT }
    dims { name: "topk" max: 64 lookup: LOOKUP_RULE_PRODUCT }
  )pb");
};

TEST_F(ProductMatch, OnlyTheProductCounts) {
  File(*plan_, Rows(*plan_, 4096, 8), h200_, 32);
  File(*plan_, Rows(*plan_, 4096, 1), h200_, 64);
  const auto expect = [&](int64_t tokens, int64_t topk, double distance, int64_t t) {
    const CatalogAnswer answer = Ask(*plan_, Rows(*plan_, tokens, topk), h200_);
    EXPECT_EQ(answer.match, tunefarm::v1::MATCH_NEAREST_SHAPE);
    EXPECT_NEAR(answer.distance, distance, 1e-9);
    EXPECT_EQ(T(answer), t);
  };
  expect(32768, 1, 0, 32);
  expect(1024, 4, 0, 64);
  expect(8192, 8, 1, 32);
  expect(4096, 2, 1, 64);
  expect(4096, 4, 1, 32);
  expect(3000, 16, std::log2(48000.0 / 32768), 32);
}

TEST_F(ProductMatch, TheProductAndOtherDimsAddUp) {
  File(*plan_, Rows(*plan_, 4096, 8), h200_, 32);
  EXPECT_NEAR(Ask(*plan_, Rows(*plan_, 4096, 2, 2048), h200_).distance, 3, 1e-9);
  EXPECT_EQ(Ask(*plan_, Rows(*plan_, 4096, 2, 8192), h200_).match, tunefarm::v1::MATCH_DEFAULT) << "5 is too far";
}

// Products beyond 2^63 are as good as equal, and no other dim is confused by them.
TEST_F(ProductMatch, GreatProductsAreBounded) {
  const auto plan = Plan(R"pb(
    dims { name: "a" lookup: LOOKUP_RULE_PRODUCT }
    dims { name: "b" lookup: LOOKUP_RULE_PRODUCT }
  )pb");
  const auto problem = [&](int64_t a, int64_t b) {
    tunefarm::v1::Problem asked;
    (*asked.mutable_dims())["a"].set_int_value(a);
    (*asked.mutable_dims())["b"].set_int_value(b);
    auto resolved = plan->ResolveProblem(asked);
    TUNEFARM_CHECK_OK(resolved);
    return *resolved;
  };
  File(*plan, problem(int64_t{1} << 40, int64_t{1} << 40), h200_, 32);
  const CatalogAnswer answer = Ask(*plan, problem(int64_t{1} << 39, int64_t{1} << 40), h200_);
  EXPECT_EQ(answer.match, tunefarm::v1::MATCH_NEAREST_SHAPE);
  EXPECT_EQ(answer.distance, 0);
  EXPECT_EQ(Ask(*plan, problem(1, 1), h200_).match, tunefarm::v1::MATCH_DEFAULT);
}

}  // namespace
}  // namespace tunefarm
