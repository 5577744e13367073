#include "server/interchange/gunzip.h"

#include <string>

#include "gtest/gtest.h"
#include "server/base/status.h"
#include "tests/fakes/gzip.h"

namespace tunefarm::interchange {
namespace {

std::string ErrorOf(const std::string& bytes, uint64_t bytes_max = 1 << 20) {
  const auto text = Gunzip(bytes, "f.gz", bytes_max);
  return text.ok() ? "accepted" : std::string(MessageOf(text.status()));
}

TEST(Gunzip, UnpacksOneMemberAndMany) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += std::to_string(i);
  EXPECT_EQ(*Gunzip(Gzip(text), "f", 1 << 24), text);
  EXPECT_EQ(*Gunzip(Gzip("one") + Gzip("") + Gzip("two"), "f", 100), "onetwo");
  EXPECT_EQ(*PlainText("plain", "f", 3), "plain");
  EXPECT_EQ(*PlainText(Gzip("packed"), "f", 100), "packed");
}

TEST(Gunzip, DamageIsAnErrorWithItsPlace) {
  const std::string whole = Gzip("some text that is long enough to be cut somewhere");
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_EQ(ErrorOf(whole.substr(0, length)).find("f.gz: byte "), 0u) << length;
  }
  EXPECT_NE(ErrorOf(whole + "x").find("bytes behind the end"), std::string::npos);
  std::string damaged = whole;
  damaged[whole.size() - 6] ^= 1;  // of the checksum
  EXPECT_NE(ErrorOf(damaged).find("damaged"), std::string::npos);
}

TEST(Gunzip, ABombIsNotUnpacked) {
  const std::string bomb = Gzip(std::string(64 << 20, 'a'));
  EXPECT_LT(bomb.size(), size_t{1} << 20);
  EXPECT_NE(ErrorOf(bomb).find("more than 1048576 bytes"), std::string::npos);
}

}  // namespace
}  // namespace tunefarm::interchange
