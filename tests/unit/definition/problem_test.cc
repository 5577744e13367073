#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "server/base/status.h"
#include "server/definition/value_proto.h"
#include "tests/unit/definition/sample_kernel.h"

namespace tunefarm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ProblemTest : public testing::Test {
 protected:
  absl::StatusOr<ResolvedProblem> Resolve(const std::function<void(v1::Problem*)>& change) {
    v1::Problem problem;
    (*problem.mutable_dims())["K"].set_int_value(64);
    change(&problem);
    return plan_->ResolveProblem(problem);
  }
  std::string Refused(std::string_view reason, const std::function<void(v1::Problem*)>& change) {
    const absl::Status status = Resolve(change).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ReasonOf(status), reason);
    return Message(status);
  }

  const std::shared_ptr<const KernelPlan> plan_ = SamplePlan();
};

TEST_F(ProblemTest, FillsInDefaults) {
  const auto problem = Resolve([](v1::Problem*) {});
  ASSERT_TRUE(problem.ok()) << Message(problem.status());
  EXPECT_EQ(problem->key, "K=64,N=4096,causal=false,dtype=f32");
  EXPECT_THAT(problem->input_seeds, ElementsAre(1U));
  EXPECT_TRUE(problem->pinned.empty());
}

TEST_F(ProblemTest, KeyNamesWhatIsNotTheDefault) {
  const auto problem = Resolve([](v1::Problem* p) {
    p->add_input_seeds(7);
    p->add_input_seeds(1);
    (*p->mutable_pinned())["STAGES"].set_int_value(3);
    (*p->mutable_pinned())["SCALE"].set_int_value(2);  // An int is taken for a float.
    p->set_key("forged");
  });
  ASSERT_TRUE(problem.ok()) << Message(problem.status());
  EXPECT_EQ(problem->key, "K=64,N=4096,causal=false,dtype=f32|seeds=7,1|pinned:SCALE=2.0,STAGES=3");
  const auto again = plan_->ResolveProblem(problem->ToProto());
  ASSERT_TRUE(again.ok()) << Message(again.status());
  EXPECT_EQ(again->key, problem->key);
}

TEST_F(ProblemTest, RefusesWhatDoesNotFit) {
  EXPECT_EQ(Refused("MISSING_FIELD", [](v1::Problem* p) { p->clear_dims(); }),
            "dims: kernel 'sample' needs a value for dim 'K'");
  EXPECT_EQ(Refused("UNKNOWN_DIM", [](v1::Problem* p) { (*p->mutable_dims())["dtpye"].set_string_value("f32"); }),
            "dims[\"dtpye\"]: kernel 'sample' has no dim 'dtpye' (did you mean 'dtype'?)");
  EXPECT_THAT(Refused("UNKNOWN_DIM", [](v1::Problem* p) { (*p->mutable_dims())["BLOCK"].set_int_value(32); }),
              HasSubstr("it is a parameter, to be pinned"));
  EXPECT_EQ(Refused("UNKNOWN_PARAMETER", [](v1::Problem* p) { (*p->mutable_pinned())["STAGE"].set_int_value(1); }),
            "pinned[\"STAGE\"]: kernel 'sample' has no parameter 'STAGE' (did you mean 'STAGES'?)");
  EXPECT_EQ(Refused("VALUE_OUT_OF_RANGE", [](v1::Problem* p) { (*p->mutable_dims())["N"].set_int_value(0); }),
            "dims[\"N\"]: 0 is not between 1 and 1048576");
  EXPECT_EQ(
      Refused("VALUE_OUT_OF_RANGE", [](v1::Problem* p) { (*p->mutable_dims())["dtype"].set_string_value("f16"); }),
      "dims[\"dtype\"]: 'f16' is not one of 'f32', 'bf16'");
  EXPECT_EQ(Refused("TYPE_MISMATCH", [](v1::Problem* p) { (*p->mutable_dims())["N"].set_double_value(4); }),
            "dims[\"N\"]: 4.0 is of type float, not int");
  EXPECT_THAT(Refused("TYPE_MISMATCH", [](v1::Problem* p) { (*p->mutable_dims())["N"]; }),
              HasSubstr("the value is empty"));
  EXPECT_EQ(Refused("VALUE_OUT_OF_RANGE", [](v1::Problem* p) { (*p->mutable_pinned())["BLOCK"].set_int_value(48); }),
            "pinned[\"BLOCK\"]: 48 is not one of the values of parameter 'BLOCK'");
  EXPECT_THAT(Refused("DUPLICATE_NAME",
                      [](v1::Problem* p) {
                        p->add_input_seeds(3);
                        p->add_input_seeds(3);
                      }),
              HasSubstr("seed 3 is listed twice"));
  EXPECT_THAT(Refused("LIMIT_EXCEEDED",
                      [](v1::Problem* p) {
                        for (int i = 0; i < 9; ++i) p->add_input_seeds(static_cast<uint64_t>(i));
                      }),
              HasSubstr("at most 8"));
}

