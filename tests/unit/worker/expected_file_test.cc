#include "server/worker/verify/expected_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tunefarm {
namespace {

using testing::ElementsAre;

TEST(ExpectedFile, GivesBackWhatWasPacked) {
  const std::string file = PackExpected("kernel|problem|1", {"first", "", std::string("\0\xa5", 2)});
  const auto blocks = UnpackExpected(file, "kernel|problem|1");
  ASSERT_TRUE(blocks.has_value());
  EXPECT_THAT(*blocks, ElementsAre("first", "", std::string_view("\0\xa5", 2)));
  EXPECT_TRUE(UnpackExpected(PackExpected("", {}), "").has_value());
}

TEST(ExpectedFile, RefusesAnotherKey) {
  EXPECT_FALSE(UnpackExpected(PackExpected("kernel|problem|1", {"x"}), "kernel|problem|2").has_value());
}

TEST(ExpectedFile, RefusesWhatIsNotWhole) {
  const std::string file = PackExpected("key", {"some bytes", "others"});
  for (size_t length = 0; length < file.size(); ++length) {
    EXPECT_FALSE(UnpackExpected(std::string_view(file).substr(0, length), "key").has_value()) << length;
  }
  EXPECT_FALSE(UnpackExpected(file + "x", "key").has_value());
  for (size_t i = 0; i < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] ^= 0x40;
    EXPECT_FALSE(UnpackExpected(damaged, "key").has_value()) << i;
  }
}

}  // namespace
}  // namespace tunefarm
