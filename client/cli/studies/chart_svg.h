// Charts as an SVG picture that stands for itself: axes, ticks, a legend, no scripts. The same data give the same
// bytes.
#pragma once

#include <string>
#include <vector>

namespace tunefarm::cli {

struct ChartSeries {
  enum class Kind {
    kLine,    // from point to point, with a band around it where there is one
    kSteps,   // each value holds until the next one
    kPoints,  // a dot each
    kLevel,   // a dashed line across all panels at y[0]; outside of the chart where it would push the data aside
    kMarks,   // a tick for each x in a row of its own at the upper edge: what has no y
  };
  Kind kind = Kind::kLine;
  std::string name;
  std::vector<double> x, y;           // as many of each; kLevel has no x, kMarks no y
  std::vector<double> y_low, y_high;  // the band; empty: none
};

struct ChartAxis {
  std::string label;  // with the unit
  bool is_log = false;
};

struct ChartPanel {
  ChartAxis x;
  std::vector<ChartSeries> series;
};

// Panels stand side by side over one y axis. They have series of the same names in the same order; the legend is that
// of the first.
struct Chart {
  std::string title, subtitle;
  ChartAxis y;
  std::vector<ChartPanel> panels;
};

// One picture, the charts below each other. Numbers that are not finite leave gaps, as do those that are not positive
// on a logarithmic axis. Dots that fall on one another are drawn once, so that a million of them make a small file.
std::string ChartsToSvg(const std::vector<Chart>& charts);

}  // namespace tunefarm::cli
