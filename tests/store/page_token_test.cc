#include "server/store/page_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "server/base/status.h"

namespace tunefarm {
namespace {

TEST(PageToken, ComesBackForItsQuery) {
  const std::vector<int64_t> key = {0, -1, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  for (size_t size = 0; size <= key.size(); ++size) {
    const std::vector<int64_t> part(key.begin(), key.begin() + static_cast<std::ptrdiff_t>(size));
    const std::string token = EncodePageToken("query", part);
    EXPECT_EQ(DecodePageToken("query", token, size).value().value(), part);
    EXPECT_FALSE(DecodePageToken("another", token, size).ok());
    EXPECT_FALSE(DecodePageToken("query", token, size + 1).ok());
  }
  EXPECT_FALSE(DecodePageToken("query", "", 1).value().has_value());
}

TEST(PageToken, EveryAlteredLetterIsNoticed) {
  const std::string token = EncodePageToken("query", {42});
  for (size_t i = 0; i < token.size(); ++i) {
    for (const char letter : {'A', 'z', '_', '=', '\0'}) {
      std::string altered = token;
      if (altered[i] == letter) continue;
      altered[i] = letter;
      const absl::Status status = DecodePageToken("query", altered, 1).status();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << i;
      EXPECT_EQ(ReasonOf(status), "PAGE_TOKEN_INVALID");
    }
  }
  EXPECT_FALSE(DecodePageToken("query", std::string(100000, 'A'), 1).ok());
}

TEST(PageSize, IsBounded) {
  EXPECT_EQ(EffectivePageSize(0), 50);
  EXPECT_EQ(EffectivePageSize(-7), 50);
  EXPECT_EQ(EffectivePageSize(1), 1);
  EXPECT_EQ(EffectivePageSize(1000000), 1000);
}

}  // namespace
}  // namespace tunefarm