// A command line guesses the type of a value from its text; the declared type decides.
TEST_F(ProblemTest, ValuesAreReadByTheDeclaredType) {
  const auto problem = Resolve([](v1::Problem* p) {
    (*p->mutable_dims())["K"].set_string_value("128");
    (*p->mutable_dims())["causal"].set_int_value(1);
    (*p->mutable_pinned())["SCALE"].set_string_value("2e0");
    (*p->mutable_pinned())["VECTOR"].set_string_value("False");
  });
  ASSERT_TRUE(problem.ok()) << Message(problem.status());
  EXPECT_EQ(problem->key, "K=128,N=4096,causal=true,dtype=f32|pinned:SCALE=2.0,VECTOR=false");
  v1::Value written;
  const auto text = [&] { return definition::FromWritten(written, ValueType::kString)->string_value(); };
  written.set_int_value(1);
  EXPECT_EQ(text(), "1");
  written.set_bool_value(true);
  EXPECT_EQ(text(), "true");
  written.set_double_value(0.5);
  EXPECT_EQ(text(), "0.5");
  written.set_string_value("007");
  EXPECT_EQ(text(), "007");
  for (const char* none : {"x", "", "1.5", "1e3", "99999999999999999999"}) {
    written.set_string_value(none);
    EXPECT_EQ(MessageOf(definition::FromWritten(written, ValueType::kInt).status()),
              fmt::format("'{}' is of type string, not int", none));
  }
  for (const char* none : {"nan", "inf", "-inf"}) {
    written.set_string_value(none);
    EXPECT_FALSE(definition::FromWritten(written, ValueType::kFloat).ok()) << none;
  }
  written.set_int_value(2);
  EXPECT_FALSE(definition::FromWritten(written, ValueType::kBool).ok());
  written.set_double_value(4);
  EXPECT_FALSE(definition::FromWritten(written, ValueType::kInt).ok());
}

// A problem whose buffers cannot exist is refused when it is made, not when it is run.
TEST_F(ProblemTest, RefusesImpossibleBuffers) {
  EXPECT_THAT(
      Refused("LIMIT_EXCEEDED", [](v1::Problem* p) { (*p->mutable_dims())["K"].set_int_value(int64_t{1} << 40); }),
      HasSubstr("arguments[0].buffer.length"));
}

TEST_F(ProblemTest, Configs) {
  const ResolvedProblem problem = SampleProblem(*plan_);
  const Config config = plan_->DefaultConfig(problem);
  EXPECT_EQ(config.ToText(), "BLOCK=128,ORDER=row,SCALE=0.5,STAGES=1,VECTOR=false");
  EXPECT_EQ(*plan_->ParseConfig(plan_->ToProto(config)), config);
  EXPECT_EQ(*plan_->ConfigFromText(config.ToText()), config);

  v1::Config proto = plan_->ToProto(config);
  (*proto.mutable_values())["BLOCK"].set_int_value(48);
  EXPECT_EQ(Message(plan_->ParseConfig(proto).status()),
            "values[\"BLOCK\"]: 48 is not one of the values of parameter 'BLOCK'");
  proto.mutable_values()->erase("BLOCK");
  EXPECT_EQ(Message(plan_->ParseConfig(proto).status()), "values: the config gives parameter 'BLOCK' no value");
  (*proto.mutable_values())["BLOCKS"].set_int_value(32);
  EXPECT_EQ(Message(plan_->ParseConfig(proto).status()),
            "values[\"BLOCKS\"]: kernel 'sample' has no parameter 'BLOCKS' (did you mean 'BLOCK'?)");
  EXPECT_FALSE(plan_->ConfigFromText("BLOCK=x").ok());
}

