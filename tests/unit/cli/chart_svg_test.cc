#include "client/cli/studies/chart_svg.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "client/cli/studies/chart_axis.h"

namespace tunefarm::cli {
namespace {

using Kind = ChartSeries::Kind;

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::vector<double> TicksOf(bool is_log, double low, double high) {
  AxisScale axis(is_log);
  axis.Cover(low);
  axis.Cover(high);
  axis.Settle(0, 0, 100);
  return axis.Ticks();
}

TEST(ChartAxis, RoundTicks) {
  EXPECT_EQ(TicksOf(false, 0, 10), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(TicksOf(false, 0, 120), (std::vector<double>{0, 20, 40, 60, 80, 100, 120}));
  EXPECT_EQ(TicksOf(true, 1, 100), (std::vector<double>{1, 2, 5, 10, 20, 50, 100}));
  EXPECT_EQ(TicksOf(true, 3, 90'000), (std::vector<double>{10, 100, 1000, 10'000}));
  EXPECT_EQ(TicksOf(true, 41, 95), (std::vector<double>{50, 60, 70, 80, 90}));
  EXPECT_EQ(TickText(1'000'000), "1,000,000");
  EXPECT_EQ(TickText(0.25), "0.25");
  EXPECT_EQ(TickText(0), "0");
}

// As from medians that differ in their last bits, where a step is less than what one can count by.
TEST(ChartAxis, ValuesThatHardlyDifferAreOne) {
  for (const bool is_log : {false, true}) {
    for (const double padding : {0.0, 0.04}) {
      for (const double value : {100.0, 1e15}) {
        const double next = std::nextafter(value, 2 * value);
        AxisScale axis(is_log);
        axis.Cover(value);
        axis.Cover(next);
        axis.Settle(padding, 0, 100);
        EXPECT_LE(axis.Ticks().size(), 8u);
        EXPECT_TRUE(axis.IsOn(value) && axis.IsOn(next));
        EXPECT_NEAR(axis.At(value), axis.At(next), 1e-3);
      }
    }
  }
}

TEST(ChartAxis, NegativeValuesDoNotReachUpToZero) {
  AxisScale axis(/*is_log=*/false);
  axis.Cover(-5);
  axis.Cover(-3);
  axis.Settle(0, 0, 100);
  EXPECT_DOUBLE_EQ(axis.At(-3), 100);
}

TEST(ChartAxis, PlacesAndWhatIsTooFar) {
  AxisScale axis(/*is_log=*/true);
  axis.Cover(10);
  axis.Cover(-3);  // cannot be shown
  axis.Cover(1000);
  EXPECT_TRUE(axis.CoverIfNear(2));
  EXPECT_FALSE(axis.CoverIfNear(0.1));
  EXPECT_FALSE(axis.CoverIfNear(0));
  axis.Settle(0, 300, 0);
  EXPECT_DOUBLE_EQ(axis.At(2), 300);
  EXPECT_DOUBLE_EQ(axis.At(1000), 0);
  EXPECT_TRUE(axis.IsOn(2));
  EXPECT_FALSE(axis.IsOn(0.1));
}

Chart Example() {
  Chart chart{"a < b & \"c\"", "below", {"time (µs)", true}, {}};
  for (const char* label : {"evaluations", "time (s)"}) {
    chart.panels.push_back({{label},
                            {{Kind::kPoints, "tried", {1, 2, 2, 4}, {10, 200, 200, 5}, {}, {}},
                             {Kind::kSteps, "best so far", {1, 4}, {10, 5}, {}, {}},
                             {Kind::kLevel, "floor", {}, {4}, {}, {}},
                             {Kind::kLevel, "far", {}, {1e-3}, {}, {}},
                             {Kind::kMarks, "RUN_CRASH", {3, 3}, {}, {}, {}}}});
  }
  return chart;
}

TEST(ChartSvg, DrawsEachKindInEachPanel) {
  const std::string svg = ChartsToSvg({Example()});
  EXPECT_EQ(svg, ChartsToSvg({Example()}));
  EXPECT_EQ(Count(svg, "<polyline"), 2u);
  EXPECT_EQ(Count(svg, "h0"), 6u) << "equal points are drawn once";
  EXPECT_EQ(Count(svg, "v7"), 3u) << "two panels and the legend";
  EXPECT_EQ(Count(svg, "stroke-dasharray"), 4u) << "the near level twice, the legend twice";
  EXPECT_EQ(Count(svg, ">far (below)</text>"), 1u);
  EXPECT_EQ(Count(svg, ">evaluations</text>"), 1u);
  EXPECT_EQ(Count(svg, "a &lt; b &amp; \"c\""), 1u);
  EXPECT_EQ(Count(svg, "nan") + Count(svg, "inf"), 0u);
}

TEST(ChartSvg, DrawsCurvesWithTheirBands) {
  const Chart chart{"scores",
                    "",
                    {"y"},
                    {{{"x"},
                      {{Kind::kLine, "one", {0, 1, 2}, {0, 1, 4}, {-1, 0, 3}, {1, 2, 5}},
                       {Kind::kLine, "two", {0, 2}, {3, 3}, {}, {}}}}}};
  const std::string svg = ChartsToSvg({chart, chart});
  EXPECT_EQ(Count(svg, "<polyline"), 4u);
  EXPECT_EQ(Count(svg, "<polygon"), 2u);
  EXPECT_EQ(Count(svg, ">one</text>"), 2u);
}

TEST(ChartSvg, ManyPointsMakeASmallPicture) {
  ChartSeries points{Kind::kPoints, "tried", {}, {}, {}, {}};
  for (int i = 0; i < 300'000; ++i) {
    points.x.push_back(i);
    points.y.push_back(1 + i % 997);
  }
  const std::string svg = ChartsToSvg({{"", "", {"y", true}, {{{"x"}, {points}}}}});
  EXPECT_LT(svg.size(), size_t{2} << 20);
  EXPECT_EQ(Count(svg, "200,000"), 1u);
}

TEST(ChartSvg, NothingAndNumbersThatAreNone) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  for (const bool is_log : {false, true}) {
    Chart chart{"\x01", "", {"y", is_log}, {{{"x"}, {}}}};
    EXPECT_EQ(Count(ChartsToSvg({chart}), "nan"), 0u);
    for (const Kind kind : {Kind::kLine, Kind::kSteps, Kind::kPoints})
      chart.panels[0].series.push_back({kind, "", {1, nan, 3}, {nan, 2, infinity}, {}, {}});
    chart.panels[0].series.push_back({Kind::kLevel, "", {}, {nan}, {}, {}});
    chart.panels[0].series.push_back({Kind::kMarks, "", {nan, infinity}, {}, {}, {}});
    const std::string svg = ChartsToSvg({chart, chart});
    EXPECT_EQ(Count(svg, "nan") + Count(svg, "inf") + Count(svg, "\x01"), 0u) << svg;
  }
  EXPECT_EQ(Count(ChartsToSvg({}), "</svg>"), 1u);
}

}  // namespace
}  // namespace tunefarm::cli
