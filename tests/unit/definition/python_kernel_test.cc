// Kernels in Python: what their plans say, and what makes two of them different.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>

#include "server/definition/launch_digest.h"
#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

std::string PythonText(std::string_view source = "def make_run_and_gt(config): ...", std::string_view more = "") {
  return fmt::format(R"(
display_name: "twice" language: LANGUAGE_PYTHON
python {{ device: DEVICE_KIND_HOST }}
sources {{ path: "tuned/twice.py" content: "{}" }} sources {{ path: "class.py" content: "pass" }}
dims {{ name: "N" default_value {{ int_value: 64 }} }}
parameters {{ name: "BLOCK" values {{ ints: [1, 2] }} }}
parameters {{ name: "class_" values {{ bools: [false, true] }} }}
derived {{ name: "blocks" expression: "N // BLOCK" }}
tolerance {{ rtol: 0.25 conditional {{ when: "N > 64" tolerance {{ rtol: 0.5 }} }} }}
flops: "2 * N"
{})",
                     source, more);
}

DeviceClass Host() {
  DeviceClass host;
  host.kind = DeviceKind::kHost;
  host.sm_count = 2;
  return host;
}

ResolvedProblem ProblemOf(const KernelPlan& plan, int64_t n) {
  v1::Problem problem;
  (*problem.mutable_dims())["N"].set_int_value(n);
  return *plan.ResolveProblem(problem);
}

TEST(PythonKernelTest, RunsWhereItSaysAndBakesEverythingIn) {
  const auto plan = CompileText(PythonText());
  ASSERT_TRUE(plan.ok()) << Message(plan.status());
  EXPECT_EQ((*plan)->device_kind(), DeviceKind::kHost);
  EXPECT_EQ((*plan)->kernel().python().module(), "tuned.twice");
  const ResolvedProblem problem = ProblemOf(**plan, 128);
  const Config config = *(*plan)->ConfigFromText("BLOCK=2,class_=true");
  const auto constants = (*plan)->Constants(problem, config, Host());
  ASSERT_TRUE(constants.ok());
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(*constants, (Pairs{{"BLOCK", "2"}, {"N", "128"}, {"blocks", "64"}, {"class_", "1"}}));
  const auto derived = (*plan)->DerivedValues(problem, config, Host());
  ASSERT_TRUE(derived.ok());
  ASSERT_EQ(derived->size(), 1U);
  EXPECT_EQ((*derived)[0].second.int_value(), 64);
  EXPECT_EQ((*plan)->Tolerance(problem).rtol, 0.5);
  EXPECT_FALSE((*plan)->HasSequence(Sequence::kLaunches));
  EXPECT_EQ(*(*plan)->BuildSpace(problem, Host())->CountValid(), 4U);
}

// They are no macros: a module gets the values themselves.
TEST(PythonKernelTest, TextsNeedNotBeWords) {
  const auto plan = CompileText(PythonText("pass",
                                           R"(parameters { name: "ORDER" values { strings: ["row", "col-major"] } }
         derived { name: "order" expression: "ORDER if BLOCK > 1 else 'x.y'" })"));
  ASSERT_TRUE(plan.ok()) << Message(plan.status());
  const Config config = *(*plan)->ConfigFromText("BLOCK=2,class_=true,ORDER=col-major");
  const auto constants = (*plan)->Constants(ProblemOf(**plan, 64), config, Host());
  EXPECT_TRUE(constants.ok()) << constants.status();
}

TEST(PythonKernelTest, OnAGpuItIsRefusedByTheHost) {
  std::string text = PythonText("pass", "resources { min_compute_capability: 80 }");
  text.replace(text.find("DEVICE_KIND_HOST"), 16, "DEVICE_KIND_CUDA");
  const auto plan = CompileText(text);
  ASSERT_TRUE(plan.ok()) << Message(plan.status());
  EXPECT_EQ((*plan)->device_kind(), DeviceKind::kCuda);
  EXPECT_FALSE((*plan)->BuildSpace(ProblemOf(**plan, 64), Host()).ok());
  EXPECT_NE((*plan)->program_digest(), (*CompileText(PythonText("pass")))->program_digest());
}

TEST(PythonKernelTest, DigestsCoverEverySource) {
  const auto one = CompileText(PythonText()), other = CompileText(PythonText("import os"));
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE((*one)->program_digest(), (*other)->program_digest());
}

// Only the module knows what it makes of a value: no two configs are one measurement.
TEST(PythonKernelTest, EveryConfigIsAnotherLaunch) {
  const auto plan = CompileText(PythonText());
  ASSERT_TRUE(plan.ok());
  const auto digest = [&plan](int64_t n, std::string_view config) {
    return *LaunchDigest(**plan, ProblemOf(**plan, n), *(*plan)->ConfigFromText(config), Host());
  };
  EXPECT_EQ(digest(64, "BLOCK=1,class_=true"), digest(64, "BLOCK=1,class_=true"));
  EXPECT_NE(digest(64, "BLOCK=1,class_=true"), digest(64, "BLOCK=1,class_=false"));
  EXPECT_NE(digest(64, "BLOCK=1,class_=true"), digest(128, "BLOCK=1,class_=true"));
}

}  // namespace
}  // namespace tunefarm
