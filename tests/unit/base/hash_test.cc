#include "server/base/hash.h"

#include <gtest/gtest.h>

#include <unordered_set>

namespace tunefarm {
namespace {

constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256Test, KnownAnswers) {
  EXPECT_EQ(Sha256("").Hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256("abc").Hex(), kAbc);
}

TEST(Sha256Test, StreamEqualsWhole) {
  const std::string text(1000, 'x');
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{64}, size_t{999}, size_t{1000}}) {
    Sha256Stream stream;
    stream.Update(text.substr(0, cut));
    Sha256Stream moved = std::move(stream);
    moved.Update(text.substr(cut));
    EXPECT_EQ(moved.Finish(), Sha256(text)) << cut;
  }
}

TEST(DigestTest, HexRoundTrip) {
  const absl::StatusOr<Digest> digest = Digest::FromHex(kAbc);
  ASSERT_TRUE(digest.ok());
  EXPECT_EQ(*digest, Sha256("abc"));
  EXPECT_EQ(digest->Hex(), kAbc);
  EXPECT_EQ(digest->view().size(), 32u);
}

TEST(DigestTest, FromHexAcceptsOneSpellingOnly) {
  std::string upper = kAbc;
  upper[0] = 'B';
  for (const std::string& bad : {std::string(), upper, std::string(63, 'a'), std::string(65, 'a'),
                                 std::string(63, 'a') + "g", std::string(63, 'a') + "\0"}) {
    EXPECT_EQ(Digest::FromHex(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(DigestTest, OrderAndHash) {
  const Digest small = *Digest::FromHex(std::string(63, '0') + "1");
  const Digest large = *Digest::FromHex("f" + std::string(63, '0'));
  EXPECT_LT(small, large);
  EXPECT_NE(small, large);
  EXPECT_EQ(Digest{}.Hex(), std::string(64, '0'));
  const std::unordered_set<Digest> set = {small, large, small};
  EXPECT_EQ(set.size(), 2u);
}

TEST(Xxh3Test, KnownAnswers) {
  EXPECT_EQ(Xxh3(""), 0x2d06800538d394c2u);
  EXPECT_NE(Xxh3("a"), Xxh3("b"));
}

}  // namespace
}  // namespace tunefarm
