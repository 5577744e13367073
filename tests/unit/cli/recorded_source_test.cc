#include "client/cli/studies/recorded_source.h"

#include <gtest/gtest.h>

#include <limits>

namespace tunefarm::cli {
namespace {

v1::SpaceSize Space(int64_t valid, bool is_sampled) {
  v1::SpaceSize space;
  space.set_valid(valid);
  space.set_approximate(is_sampled);
  return space;
}

TEST(CoverageNote, SaysHowMuchOfASpaceWasMeasured) {
  EXPECT_EQ(CoverageNote("job 3", 20, Space(20, false)), "job 3: all 20 valid configs were measured.");
  const auto begins_with = [](const v1::SpaceSize& space, const std::string& text) {
    return CoverageNote("job 3", 6, space).starts_with("job 3: 6 of " + text + " valid configs were measured, ");
  };
  EXPECT_TRUE(begins_with(Space(20, false), "20"));
  EXPECT_TRUE(begins_with(Space(6, true), "≈6"));
  EXPECT_TRUE(begins_with(Space(std::numeric_limits<int64_t>::max(), false), "9.2e18 or more"));
}

}  // namespace
}  // namespace tunefarm::cli
