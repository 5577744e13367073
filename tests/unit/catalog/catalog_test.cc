#include "server/catalog/catalog.h"

#include <cmath>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "server/base/check.h"

namespace tunefarm {
namespace {

using tunefarm::v1::Match;

// N by ratio, G by bucket (up to 8, up to 64), FLAG exactly; T must divide N.
std::shared_ptr<const KernelPlan> Plan(const std::string& options = "", const std::string& name = "scale") {
  auto kernel = ParseKernelText(R"pb(
                                      display_name: "scale"
                                      language: LANGUAGE_CUDA
                                      sources { path: "scale.cu" }
                                      dims {
                                        name: "N"
                                        default_value { int_value: 1024 }
                                        lookup: LOOKUP_RULE_LOG
                                      }
                                      dims {
                                        name: "G"
                                        default_value { int_value: 4 }
                                        lookup: LOOKUP_RULE_BUCKET
                                        bucket_bounds: [ 8, 64 ]
                                      }
                                      dims {
                                        name: "E"
                                        default_value { int_value: 1 }
                                      }
                                      parameters {
                                        name: "T"
                                        values { ints: [ 32, 64, 96 ] }
                                      }
                                      constraints { expression: "N % T == 0" reason: "whole tiles" }
                                      arguments {
                                        name: "y"
                                        buffer { data_type: DATA_TYPE_F32 length: "N" access: ACCESS_OUT }
                                      }
                                      launches {
                                        kernel {
                                          entry: "scale"
                                          grid: "N // T"
                                          block: "T"
                                          arguments: [ "y" ]
                                        }
                                      }
                                      reference {
                                        steps {
                                          kernel {
                                            entry: "plain"
                                            grid: "1"
                                            block: "1"
                                            arguments: [ "y" ]
                                          }
                                        }
                                      })pb" +
                                    options,
                                "kernel.pbtxt");
  TUNEFARM_CHECK_OK(kernel);
  kernel->set_display_name(name);
  kernel->mutable_sources(0)->set_content("__global__ void scale(float*) {}");
  auto plan = KernelPlan::Compile(*kernel);
  TUNEFARM_CHECK_OK(plan);
  return *plan;
}

class CatalogTest : public testing::Test {
 protected:
  CatalogTest() : h200_(*FindKnownClass("H200")), h100_(*FindKnownClass("H100")), a100_(*FindKnownClass("A100")) {
    for (const DeviceClass& known : {h200_, h100_, a100_}) catalog_.AddClass(known.Id(), known);
  }

  static ResolvedProblem Problem(const KernelPlan& plan, int64_t n, int64_t g = 4, int64_t e = 1) {
    tunefarm::v1::Problem problem;
    (*problem.mutable_dims())["N"].set_int_value(n);
    (*problem.mutable_dims())["G"].set_int_value(g);
    (*problem.mutable_dims())["E"].set_int_value(e);
    auto resolved = plan.ResolveProblem(problem);
    TUNEFARM_CHECK_OK(resolved);
    return *resolved;
  }

  void File(const KernelPlan& plan, const ResolvedProblem& problem, const DeviceClass& device_class, int64_t t) {
    tunefarm::v1::BestConfig best;
    *best.mutable_problem() = problem.ToProto();
    (*best.mutable_config()->mutable_values())["T"].set_int_value(t);
    best.set_toolkit_version("13.0");
    BestRow row;
    row.kernel_name = plan.display_name();
    row.program_digest = plan.program_digest();
    row.problem_key = problem.key;
    row.class_id = device_class.Id();
    row.detail = best.SerializeAsString();
    row.revision = ++revision_;
    TUNEFARM_CHECK_OK(catalog_.Update(row));
  }

  CatalogAnswer Ask(const KernelPlan& plan, const ResolvedProblem& problem, const DeviceClass& device_class,
                    const std::string& toolkit = "13.0", Match worst = tunefarm::v1::MATCH_UNSPECIFIED) {
    const std::string class_id = device_class.Id();
    CatalogQuery query{&plan, &problem, &device_class, class_id, "", toolkit, worst};
    return catalog_.Lookup(query);
  }

  static int64_t T(const CatalogAnswer& answer) { return answer.best->config().values().at("T").int_value(); }

  Catalog catalog_;
  const DeviceClass h200_, h100_, a100_;
  int64_t revision_ = 0;
};

TEST_F(CatalogTest, ExactThenStaleByToolkit) {
  const auto plan = Plan();
  File(*plan, Problem(*plan, 1024), h200_, 64);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h200_).match, tunefarm::v1::MATCH_EXACT);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h200_, "13.1").match, tunefarm::v1::MATCH_STALE);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h200_, "").match, tunefarm::v1::MATCH_EXACT);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h200_, "13.1", tunefarm::v1::MATCH_EXACT).match,
            tunefarm::v1::MATCH_NOT_FOUND);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h200_).revision, 1);
}

TEST_F(CatalogTest, AnOlderProgramOfTheSameNameIsStaleSource) {
  const auto older = Plan("compile_options: \"-use_fast_math\"");
  const auto plan = Plan();
  ASSERT_NE(older->program_digest(), plan->program_digest());
  File(*older, Problem(*older, 1024), h200_, 64);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h200_).match, tunefarm::v1::MATCH_STALE_SOURCE);
}