TEST_F(ProblemTest, PinsNarrowTheSpace) {
  const DeviceClass device = FindKnownClass("A100").value();
  const auto free = plan_->BuildSpace(SampleProblem(*plan_), device);
  ASSERT_TRUE(free.ok()) << Message(free.status());
  const auto problem = Resolve([](v1::Problem* p) { (*p->mutable_pinned())["STAGES"].set_int_value(4); });
  const auto pinned = plan_->BuildSpace(*problem, device);
  ASSERT_TRUE(pinned.ok()) << Message(pinned.status());
  EXPECT_EQ(free->CartesianSize(), 6 * 4 * 2 * 2 * 2);
  EXPECT_EQ(pinned->CartesianSize(), 6 * 2 * 2 * 2);
  EXPECT_EQ(plan_->DefaultConfig(*problem).Find("STAGES")->int_value(), 4);
}

// Reference and baseline are compiled with it: a pin that only other values of the rest allow must not break them.
TEST_F(ProblemTest, PinsThatTheDefaultsContradictLeaveTheDefaultConfigAlone) {
  const auto plan = SamplePlan("tile <= 2048", "tile <= 2048 and (STAGES == 1 or BLOCK == 64)");
  ASSERT_NE(plan, nullptr);
  const Config declared = plan->DefaultConfig(SampleProblem(*plan));
  v1::Problem problem;
  (*problem.mutable_dims())["K"].set_int_value(64);
  (*problem.mutable_pinned())["STAGES"].set_int_value(4);
  const auto contradicted = plan->ResolveProblem(problem);
  ASSERT_TRUE(contradicted.ok()) << Message(contradicted.status());
  EXPECT_EQ(plan->DefaultConfig(*contradicted), declared);
  (*problem.mutable_pinned())["BLOCK"].set_int_value(64);
  const auto kept = plan->ResolveProblem(problem);
  ASSERT_TRUE(kept.ok()) << Message(kept.status());
  EXPECT_EQ(plan->DefaultConfig(*kept).Find("STAGES")->int_value(), 4);
}

TEST(ProblemOfTypes, FillsAreCheckedForTheTypeOfTheProblem) {
  const auto plan = CompileText(R"kernel(
display_name: "typed"
language: LANGUAGE_CUDA
sources { path: "t.cu" content: "//" }
dims { name: "dtype" type: VALUE_TYPE_STRING values { string_value: "f32" } values { string_value: "i32" } }
parameters { name: "BLOCK" values { ints: [64] } }
arguments { name: "drawn" buffer { data_type_dim: "dtype" length: "64" access: ACCESS_IN fill { normal {} } } }
arguments { name: "plain" buffer { data_type_dim: "dtype" length: "64" access: ACCESS_IN } }
arguments { name: "y" buffer { data_type_dim: "dtype" length: "64" access: ACCESS_OUT } }
launches { kernel { entry: "k" grid: "1" block: "BLOCK" arguments: ["drawn", "plain", "y"] } }
reference { steps { kernel { entry: "p" grid: "1" block: "1" arguments: ["drawn", "plain", "y"] } } }
)kernel");
  ASSERT_TRUE(plan.ok()) << Message(plan.status());
  v1::Problem problem;
  (*problem.mutable_dims())["dtype"].set_string_value("f32");
  EXPECT_TRUE((*plan)->ResolveProblem(problem).ok());
  (*problem.mutable_dims())["dtype"].set_string_value("i32");
  const absl::Status refused = (*plan)->ResolveProblem(problem).status();
  EXPECT_EQ(Message(refused),
            "arguments[0].buffer.fill.normal: normal fills are for floats, but 'drawn' is i32 in this problem");
}

TEST_F(ProblemTest, DevicesOfTheOtherKindAreRefused) {
  DeviceClass host;
  host.kind = DeviceKind::kHost;
  host.display_name = "a CPU";
  const absl::Status status = plan_->BuildSpace(SampleProblem(*plan_), host).status();
  EXPECT_EQ(Message(status), "kernel 'sample' is written in CUDA, which a CPU does not run");
  EXPECT_EQ(ReasonOf(status), "DEVICE_MISMATCH");
}

}  // namespace
}  // namespace tunefarm
