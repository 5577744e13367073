#include "server/exec/captured_output.h"

#include <gtest/gtest.h>

namespace tunefarm {
namespace {

TEST(CapturedOutput, KeepsAllWhileItFits) {
  CapturedOutput output(10);
  output.Append("01234");
  output.Append("56789");
  EXPECT_EQ(output.Text(), "0123456789");
  output.Clear();
  EXPECT_EQ(output.Text(), "");
}

TEST(CapturedOutput, KeepsHeadAndTailAndCountsTheRest) {
  for (const size_t piece : {1u, 3u, 7u, 1000u}) {
    CapturedOutput output(10);
    std::string all = "HEAD_" + std::string(990, '.') + "_TAIL";
    for (size_t at = 0; at < all.size(); at += piece) output.Append(std::string_view(all).substr(at, piece));
    EXPECT_EQ(output.Text(), "HEAD_\n[... 990 bytes cut ...]\n_TAIL") << piece;
  }
}

TEST(PrintableText, ReplacesWhatIsNoText) {
  EXPECT_EQ(PrintableText("plain\n\ttext"), "plain\n\ttext");
  EXPECT_EQ(PrintableText("µ €\xF0\x9F\x98\x80"), "µ €\xF0\x9F\x98\x80");
  EXPECT_EQ(PrintableText("\x1b[31mred\r\x7f"), "?[31mred??");
  EXPECT_EQ(PrintableText("\xff\xfe"), "??");
  EXPECT_EQ(PrintableText("\xC0\xAF"), "??");            // overlong
  EXPECT_EQ(PrintableText("\xED\xA0\x80"), "???");       // surrogate
  EXPECT_EQ(PrintableText("\xF4\x90\x80\x80"), "????");  // beyond the last code point
  EXPECT_EQ(PrintableText("cut \xE2\x82"), "cut ??");
}

}  // namespace
}  // namespace tunefarm
