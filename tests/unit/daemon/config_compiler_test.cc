#include "server/daemon/config_compiler.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/status.h"

namespace tunefarm {
namespace {

// Answers every compile at once with a binary of ten bytes.
class TenByteCompiler : public Evaluator {
 public:
  Id Compile(CompileRequest request, std::function<void(CompileResult)> done) override {
    was_ptx = request.ptx;
    CompileResult result;
    result.outcome = v1::OUTCOME_OK;
    result.toolchain = "c++ 1.0";
    result.artifact = std::make_shared<Artifact>(Artifact{std::string(10, 'x'), {{"f", "f"}}, {"-O2"}});
    done(std::move(result));
    return ++compiles;
  }
  Id Run(RunRequest, std::function<void(RunResult)>) override { return 0; }
  void Expect(const std::string&, const KernelPlan&) override {}
  void Cancel(Id) override {}
  void ReleaseDevice(const std::string&) override {}
  int compile_slots() const override { return 1; }

  uint64_t compiles = 0;
  bool was_ptx = false;
};

// Answers a compile when it is cancelled.
class BusyCompiler final : public TenByteCompiler {
 public:
  Id Compile(CompileRequest, std::function<void(CompileResult)> done) override {
    waiting.push_back(std::move(done));
    return waiting.size();
  }
  void Cancel(Id id) override {
    ++cancelled;
    waiting[id - 1](CompileResult());
  }

  std::vector<std::function<void(CompileResult)>> waiting;
  int cancelled = 0;
};

class ConfigCompilerTest : public testing::Test {
 protected:
  ConfigCompilerTest() { compiler_.SetEvaluator(&evaluator_); }

  // Of three configs.
  static CompileOrder Order() {
    const auto kernel = ParseKernelText(R"(
      display_name: "three" language: LANGUAGE_HOST_CXX sources { path: "k.cc" content: "int i;" }
      parameters { name: "A" values { ints: [1, 2, 3] } }
      launches { kernel { entry: "f" } } unverified_reason: "never runs")",
                                        "kernel.pbtxt");
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    CompileOrder order;
    const auto plan = KernelPlan::Compile(*kernel);
    EXPECT_TRUE(plan.ok()) << plan.status();
    order.plan = *plan;
    order.problem = std::make_shared<const ResolvedProblem>(*order.plan->ResolveProblem({}));
    for (const char* text : {"A=1", "A=2", "A=3"}) order.configs.push_back(*order.plan->ConfigFromText(text));
    return order;
  }

  TenByteCompiler evaluator_;
  ConfigCompiler compiler_;
};

TEST_F(ConfigCompilerTest, SaysWhatTheCompilerWasTold) {
  CompileOrder order = Order();
  order.ptx = true;
  const auto compiled = compiler_.Compile(order);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(evaluator_.compiles, 3U);
  EXPECT_TRUE(evaluator_.was_ptx);
  ASSERT_EQ(compiled->size(), 3U);
  for (const CompiledConfig& one : *compiled) {
    EXPECT_EQ(one.outcome, v1::OUTCOME_OK);
    EXPECT_EQ(one.toolchain, "c++ 1.0");
    EXPECT_EQ(one.compile_options, std::vector<std::string>{"-O2"});
    EXPECT_EQ(one.lowered_names.at("f"), "f");
    EXPECT_EQ(one.binary_bytes, 10U);
    EXPECT_EQ(one.binary, "");
  }
}

TEST_F(ConfigCompilerTest, KeepsNoMoreBinariesThanAreWanted) {
  CompileOrder order = Order();
  order.binaries_bytes_max = 25;
  const auto compiled = compiler_.Compile(order);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ((*compiled)[0].binary, std::string(10, 'x'));
  EXPECT_EQ((*compiled)[1].binary, std::string(10, 'x'));
  EXPECT_EQ((*compiled)[2].binary, "");
  EXPECT_EQ((*compiled)[2].binary_bytes, 10U);
}

TEST_F(ConfigCompilerTest, WaitsForWorkersWhileItIsWanted) {
  BusyCompiler busy;
  compiler_.SetEvaluator(&busy);
  CompileOrder order = Order();
  int asked = 0;
  order.check_wanted = [&asked]() -> absl::Status {
    if (++asked < 3) return absl::OkStatus();
    return Cancelled("nobody waits for it any more");
  };
  EXPECT_EQ(MessageOf(compiler_.Compile(order).status()), "nobody waits for it any more");
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(busy.cancelled, 3);
}

}  // namespace
}  // namespace tunefarm
