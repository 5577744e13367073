#include "client/cli/curve_svg.h"

#include <cmath>
#include <string>

#include "gtest/gtest.h"

namespace tunefarm::cli {
namespace {

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(CurveSvg, DrawsEachCurveWithItsBandAndName) {
  const CurvePlot plot{
      "a < b & c", "x", "y", {{"one", {0, 1, 2}, {0, 1, 4}, {-1, 0, 3}, {1, 2, 5}}, {"two", {0, 2}, {3, 3}, {}, {}}}};
  const std::string svg = CurvesToSvg({plot, plot});
  EXPECT_EQ(svg.rfind("<svg xmlns=", 0), 0u);
  EXPECT_EQ(Count(svg, "<polyline"), 4u);
  EXPECT_EQ(Count(svg, "<polygon"), 2u);
  EXPECT_EQ(Count(svg, "a &lt; b &amp; c"), 2u);
  EXPECT_EQ(Count(svg, ">one</text>"), 2u);
  EXPECT_EQ(Count(svg, "nan"), 0u);
}

TEST(CurveSvg, NothingAndTheSameValueEverywhereAreNoTrouble) {
  EXPECT_EQ(Count(CurvesToSvg({}), "</svg>"), 1u);
  EXPECT_EQ(Count(CurvesToSvg({{"", "", "", {}}}), "nan"), 0u);
  const std::string flat =
      CurvesToSvg({{"", "", "", {{"flat", {1, 1}, {2, 2}, {}, {}}, {"holes", {1, 2}, {NAN, INFINITY}, {}, {}}}}});
  EXPECT_EQ(Count(flat, "nan") + Count(flat, "inf"), 0u);
}

}  // namespace
}  // namespace tunefarm::cli
