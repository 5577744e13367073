#include "server/interchange/gunzip.h"

#include <zlib.h>

#include <string>

#include "gtest/gtest.h"
#include "server/base/status.h"

namespace tunefarm::interchange {
namespace {

std::string Gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

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