TEST_F(CatalogTest, TheNearestShapeThatTheAskedProblemAccepts) {
  const auto plan = Plan();
  File(*plan, Problem(*plan, 1056), h200_, 96);  // nearest to 1024, which 96 does not divide
  File(*plan, Problem(*plan, 4096), h200_, 64);
  File(*plan, Problem(*plan, 16384), h200_, 32);
  const CatalogAnswer answer = Ask(*plan, Problem(*plan, 1024), h200_);
  EXPECT_EQ(answer.match, tunefarm::v1::MATCH_NEAREST_SHAPE);
  EXPECT_EQ(T(answer), 64);
  EXPECT_EQ(answer.distance, 2);
  // G within its bucket is no distance; in another bucket, or with another E, nothing matches.
  EXPECT_EQ(Ask(*plan, Problem(*plan, 4096, 8), h200_).distance, 0);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 4096, 9), h200_).match, tunefarm::v1::MATCH_DEFAULT);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 4096, 4, 2), h200_).match, tunefarm::v1::MATCH_DEFAULT);
}

TEST_F(CatalogTest, NoShapeAnswersBeyondTheDeclaredDistance) {
  struct Case {
    const char* name;
    const char* declared;
    int64_t tuned, asked;
    Match match;
  };
  constexpr Match kNear = tunefarm::v1::MATCH_NEAREST_SHAPE, kDefault = tunefarm::v1::MATCH_DEFAULT;
  for (const Case& c : {Case{"a", "", 1024, 16384, kNear}, Case{"b", "", 1024, 16416, kDefault},
                        Case{"c", "", 8192, 512, kNear}, Case{"d", "lookup_distance_max: 1", 1024, 2048, kNear},
                        Case{"e", "lookup_distance_max: 1", 1024, 2080, kDefault},
                        Case{"f", "lookup_distance_max: 0", 1024, 1056, kDefault},
                        Case{"g", "lookup_distance_max: 12", 32, 131072, kNear}}) {
    SCOPED_TRACE(c.name);
    const auto plan = Plan(c.declared, c.name);
    File(*plan, Problem(*plan, c.tuned), h200_, 32);
    const CatalogAnswer answer = Ask(*plan, Problem(*plan, c.asked), h200_);
    EXPECT_EQ(answer.match, c.match);
    EXPECT_EQ(answer.distance, c.match == kNear ? std::abs(std::log2(static_cast<double>(c.asked) / c.tuned)) : 0);
  }
}

TEST_F(CatalogTest, AnotherClassOfTheSameCapabilityButNotOfAnother) {
  const auto plan = Plan();
  File(*plan, Problem(*plan, 1024), h100_, 64);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), h200_).match, tunefarm::v1::MATCH_SAME_ARCH);
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1024), a100_).match, tunefarm::v1::MATCH_DEFAULT);
  // The default, T = 32, does not divide 1000.
  EXPECT_EQ(Ask(*plan, Problem(*plan, 1000), a100_).match, tunefarm::v1::MATCH_NOT_FOUND);
}

TEST_F(CatalogTest, APromotionReplacesAndPagesGoOnWhereTheyEnded) {
  const auto plan = Plan();
  for (int64_t n : {1024, 2048, 4096}) File(*plan, Problem(*plan, n), h200_, 32);
  File(*plan, Problem(*plan, 2048), h200_, 64);
  EXPECT_EQ(T(Ask(*plan, Problem(*plan, 2048), h200_)), 64);
  size_t seen = 0;
  std::string token;
  do {
    const auto page = catalog_.List("scale", 2, token);
    ASSERT_TRUE(page.ok());
    seen += page->first.size();
    token = page->second;
  } while (!token.empty());
  EXPECT_EQ(seen, 3u);
  EXPECT_FALSE(catalog_.List("", 2, "nonsense").ok());
  EXPECT_TRUE(catalog_.List("other", 2, "")->first.empty());
}

TEST_F(CatalogTest, TwoNamesOfOneProgramShareTheirBest) {
  const auto plan = Plan(), other = Plan("", "scale_too");
  ASSERT_EQ(plan->program_digest(), other->program_digest());
  File(*plan, Problem(*plan, 1024), h200_, 32);
  EXPECT_EQ(Ask(*other, Problem(*other, 1024), h200_).match, tunefarm::v1::MATCH_EXACT);
  File(*other, Problem(*other, 1024), h200_, 64);
  for (const auto& asked : {plan, other}) {
    const CatalogAnswer answer = Ask(*asked, Problem(*asked, 1024), h200_);
    EXPECT_EQ(answer.match, tunefarm::v1::MATCH_EXACT);
    EXPECT_EQ(T(answer), 64);
  }
  const auto found = catalog_.Find(plan->program_digest(), Problem(*plan, 1024).key, h200_.Id());
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->revision(), 2);
  // As the database has it, and so after a restart.
  EXPECT_TRUE(catalog_.List("scale", 10, "")->first.empty());
  EXPECT_EQ(catalog_.List("", 10, "")->first.size(), 1u);
}

}  // namespace
}  // namespace tunefarm
