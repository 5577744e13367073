#include "server/worker/verify/buffer_data.h"

#include <gtest/gtest.h>

namespace tunefarm {
namespace {

BufferPlan Plan(v1::Access access, v1::Init init) {
  BufferPlan plan = {};
  plan.access = access;
  plan.init = init;
  plan.restore = v1::RESTORE_NEVER;
  return plan;
}

TEST(BufferDataTest, InputsHoldWhatTheirFillSays) {
  for (const v1::Access access : {v1::ACCESS_IN, v1::ACCESS_INOUT}) {
    BufferPlan plan = Plan(access, v1::INIT_FILL);
    EXPECT_EQ(BufferDataOf(plan), BufferData::kFormula);
    plan.fill.mutable_file()->set_path("x.npy");
    EXPECT_EQ(BufferDataOf(plan), BufferData::kFile);
    plan.fill.set_prepare_step("draw");
    EXPECT_EQ(BufferDataOf(plan), BufferData::kPrepareStep);
    EXPECT_TRUE(StartsWithData(plan));
    EXPECT_FALSE(IsPoisoned(plan));
    EXPECT_EQ(IsInput(plan), access == v1::ACCESS_IN);
    EXPECT_EQ(IsRepeatable(plan), access == v1::ACCESS_IN);
    EXPECT_EQ(IsOutput(plan), access == v1::ACCESS_INOUT);
    plan.restore = v1::RESTORE_PER_SAMPLE;
    EXPECT_TRUE(IsRepeatable(plan));
  }
  BufferPlan symbol = Plan(v1::ACCESS_OUT, v1::INIT_POISON);
  symbol.is_constant_symbol = true;
  EXPECT_EQ(BufferDataOf(symbol), BufferData::kFormula);
  EXPECT_TRUE(IsInput(symbol));
  EXPECT_FALSE(IsOutput(symbol));
}

TEST(BufferDataTest, OutputsAndWorkSpaceHoldWhatTheirInitSays) {
  for (const v1::Access access : {v1::ACCESS_OUT, v1::ACCESS_SCRATCH}) {
    EXPECT_EQ(BufferDataOf(Plan(access, v1::INIT_ZERO)), BufferData::kZeros);
    EXPECT_FALSE(StartsWithData(Plan(access, v1::INIT_ZERO)));
    EXPECT_FALSE(IsRepeatable(Plan(access, v1::INIT_ZERO)));
    EXPECT_TRUE(IsPoisoned(Plan(access, v1::INIT_POISON)));
    EXPECT_FALSE(StartsWithData(Plan(access, v1::INIT_POISON)));
    EXPECT_TRUE(IsRepeatable(Plan(access, v1::INIT_POISON)));
    EXPECT_EQ(BufferDataOf(Plan(access, v1::INIT_FILL)), BufferData::kFormula);
    EXPECT_EQ(IsScratch(Plan(access, v1::INIT_FILL)), access == v1::ACCESS_SCRATCH);
  }
}

}  // namespace
}  // namespace tunefarm
