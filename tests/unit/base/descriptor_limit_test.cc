#include "server/base/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace tunefarm {
namespace {

TEST(DescriptorLimit, IsRaisedAndTheOldOneIsKnown) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit low = {200, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(DescriptorLimit(), 200);
  EXPECT_EQ(InheritedDescriptorLimit(), 200) << "it was not raised";

  RaiseDescriptorLimit();
  rlimit raised = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &raised), 0);
  EXPECT_EQ(raised.rlim_cur, before.rlim_max);
  EXPECT_EQ(raised.rlim_max, before.rlim_max);
  EXPECT_GT(DescriptorLimit(), 200);
  EXPECT_EQ(InheritedDescriptorLimit(), 200);

  LowerDescriptorLimit(InheritedDescriptorLimit());
  EXPECT_EQ(DescriptorLimit(), 200);
  LowerDescriptorLimit(300);
  EXPECT_EQ(DescriptorLimit(), 200) << "a lower limit stays";
  rlimit lowered = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &lowered), 0);
  EXPECT_EQ(lowered.rlim_max, before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace tunefarm
